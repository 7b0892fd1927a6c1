//! `cargo xtask check`: the one gate, cheap to dear. What it accepts may be committed.

use std::time::Instant;

use anyhow::{Context, Result};

use crate::{fuzz, page, say, test_run, tidy, tool};

#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Args {
    /// Leave out the stock kernel
    #[arg(long)]
    quick: bool,
    /// Run the fuzzer for a moment too; the first time that builds everything again
    #[arg(long)]
    fuzz: bool,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let started = Instant::now();
    step("format", || cargo("fmt --all --check"))?;
    step("tidy", tidy::run)?;
    step("the page's script and style", page::lint)?;
    let clippy = "clippy --workspace --all-targets -- -D warnings";
    step("clippy", || cargo(clippy))?;
    step("documentation", documentation)?;
    step("packages of crates", packages)?;
    if args.fuzz {
        step("fuzz smoke", fuzz::smoke)?;
    }
    step("tests", || {
        test_run::run(test_run::Args {
            no_kernel: args.quick,
            long: false,
        })
    })?;
    say::step(&format!("all is well, {}", say::seconds(started.elapsed())));
    Ok(())
}

fn step(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    say::step(&format!("check: {name}"));
    let started = Instant::now();
    work().with_context(|| format!("check: {name}"))?;
    say::note(&format!("{name}: {}", say::seconds(started.elapsed())));
    Ok(())
}

fn cargo(arguments: &str) -> Result<()> {
    tool::run(&mut tool::cargo(arguments))
}

fn documentation() -> Result<()> {
    let mut doc = tool::cargo("doc --workspace --no-deps --document-private-items --quiet");
    tool::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Every crate that others can have packs: its manifest is whole, and each dependency has a version. What it builds
/// to is the workspace's own; compiling it once more would find no other fault, in many minutes.
pub(crate) fn packages() -> Result<()> {
    cargo(
        "package --workspace --exclude=xtask --exclude=haltwise-python --no-verify --allow-dirty --quiet --offline",
    )
}
