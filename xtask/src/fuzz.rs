//! `cargo xtask fuzz`, `cargo xtask fuzz-smoke`: the fuzz targets of every reader of bytes.
//!
//! They need a nightly compiler and cargo-fuzz. The targets' seeds also run as ordinary tests on a
//! stable compiler, so that a machine without those is not without any check.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{repo, say, tool};

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// How long each target runs
    #[arg(long, value_name = "MINUTES", default_value_t = 10)]
    minutes: u32,
    /// Only targets whose name contains this text
    filter: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let filter = args.filter.as_deref().unwrap_or_default();
    each(filter, &[format!("-max_total_time={}", args.minutes * 60)])
}

/// Runs each target for as long as it takes to see that it works.
pub(crate) fn smoke() -> Result<()> {
    each("", &["-runs=20000".into(), "-max_total_time=10".into()])
}

fn each(filter: &str, limits: &[String]) -> Result<()> {
    let root = repo::root();
    if let Some(reason) = obstacle() {
        say::skipped(&format!("fuzzing: {reason}"));
        return Ok(());
    }
    let files = repo::files(&root)?;
    let targets = files
        .iter()
        .filter_map(|path| path.strip_prefix("fuzz/fuzz_targets/")?.strip_suffix(".rs"));
    let targets: Vec<&str> = targets.filter(|name| name.contains(filter)).collect();
    ensure!(
        !targets.is_empty(),
        "no fuzz target has `{filter}` in its name"
    );
    for target in targets {
        say::step(&format!("fuzz {target}"));
        // The fuzzer adds to the first folder what it finds; the seeds only seed.
        let found = repo::target_dir().join("fuzz-corpus").join(target);
        std::fs::create_dir_all(&found).with_context(|| format!("create {}", found.display()))?;
        let seeds = root.join("fuzz/seeds").join(target);
        let mut command = nightly("+nightly fuzz run");
        command
            .current_dir(root.join("fuzz"))
            .arg(target)
            .arg(found);
        if seeds.is_dir() {
            command.arg(seeds);
        }
        // 2 GiB is far more than any reader may need for a small file.
        let bounds = "-verbosity=0 -timeout=20 -rss_limit_mb=2048 -print_final_stats=1";
        let bounds = bounds.split(' ');
        tool::run(command.arg("--").args(bounds).args(limits))?;
    }
    Ok(())
}

/// The toolchain that runs us must not stand in for the nightly one.
fn nightly(arguments: &str) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    cargo.args(arguments.split(' '));
    cargo
}

fn obstacle() -> Option<&'static str> {
    if tool::ask(&mut nightly("+nightly --version")).is_err() {
        return Some("there is no nightly compiler (rustup toolchain install nightly)");
    }
    let fuzz = tool::ask(&mut nightly("fuzz --version"));
    fuzz.is_err().then_some("cargo-fuzz is not installed")
}
