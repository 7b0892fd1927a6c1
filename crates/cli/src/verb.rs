//! The verbs, one file each.

mod apply;
mod completions;
mod costs;
mod diff;
mod doctor;
mod exits;
mod explain;
mod import;
mod ledger;
mod man;
mod profile;
pub(crate) mod prove;
mod record;
mod replay;
pub(crate) mod report;
mod status;
mod top;
mod tune;
mod undo;
mod verify;
mod version;

use clap::Subcommand;

use crate::exit::Outcome;

/// What haltwise can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Record the halts of the virtual machines on this host
    Record(record::Arguments),
    /// Watch what halts cost, live or through a capture
    Top(top::Arguments),
    /// Make a capture of what ftrace, perf or trace-cmd recorded
    Import(import::Arguments),
    /// Show where the halted time of a capture goes
    Report(report::Arguments),
    /// Show what made guests exit, and what that cost
    Exits(exits::Arguments),
    /// Show where VMs and their VMMs spend CPU time
    Profile(profile::Arguments),
    /// Say what a capture shows that can be put right, and how
    Explain(explain::Arguments),
    /// Compare two captures: what differs, and not by chance
    Diff(diff::Arguments),
    /// Hold recorded halts against the kernel's own rule
    Verify(verify::Arguments),
    /// Say what the recorded halts would have cost under other policies
    Replay(Box<replay::Arguments>),
    /// Recommend the setting that serves the recorded halts best
    Tune(Box<tune::Arguments>),
    /// Measure two settings in turn and say which is better
    Prove(Box<prove::Arguments>),
    /// Say how good predictions were: what prove foresaw, and what came of it
    Ledger(ledger::Arguments),
    /// Set KVM's parameters, in a way that can be undone
    Apply(apply::Arguments),
    /// Take back what apply has set
    Undo(undo::Arguments),
    /// Say what is set, who set it, and which VMs follow
    Status(status::Arguments),
    /// Say what can be seen on this host, and which settings are in force
    Doctor(doctor::Arguments),
    /// Print the version
    Version(version::Arguments),
    /// Print completions for a shell
    #[command(hide = true)]
    Completions(completions::Arguments),
    /// Print the manual page, or write one for each verb
    #[command(hide = true)]
    Man(man::Arguments),
}

impl Verb {
    /// Does it.
    pub(crate) fn run(self) -> Outcome {
        match self {
            Self::Record(arguments) => record::run(arguments),
            Self::Top(arguments) => top::run(arguments),
            Self::Import(arguments) => import::run(arguments),
            Self::Report(arguments) => report::run(&arguments),
            Self::Exits(arguments) => exits::run(&arguments),
            Self::Profile(arguments) => profile::run(&arguments),
            Self::Explain(arguments) => explain::run(&arguments),
            Self::Diff(arguments) => diff::run(&arguments),
            Self::Verify(arguments) => verify::run(arguments),
            Self::Replay(arguments) => replay::run(&arguments),
            Self::Tune(arguments) => tune::run(&arguments),
            Self::Prove(arguments) => prove::run(*arguments),
            Self::Ledger(arguments) => ledger::run(&arguments),
            Self::Apply(arguments) => apply::run(arguments),
            Self::Undo(arguments) => undo::run(arguments),
            Self::Status(arguments) => status::run(arguments),
            Self::Doctor(arguments) => doctor::run(&arguments),
            Self::Version(arguments) => version::run(&arguments),
            Self::Completions(arguments) => completions::run(&arguments),
            Self::Man(arguments) => man::run(&arguments),
        }
    }
}
