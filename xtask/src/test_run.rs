//! `cargo xtask test`: the tests of the gate, cheap to dear, or those that take long.
//!
//! Tests that are not run are printed as `skipped: reason`, and counted at the end.

mod programs;

use std::time::Instant;

use anyhow::{Result, bail};

use crate::{check, kernels, python, say, tool};

#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct Args {
    /// Leave out the stock kernel
    #[arg(long)]
    pub(crate) no_kernel: bool,
    /// Run what takes long instead: ignored tests, long simulations, Spark, packages of crates
    #[arg(long)]
    pub(crate) long: bool,
}

/// Runs the tests. A tier that fails does not keep the next from running.
pub(crate) fn run(args: Args) -> Result<()> {
    let began = Instant::now();
    let step = |what: &str| say::step(&format!("{what} ({})", say::seconds(began.elapsed())));
    step("building all programs: tests run them as processes");
    build()?;
    let programs = programs::build()?;
    step("tests of all crates");
    let mut outcome = vec![programs::run(&programs, args.long)];
    step("Python package");
    outcome.push(if args.long {
        python::run_all()
    } else {
        python::run()
    });
    if args.long {
        step("packages of crates");
        outcome.push(check::packages());
    } else if !args.no_kernel {
        step("a stock kernel under emulation");
        outcome.push(kernels::gate(None));
    }
    step(&format!("the end: {} skipped", say::skips()));
    let failed: Vec<String> = outcome
        .into_iter()
        .filter_map(|done| Some(format!("{:#}", done.err()?)))
        .collect();
    if !failed.is_empty() {
        bail!("{}", failed.join("\n"));
    }
    Ok(())
}

/// Builds all programs, the preloaded library, on which no target of cargo's own depends, and a VMM that live tests start.
pub(crate) fn build() -> Result<()> {
    let build = "build --workspace --lib --bins --example small_vmm";
    tool::run(&mut tool::cargo(build))
}
