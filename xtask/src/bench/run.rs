//! What every benchmark does: build the programs once, for release, measure, print, keep.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

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
