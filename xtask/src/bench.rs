//! `cargo xtask bench`: figures with their peers in the same run, and where they are kept.
//!
//! Timing is measured here and asserted nowhere. Every figure is a median over interleaved rounds with
//! its 95 % interval, and the raw rounds are kept under `measurements/`.

mod experiments;
mod kept;
mod run;

use anyhow::Result;
use clap::Subcommand;

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Every experiment of the lab; the page docs/experiments.md is made of what is kept
    Experiments(experiments::Args),
}

pub(crate) fn run(bench: &Bench) -> Result<()> {
    match bench {
        Bench::Experiments(args) => experiments::run(args),
    }
}
