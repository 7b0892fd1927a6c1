//! Two settings, measured in turn and compared. The design and the judgement are pure:
//! [`haltwise_core::prove`]. Here is what starts, records, sets and prints.
//!
//! | file | holds |
//! |---|---|
//! | [`sides`] | what both settings come to, on a host or in a guest |
//! | [`means`] | how a setting is put in force, and what was before |
//! | [`command`] | the command of a block, and what it printed |
//! | [`scopes`] | the VMs that a plan gives ceilings, and what came of each |
//! | [`meters`] | counters of the host read around a block |
//! | [`rule`] | what the running kernel carries of later ones |
//! | [`watch`] | one block: from the facts that come in to its halts |
//! | [`experiment`] | all blocks, round by round |
//! | [`judge`] | from what was measured to what is said |
//! | [`text`] | the same on a page; as data it is [`crate::proof`] |

mod command;
mod experiment;
mod judge;
mod means;
mod meters;
mod rule;
mod scopes;
mod sides;
pub(crate) mod text;
mod watch;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use haltwise_core::prove::setting::WantedPair;
use haltwise_core::recording::Rung;
use haltwise_host::discovery::VmSelector;
use haltwise_host::root::Root;
use regex_lite::Regex;

use self::experiment::Experiment;
use crate::collect::interrupt::Interrupt;
use crate::exit::{Exit, Failure, Outcome};
use crate::plan::Plan;
use crate::prices::GivenCosts;
use crate::prices::price::GivenPrice;
use crate::proof::ledger;
use crate::shown::Shown;
use crate::terminal;

#[derive(Debug)]
pub(crate) struct ProofRequest {
    pub(crate) pair: WantedPair,
    pub(crate) rounds: u32,
    /// Length of a block without a command.
    pub(crate) duration: Duration,
    /// What to cut off the beginning of each block; a tenth of it if not given.
    pub(crate) warm_up: Option<Duration>,
    pub(crate) metric: Option<Regex>,
    pub(crate) latency_weight_milli: u64,
    pub(crate) costs: GivenCosts,
    /// What is known of exits and IPIs of a guest.
    pub(crate) price: GivenPrice,
    /// Where the facts come from, if not from the best that works.
    pub(crate) rung: Option<Rung>,
    pub(crate) plan: Option<Plan>,
    /// VMs, where not all.
    pub(crate) vms: Vec<VmSelector>,
    /// The machine's parameters may be written.
    pub(crate) yes: bool,
    /// Where predictions and outcomes are kept.
    pub(crate) ledger: Option<PathBuf>,
    pub(crate) shown: Shown,
    /// The command that makes the load, or starts the VMs.
    pub(crate) command: Vec<OsString>,
    /// Keep it out of the result and the ledger.
    pub(crate) no_command: bool,
}

impl ProofRequest {
    fn specs(&self) -> [String; 2] {
        match &self.pair {
            WantedPair::Host([a, b]) => [a.to_string(), b.to_string()],
            WantedPair::Guest([a, b]) => [a.to_string(), b.to_string()],
        }
    }
}

pub(crate) fn run(wanted: &ProofRequest) -> Outcome {
    let root = Root::host();
    let interrupt = Interrupt::watch()?;
    let mut experiment = Experiment::prepare(wanted, &root)?;
    terminal::say(&experiment.greeting());
    let stopped = experiment.run(&interrupt);
    let finished = match (stopped, experiment.restore()) {
        (stopped, Ok(())) => stopped,
        // What the machine was left under matters more than why the experiment ended.
        (_, Err(failure)) => Err(failure),
    };
    let measured = experiment.measured();
    if measured.whole_rounds() < FEWEST_SHOWN {
        return match finished {
            Ok(()) => Err(too_short()),
            Err(failure) => Err(failure),
        };
    }
    let mut view = judge::view(wanted, &measured)?;
    if let Some(file) = &wanted.ledger {
        ledger::keep(file, &mut view);
    }
    let shown = &wanted.shown;
    shown.sort(&mut [&mut view.figures])?;
    shown.print_text(&view, |style| text::render(&view, shown.rows(), style))?;
    finished?;
    Ok(Exit::of_partial(view.partial || view.lost > 0))
}

/// A result of fewer rounds would be a guess.
const FEWEST_SHOWN: usize = 2;

fn too_short() -> Failure {
    let error = anyhow::anyhow!("ended before two rounds were measured: no result");
    Failure::new(Exit::Failed, error).hint("each round holds three blocks: let it run longer")
}
