//! The tasks of the repository: the gate, the tests in stock kernels, the benchmarks.
//!
//! One file per command. What needs a tool that is missing says `skipped: reason`.

#![forbid(unsafe_code)]

mod bench;
mod kernels;
mod repo;
mod say;
mod tool;

use anyhow::Result;
use clap::Parser;

/// Tasks of the haltwise repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Measure: overhead, truth, loss
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Test inside Debian's stock kernels, under emulation
    Kernels(kernels::Args),
}

fn main() -> Result<()> {
    match Task::parse() {
        Task::Bench(bench) => bench::run(&bench),
        Task::Kernels(args) => kernels::run(&args),
    }
}
