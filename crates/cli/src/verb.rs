//! The verbs, one file each.

mod apply;
mod calibrate;
mod check;
mod diff;
mod fleet;
mod import;
mod metrics;
pub(crate) mod now;
mod pages;
mod pilot;
mod prove;
mod record;
mod report;
mod status;
mod top;
mod tune;
mod undo;
mod verify;

use clap::Subcommand;

use crate::exit::Outcome;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Record(record::Arguments),
    Top(top::Arguments),
    Metrics(Box<metrics::Arguments>),
    Import(import::Arguments),
    Check(check::Arguments),
    Report(Box<report::Arguments>),
    Diff(diff::Arguments),
    Verify(verify::Arguments),
    Tune(Box<tune::Arguments>),
    Calibrate(calibrate::Arguments),
    #[command(subcommand)]
    Fleet(fleet::Fleet),
    Prove(Box<prove::Arguments>),
    Apply(apply::Arguments),
    Undo(undo::Arguments),
    Pilot(Box<pilot::Arguments>),
    Status(status::Arguments),
    /// Write manual pages, shell completions, and pages and schemas of JSON, for packages
    #[command(hide = true)]
    Pages(pages::Arguments),
}

impl Verb {
    pub(crate) fn run(self) -> Outcome {
        match self {
            Self::Record(arguments) => record::run(arguments),
            Self::Top(arguments) => top::run(arguments),
            Self::Metrics(arguments) => metrics::run(*arguments),
            Self::Import(arguments) => import::run(arguments),
            Self::Check(arguments) => check::run(&arguments),
            Self::Report(arguments) => report::run(&arguments),
            Self::Diff(arguments) => diff::run(&arguments),
            Self::Verify(arguments) => verify::run(&arguments),
            Self::Tune(arguments) => tune::run(&arguments),
            Self::Calibrate(arguments) => calibrate::run(&arguments),
            Self::Fleet(fleet) => fleet.run(),
            Self::Prove(arguments) => prove::run(*arguments),
            Self::Apply(arguments) => apply::run(&arguments),
            Self::Undo(arguments) => undo::run(&arguments),
            Self::Pilot(arguments) => pilot::run(*arguments),
            Self::Status(arguments) => status::run(&arguments),
            Self::Pages(arguments) => pages::run(&arguments),
        }
    }
}
