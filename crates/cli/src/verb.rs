//! The verbs, one file each.

mod apply;
mod calibrate;
mod check;
mod costs;
mod diff;
mod doctor;
mod exits;
mod explain;
mod fleet;
mod import;
mod ledger;
mod metrics;
pub(crate) mod now;
mod pages;
mod pilot;
mod profile;
mod prove;
mod record;
mod repair;
mod replay;
mod report;
mod status;
mod top;
mod tune;
mod undo;
mod verify;

use clap::Subcommand;

use crate::exit::Outcome;

/// What haltwise can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Record for ten seconds and say what polling costs here (the default)
    Now(now::Arguments),
    /// Record the halts of the virtual machines on this host
    Record(record::Arguments),
    /// Show the cost of halts live, or step through a capture
    Top(top::Arguments),
    /// Serve the halts of all VMs as metrics for Prometheus
    Metrics(Box<metrics::Arguments>),
    /// Convert ftrace, perf or trace-cmd output to a capture
    Import(import::Arguments),
    /// Check a capture for damage
    Check(check::Arguments),
    /// Make a finished capture of one that was cut or damaged
    Repair(repair::Arguments),
    /// Summarize the halts of a capture
    Report(report::Arguments),
    /// Show VM exits by reason, count and handling time
    Exits(exits::Arguments),
    /// Show where vCPU and VMM threads spend CPU time
    Profile(profile::Arguments),
    /// Find problems in a capture and suggest remedies
    Explain(explain::Arguments),
    /// Compare two captures for statistically significant differences
    Diff(diff::Arguments),
    /// Check recorded halts against KVM's halt polling algorithm
    Verify(verify::Arguments),
    /// Compute what the recorded halts would cost under other policies
    Replay(Box<replay::Arguments>),
    /// Recommend the best setting for the recorded halts
    Tune(Box<tune::Arguments>),
    /// Measure what a sleep and a wake-up cost on this host
    Calibrate(calibrate::Arguments),
    /// Write what every setting would cost each VM of a capture
    Costs(Box<costs::Arguments>),
    /// Recommend settings for a fleet from costs tables
    Fleet(Box<fleet::Arguments>),
    /// Measure two settings alternately and compare them
    Prove(Box<prove::Arguments>),
    /// Show how accurate past predictions were
    Ledger(ledger::Arguments),
    /// Set KVM's halt polling parameters
    Apply(apply::Arguments),
    /// Restore the settings from before apply
    Undo(undo::Arguments),
    /// Decide all the time which setting serves each VM
    Pilot(Box<pilot::Arguments>),
    /// Show the settings, who set them, and which VMs they apply to
    Status(status::Arguments),
    /// Check what haltwise can record on this host
    Doctor(doctor::Arguments),
    /// Write manual pages, shell completions, and pages and schemas of JSON, for packages
    #[command(hide = true)]
    Pages(pages::Arguments),
}

impl Verb {
    pub(crate) fn run(self) -> Outcome {
        match self {
            Self::Now(arguments) => now::run(&arguments),
            Self::Record(arguments) => record::run(arguments),
            Self::Top(arguments) => top::run(arguments),
            Self::Metrics(arguments) => metrics::run(*arguments),
            Self::Import(arguments) => import::run(arguments),
            Self::Check(arguments) => check::run(&arguments),
            Self::Repair(arguments) => repair::run(&arguments),
            Self::Report(arguments) => report::run(&arguments),
            Self::Exits(arguments) => exits::run(&arguments),
            Self::Profile(arguments) => profile::run(&arguments),
            Self::Explain(arguments) => explain::run(&arguments),
            Self::Diff(arguments) => diff::run(&arguments),
            Self::Verify(arguments) => verify::run(&arguments),
            Self::Replay(arguments) => replay::run(&arguments),
            Self::Tune(arguments) => tune::run(&arguments),
            Self::Calibrate(arguments) => calibrate::run(&arguments),
            Self::Costs(arguments) => costs::run(&arguments),
            Self::Fleet(arguments) => fleet::run(&arguments),
            Self::Prove(arguments) => prove::run(*arguments),
            Self::Ledger(arguments) => ledger::run(&arguments),
            Self::Apply(arguments) => apply::run(arguments),
            Self::Undo(arguments) => undo::run(&arguments),
            Self::Pilot(arguments) => pilot::run(*arguments),
            Self::Status(arguments) => status::run(&arguments),
            Self::Doctor(arguments) => doctor::run(&arguments),
            Self::Pages(arguments) => pages::run(&arguments),
        }
    }
}
