//! The programs under measurement: built once, for release; and one run of the lab.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{repo, say, tool};

/// The release binaries.
pub(crate) struct Programs {
    pub(crate) haltwise: PathBuf,
    pub(crate) lab: PathBuf,
}

impl Programs {
    /// Builds them.
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

    /// One run of the lab: what it prints as JSON.
    pub(crate) fn lab(&self, arguments: &[&str]) -> Result<Value> {
        let text = tool::ask(
            Command::new(&self.lab)
                .args(["run", "--json"])
                .args(arguments),
        )?;
        serde_json::from_str(&text).context("read what the lab printed")
    }
}

/// Why nothing can be measured here, if so.
pub(crate) fn obstacle() -> Option<&'static str> {
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
