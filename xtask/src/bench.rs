//! `cargo xtask bench`: figures with their peers in the same run, and where they are kept.
//!
//! Timing is measured here and asserted nowhere. Every figure is a median over interleaved rounds with
//! its 95 % interval, and the raw rounds are kept under `measurements/`.

mod ceilings;
mod experiments;
mod kept;
mod pilot;
mod run;

use anyhow::Result;
use clap::Subcommand;

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Every experiment of the lab; the page docs/experiments.md is made of what is kept
    Experiments(experiments::Args),
    /// What ceilings of single VMs save over one setting, predicted and measured
    Ceilings(ceilings::Args),
    /// What the pilot does to VMs whose loads change, and in the published case
    Pilot(pilot::Args),
}

pub(crate) fn run(bench: &Bench) -> Result<()> {
    match bench {
        Bench::Experiments(args) => experiments::run(args),
        Bench::Ceilings(args) => ceilings::run(args),
        Bench::Pilot(args) => pilot::run(args),
    }
}
