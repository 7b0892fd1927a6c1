//! `haltwise prove`: the command line; the work is in [`crate::prove`].

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::anyhow;
use haltwise_core::prove::setting::{GivenSetting, WantedPair};
use haltwise_host::root::Root;

use crate::exit::{Exit, Failure, Outcome};
use crate::ledger as history;
use crate::plan::{Plan, Scope};
use crate::prices::price::no_prices;
use crate::proof::ledger;
use crate::prove::{self, Given, ProofRequest};
use crate::recommend::goal::{self, Weight};
use crate::recommend::say;

#[derive(Debug, clap::Args)]
#[command(
    about = "Measure two settings alternately and compare them; show past proofs",
    long_about = "Measure two settings alternately and compare them; show past proofs

Each round has three periods of the same load in random order: one with setting \
A, one with B, and a second one with A as the control. Only periods of the same \
round are compared. The verdict is about the cost of a halt: CPU time for \
polling and switching, plus wake-up latency with the weight of the goal.

If COMMAND contains {halt_poll_ns}, it starts the VMs itself and gives them the \
ceiling (in ns) that replaces that word; no setting of the host is changed. \
Otherwise the host's parameters are set, which needs --yes, and restored at the \
end; with --plan also the ceilings of its VMs. Where each running VM has a ceiling \
in the plan, halt_poll_ns is not set: under A each has that of A.

In a Linux guest with the governor haltpoll, settings are its parameters by name. \
They are set in this guest and restored at the end, and the idle periods of its \
own CPUs are measured, with HLT exits, IPIs and context switches.",
    after_long_help = "EXAMPLES
  haltwise prove --a off --b kvm:max=50us -- \\
      haltwise-lab run pingpong --gap exp:60us --cap {halt_poll_ns}
  haltwise prove --a current --b kvm:max=80us,shrink=0 --duration 10s --yes
  haltwise prove --a current --b off --metric 'p99 +([0-9.]+)' --yes -- \\
      ./load.sh
  haltwise prove --plan plan.json --duration 10s --yes
  haltwise prove --a guest_halt_poll_ns=0 \\
      --b guest_halt_poll_ns=750us,guest_halt_poll_grow=4 --yes
  haltwise prove --history                how accurate past predictions were

SPEC is `off`, `current`, or `kvm:max=TIME,grow=N,grow_start=TIME,shrink=N`; in
a guest guest_halt_poll_ns=TIME and _grow, _grow_start, _shrink, _allow_shrink.
Parameters that are not given keep their current values.

Each proof of six rounds or more appends its prediction and result to the
ledger. Entries are never changed or removed.

Exits with 5 if it was interrupted, if events were lost, or if some lines of the
ledger cannot be read."
)]
pub(crate) struct Arguments {
    /// Show the accuracy of past predictions, from the ledger
    #[arg(long, conflicts_with_all = ["a", "b", "plan", "guest", "Weight", "GivenCosts", "GivenPrice",
        "rounds", "duration", "warm_up", "metric", "vms", "rung", "yes", "no_command", "command"])]
    history: bool,
    /// Setting A, the baseline [default with --plan: current]
    #[arg(long, value_name = "SPEC", required_unless_present_any = ["plan", "history"])]
    a: Option<GivenSetting>,
    /// Setting B
    #[arg(long, value_name = "SPEC", required_unless_present_any = ["plan", "history"])]
    b: Option<GivenSetting>,
    /// Test this plan as setting B; overrides --goal
    #[arg(long, value_name = "PLAN", conflicts_with = "b")]
    plan: Option<PathBuf>,
    /// Measure this machine's own idle CPUs, as a guest
    #[arg(long)]
    guest: bool,
    #[command(flatten)]
    weight: Weight,
    /// Ledger file of predictions and results
    ///
    /// [default: /var/lib/haltwise/ledger.jsonl for root, else
    /// ~/.local/state/haltwise/ledger.jsonl]
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    #[command(flatten)]
    given: Given,
}

fn setting(plan: &Plan) -> Result<GivenSetting, Failure> {
    let of = &plan.settings;
    let text = match plan.scope {
        _ if of.is_empty() => "current".to_owned(),
        Scope::Guest => say::words(of, |(name, value)| format!("{name}={value}"), ","),
        Scope::Host | Scope::HostAndVms => say::spec(of),
    };
    Ok(text.parse()?)
}

pub(crate) fn run(arguments: Arguments) -> Outcome {
    if arguments.history {
        return history::read(arguments.ledger.as_deref())?.print(&arguments.given.shown);
    }
    let plan = arguments.plan.as_deref().map(Plan::read).transpose()?;
    let (a, b) = match &plan {
        Some(plan) => {
            let current = || GivenSetting::from_str("current");
            let a = arguments.a.map_or_else(current, Ok)?;
            (Some(a), Some(setting(plan)?))
        }
        None => (arguments.a, arguments.b),
    };
    let (Some(a), Some(b)) = (a, b) else {
        return Err(Failure::new(Exit::Usage, anyhow!("--a and --b are needed")));
    };
    let in_guest = arguments.guest || plan.as_ref().is_some_and(|it| it.scope == Scope::Guest);
    let pair = WantedPair::of([a, b], in_guest)
        .map_err(|error| Failure::new(Exit::Usage, anyhow!(error)))?;
    if pair.side.is_host() {
        no_prices(arguments.given.price)?;
    }
    prove::run(&ProofRequest {
        pair,
        latency_weight_milli: (plan.as_ref()).map_or(arguments.weight.milli(), |plan| {
            goal::milli(plan.goal.lambda)
        }),
        plan,
        ledger: (arguments.ledger).or_else(|| ledger::place(&Root::host())),
        given: arguments.given,
    })
}
