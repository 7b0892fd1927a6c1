//! `cargo xtask test`: every tier of tests, cheap to dear. The last words are the test runner's.

mod quiet;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};

use crate::{check, kernels, python, repo, say, tool};

/// What `cargo xtask test` takes.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct Args {
    /// Leave out the stock kernels
    #[arg(long)]
    pub(crate) no_kernels: bool,
}

/// No stock kernel is booted later than this: CI has 40 minutes, and a boot that the emulator spoils
/// twice takes five.
const LAST_BOOT: Duration = Duration::from_mins(32);

/// The Python package is not begun later than this: its wheel is a build of its own, both take five minutes at the most, and
/// kernels come after it.
const LAST_WHEEL: Duration = Duration::from_mins(22);

/// Tests of `tests/kernels.rs`, by how their names begin. Each part runs in all kernels before the next does, so
/// that none is left out as a whole where time is over.
const KERNEL_PARTS: [&str; 4] = ["witnesses_on", "linux_guest_on", "rule_on", "rest_on"];

/// Runs the tests. A tier that fails does not keep the next from running.
pub(crate) fn run(args: Args) -> Result<()> {
    let root = repo::root();
    // CI has 40 minutes: its log tells where they went.
    let began = Instant::now();
    let step = |what: &str| say::step(&format!("{what} ({})", say::seconds(began.elapsed())));
    step("building all programs: tests run them as processes");
    tool::run(tool::cargo(&root).args(["build", "--workspace", "--bins"]))?;
    // No target of cargo's own depends on a library that is preloaded.
    tool::run(tool::cargo(&root).args(["build", "-p", "haltwise-preload"]))?;
    step("tests of all crates");
    // Tests that cannot run here print `skipped: reason`; that must be seen, and no more of what
    // tests say that succeed.
    let all = [
        "test",
        "--workspace",
        "--no-fail-fast",
        "--",
        "--show-output",
    ];
    let mut cargo = tool::cargo(&root);
    // Some tests make decoders panic, a thousand times over; a line for each is enough.
    cargo.args(all).env("RUST_BACKTRACE", "0");
    let mut quiet = quiet::Quiet::default();
    let mut outcome = vec![tool::run_reading(&mut cargo, |line| {
        if quiet.shows(line) {
            say::line(line);
        }
    })];
    step("packages of crates.io");
    outcome.push(check::packages());
    step("Python package");
    if began.elapsed() < LAST_WHEEL {
        outcome.push(python::run());
    } else {
        say::skipped("the Python package: no time is left; `cargo xtask python` runs it");
    }
    if !args.no_kernels {
        step("stock kernels under emulation");
        let left = LAST_BOOT.saturating_sub(began.elapsed());
        let until = SystemTime::now().duration_since(UNIX_EPOCH);
        for part in KERNEL_PARTS {
            let names = ["test", "-p", "xtask", "--test", "kernels", "--", part];
            let visibly = ["--ignored", "--nocapture", "--test-threads=1"];
            let mut cargo = tool::cargo(&root);
            if let Ok(now) = &until {
                cargo.env(kernels::UNTIL, (*now + left).as_secs().to_string());
            }
            outcome.push(tool::run(cargo.args(names).args(visibly)));
        }
    }
    let failed: Vec<String> = outcome
        .into_iter()
        .filter_map(|done| Some(format!("{:#}", done.err()?)))
        .collect();
    if !failed.is_empty() {
        bail!("{}", failed.join("\n"));
    }
    Ok(())
}

#[cfg(test)]
mod test {
    use super::*;

    /// A filter that meets no test is no failure for the test runner.
    #[test]
    fn every_kernel_has_a_test_of_every_part() {
        let tests = include_str!("../tests/kernels.rs");
        for part in KERNEL_PARTS {
            for series in kernels::names() {
                let name = format!(" {part}_{}: ", series.replace('.', "_"));
                assert!(tests.contains(&name), "{name}");
            }
        }
    }
}
