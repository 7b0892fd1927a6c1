//! Two settings, measured in turn and compared. The design and the judgement are pure:
//! [`haltwise_core::prove`]. Here is what starts, records, sets and prints.
//!
//! | file | holds |
//! |---|---|
//! | [`sides`] | both settings on this host or in this guest, and what a replay plays under them |
//! | [`parameters`] | the machine's parameters, set and restored |
//! | [`command`] | the command of a block, and what it printed |
//! | [`scopes`] | the VMs that a plan gives ceilings, and what came of each |
//! | [`meters`] | counters of the host read around a block |
//! | [`watch`] | one block: from the facts that come in to its halts |
//! | [`experiment`] | all blocks, round by round |
//! | [`judge`] | from what was measured to what is said |
//! | [`page`] | the same on a screen, and as a section of the page; as data it is [`crate::proof`] |

mod command;
mod experiment;
mod judge;
mod meters;
pub(crate) mod page;
mod parameters;
mod scopes;
mod sides;
mod watch;

use std::ffi::OsString;
use std::path::PathBuf;

use haltwise_core::prove::setting::WantedPair;
use haltwise_core::recording::Rung;
use haltwise_core::units::Nanos;
use haltwise_host::discovery::VmSelector;
use haltwise_host::root::Root;
use regex_lite::Regex;

use self::experiment::Experiment;
use crate::collect::interrupt::Interrupt;
use crate::exit::{Exit, Failure, Outcome};
use crate::offered;
use crate::plan::Plan;
use crate::prices::GivenCosts;
use crate::prices::price::GivenPrice;
use crate::proof::ledger;
use crate::shown::Shown;
use crate::terminal;
use crate::time;

#[derive(Debug, clap::Args)]
pub(crate) struct Given {
    /// Number of rounds
    ///
    /// With 12, one may be disturbed without effect on the verdict.
    #[arg(long, value_name = "N", default_value_t = 12,
          value_parser = clap::value_parser!(u32).range(2..=200))]
    pub(crate) rounds: u32,
    /// Length of a period if COMMAND does not determine it
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time::duration, allow_hyphen_values = true)]
    pub(crate) duration: Nanos,
    /// Time to ignore at the start of each period [default: a tenth of it]
    #[arg(long, value_name = "TIME", value_parser = time::seconds)]
    pub(crate) warm_up: Option<Nanos>,
    /// Metric printed by COMMAND: a regular expression with one group
    ///
    /// The group matches a number; the last match in the output counts.
    #[arg(long, value_name = "REGEX", value_parser = metric, requires = "command")]
    pub(crate) metric: Option<Regex>,
    #[command(flatten)]
    pub(crate) costs: GivenCosts,
    #[command(flatten)]
    pub(crate) price: GivenPrice,
    /// Only this VM, by a name, UUID, VMID or PID; may be repeated
    #[arg(long = "vm", value_name = "PID|NAME")]
    pub(crate) vms: Vec<VmSelector>,
    /// Source of events: bpf or tracepoints [default: the best available]
    #[arg(long = "source", value_name = "SOURCE", hide_possible_values = true, value_parser = offered::known::<Rung>(&["bpf", "tracepoints"]))]
    pub(crate) rung: Option<Rung>,
    /// Set the parameters, and restore them at the end
    #[arg(long)]
    pub(crate) yes: bool,
    /// Do not store COMMAND: it may contain a secret
    #[arg(long)]
    pub(crate) no_command: bool,
    #[command(flatten)]
    pub(crate) shown: Shown,
    /// Command to run in each period
    ///
    /// It starts the VMs, or generates the load.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

fn metric(text: &str) -> Result<Regex, String> {
    let regex = Regex::new(text).map_err(|error| error.to_string())?;
    match regex.captures_len() {
        2 => Ok(regex),
        n => Err(format!("must have one group in parentheses, not {}", n - 1)),
    }
}

#[derive(Debug)]
pub(crate) struct ProofRequest {
    pub(crate) pair: WantedPair,
    pub(crate) latency_weight_milli: u64,
    pub(crate) plan: Option<Plan>,
    pub(crate) ledger: Option<PathBuf>,
    pub(crate) given: Given,
}

impl ProofRequest {
    fn specs(&self) -> [String; 2] {
        self.pair.settings.each_ref().map(ToString::to_string)
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
        // The setting under which the machine was left matters more than why the experiment ended.
        (_, Err(failure)) => Err(failure),
    };
    if experiment.whole_rounds() < FEWEST_SHOWN {
        return match finished {
            Ok(()) => Err(too_short()),
            Err(failure) => Err(failure),
        };
    }
    let mut view = judge::view(wanted, &experiment)?;
    if let Some(file) = &wanted.ledger {
        ledger::keep(file, &mut view);
    }
    let shown = &wanted.given.shown;
    shown.sort(&mut [&mut view.figures])?;
    shown.print(&view, |top| page::document(&view, top))?;
    finished?;
    Ok(Exit::of_partial(view.partial || view.lost > 0))
}

/// A result of fewer rounds would be a guess.
const FEWEST_SHOWN: usize = 2;

fn too_short() -> Failure {
    let error = anyhow::anyhow!("ended before two rounds were measured: no result");
    Failure::new(Exit::Failed, error).hint("each round holds three blocks: let it run longer")
}
