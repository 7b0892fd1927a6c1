//! The programs, built once for release, and why nothing can be measured.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

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
