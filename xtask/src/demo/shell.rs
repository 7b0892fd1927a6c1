//! Where a demo leaves what it makes, and our programs by the words that a user would type.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::kernels::Binaries;
use crate::{repo, say, tool};

/// Where everything is left.
pub(super) const OUT: &str = "demo-out";

/// What an earlier demo left.
const OLD: [&str; 6] = [
    "capture",
    "calibration.json",
    "plan.json",
    "proof-in-force.json",
    "proof-off.json",
    "report.html",
];

/// The folder, without what an earlier demo left.
pub(super) fn empty_out() -> Result<PathBuf> {
    let out = repo::root().join(OUT);
    for old in OLD {
        remove(&out.join(old))?;
    }
    std::fs::create_dir_all(&out).with_context(|| format!("create {}", out.display()))?;
    Ok(out)
}

fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() {
        std::fs::remove_dir_all(path)
    } else if path.exists() {
        std::fs::remove_file(path)
    } else {
        Ok(())
    };
    removed.with_context(|| format!("remove the last demo's {}", path.display()))
}

/// Runs our programs.
pub(super) struct Shell {
    binaries: Binaries,
}

impl Shell {
    /// Those that were built together with us.
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            binaries: Binaries::beside_us()?,
        })
    }

    /// `haltwise` with these words.
    pub(super) fn command(&self, words: &str) -> Command {
        let mut command = Command::new(&self.binaries.haltwise);
        command.current_dir(repo::root());
        for word in words.split_whitespace() {
            // The lab is not installed: it lies beside.
            match word {
                "haltwise-lab" => command.arg(&self.binaries.lab),
                _ => command.arg(word),
            };
        }
        command
    }

    /// Shows the words, and runs them.
    pub(super) fn haltwise(&self, words: &str) -> Result<()> {
        say::step(&format!("haltwise {words}"));
        tool::run(&mut self.command(words))
    }

    /// Shows words for the lab, and gives what it says to them.
    pub(super) fn ask_lab(&self, words: &str) -> Result<String> {
        say::step(&format!("haltwise-lab {words}"));
        let said = tool::ask(Command::new(&self.binaries.lab).args(words.split(' ')))?;
        if said.trim().is_empty() {
            bail!("haltwise-lab {words} says nothing");
        }
        Ok(said)
    }
}
