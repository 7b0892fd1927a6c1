//! What every benchmark does: build the programs once, for release, measure, print, keep. And what it
//! does it with: one run of the lab, alone or recorded.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::kept::Kept;
use crate::{repo, say, tool};

pub(crate) struct Programs {
    pub(crate) haltwise: PathBuf,
    pub(crate) lab: PathBuf,
}

impl Programs {
    pub(crate) fn build() -> Result<Self> {
        say::step("build haltwise and haltwise-lab for release");
        let root = repo::root();
        tool::run(tool::cargo(&root).args([
            "build",
            "--release",
            "--quiet",
            "-p",
            "haltwise",
            "-p",
            "haltwise-lab",
        ]))?;
        let release = repo::target_dir().join("release");
        Ok(Self {
            haltwise: release.join("haltwise"),
            lab: release.join("haltwise-lab"),
        })
    }
}

/// Measures, prints the summary and keeps the figures; says so where nothing can be measured.
pub(crate) fn bench<'a>(
    discard: bool,
    measure: impl FnOnce(&Programs) -> Result<Kept<'a>>,
) -> Result<()> {
    if let Some(reason) = obstacle() {
        say::skipped(reason);
        return Ok(());
    }
    let kept = measure(&Programs::build()?)?;
    for line in kept.figures.summary.lines() {
        say::note(line);
    }
    if !discard {
        kept.write()?;
    }
    Ok(())
}

/// Makes `record` record the lab, which prints its JSON into a file, and gives what both say. `pin` is
/// a command that starts the lab, if any; `ask` runs the recorder and gives its stdout.
pub(crate) fn recorded(
    programs: &Programs,
    ask: fn(&mut Command) -> Result<String>,
    record: &mut Command,
    pin: &[&str],
    lab: &[&str],
    folder: &Path,
) -> Result<(String, Value)> {
    let lab_json = folder.join("lab.json");
    // stdout is the recorder's.
    record.args([
        "--",
        "sh",
        "-c",
        "out=$1; shift; exec \"$@\" >\"$out\"",
        "sh",
    ]);
    record.arg(&lab_json).args(pin).arg(&programs.lab);
    let said = ask(record.args(["run", "--json"]).args(lab))?;
    let text = std::fs::read_to_string(&lab_json).context("read what the lab printed")?;
    let lab = serde_json::from_str(&text).context("read what the lab printed")?;
    Ok((said, lab))
}

/// Why nothing can be measured here, if so.
pub(super) fn obstacle() -> Option<&'static str> {
    let kvm = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/kvm");
    if kvm.is_err() {
        return Some("/dev/kvm cannot be used");
    }
    if tool::ask(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() != "0") {
        return Some("not root");
    }
    None
}

/// A number of the lab's JSON, by its path (`/vms/0/round_trip_ns/p50`).
pub(crate) fn number(outcome: &Value, pointer: &str) -> Result<f64> {
    match outcome.pointer(pointer).and_then(Value::as_f64) {
        Some(number) => Ok(number),
        None => bail!("the lab's output has no number at {pointer}"),
    }
}
