//! `cargo xtask test`: the tests of the gate, cheap to dear, or those that take long.
//!
//! What is not run is printed as `skipped: reason`, and counted at the end.

mod quiet;

use std::time::Instant;

use anyhow::{Result, bail};

use crate::{check, kernels, python, repo, say, tool};

/// What `cargo xtask test` takes.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct Args {
    /// Leave out the stock kernel
    #[arg(long)]
    pub(crate) no_kernel: bool,
    /// Run what takes long instead: ignored tests, long simulations, Spark, packages of crates
    #[arg(long)]
    pub(crate) long: bool,
}

/// Simulations as long as they are meant to be; the gate's are samples.
const LONG: [(&str, &str); 3] = [
    ("HALTWISE_WORLDS", "10000"),
    ("HALTWISE_DAYS", "10000"),
    ("HALTWISE_FLIPS", "500"),
];

/// Programs with tests that take long and are ignored for that; other ignored tests are parts of others, or write files.
const LONG_TESTS: [&str; 8] = [
    "-p=haltwise",
    "--test=live",
    "--test=golden",
    "--no-fail-fast",
    "--",
    "--show-output",
    "--ignored",
    "--skip=an_hour_of_ten_vms",
];

/// Runs the tests. A tier that fails does not keep the next from running.
pub(crate) fn run(args: Args) -> Result<()> {
    let began = Instant::now();
    let step = |what: &str| say::step(&format!("{what} ({})", say::seconds(began.elapsed())));
    step("building all programs: tests run them as processes");
    build()?;
    step("tests of all crates");
    let all = ["--workspace", "--no-fail-fast", "--", "--show-output"];
    let mut outcome = vec![cargo_test(&all, args.long)];
    if args.long {
        outcome.push(cargo_test(&LONG_TESTS, true));
    }
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
        outcome.push(kernels::gate(&kernels::Binaries::beside_us()?, None));
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

/// Builds all programs and the preloaded library, on which no target of cargo's own depends.
pub(crate) fn build() -> Result<()> {
    let args = ["build", "--workspace", "--lib", "--bins"];
    tool::run(tool::cargo(&repo::root()).args(args))
}

/// Tests that cannot run here print `skipped: reason`; that must be seen, and no more of what tests say that succeed.
fn cargo_test(args: &[&str], long: bool) -> Result<()> {
    let mut cargo = tool::cargo(&repo::root());
    cargo.arg("test").args(args);
    cargo.envs(LONG.into_iter().filter(|_| long));
    // Some tests make decoders panic, a thousand times over; a line for each is enough.
    cargo.env("RUST_BACKTRACE", "0");
    let mut quiet = quiet::Quiet::default();
    tool::run_reading(&mut cargo, |line| {
        if quiet.shows(line) {
            match line.strip_prefix("skipped: ") {
                Some(reason) => say::skipped(reason),
                None => say::line(line),
            }
        }
    })
}
