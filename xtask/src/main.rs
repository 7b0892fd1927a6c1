//! The tasks of the repository: the gate, the tests in stock kernels, packages.
//!
//! One file per command. What needs a tool that is missing says `skipped: reason`.

#![forbid(unsafe_code)]

mod check;
mod dist;
mod fuzz;
mod kernels;
mod page;
mod python;
mod repo;
mod say;
mod test_run;
mod tidy;
mod tool;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// The gate: format, tidy, lints, documentation, all tests
    Check(check::Args),
    /// Make what is handed out: an archive, a .deb and a .rpm of static programs
    Dist(dist::Args),
    /// Run every tier of tests
    Test(test_run::Args),
    /// Test inside Debian's stock kernels, under emulation
    Kernels(kernels::Args),
    /// Measure the sources' effects on stock Linux guests, by counts
    Rig(kernels::linux_guest::rig::Args),
    /// Fuzz every reader of bytes
    Fuzz(fuzz::Args),
    /// See that the fuzz targets work
    FuzzSmoke,
    /// Build the Python package and run its tests
    Python,
    /// Check the rules that no compiler knows
    Tidy,
    /// Count lines of Rust by crate and by feature, against the budget
    Size(tidy::SizeArgs),
}

#[expect(clippy::print_stderr, reason = "the last word of a task that failed")]
fn main() -> ExitCode {
    match run(Task::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Not `{:?}`: a backtrace through our own tasks says nothing.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Check(args) => check::run(args),
        Task::Dist(args) => dist::run(&args),
        Task::Test(args) => test_run::run(args),
        Task::Fuzz(args) => fuzz::run(&args),
        Task::FuzzSmoke => fuzz::smoke(),
        Task::Kernels(args) => kernels::run(&args),
        Task::Rig(args) => kernels::linux_guest::rig::run(&args),
        Task::Python => python::run_all(),
        Task::Tidy => tidy::run(),
        Task::Size(args) => tidy::size(args),
    }
}
