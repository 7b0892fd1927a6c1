//! Where a demo leaves what it makes, and our programs by the words that a user would type.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{repo, say, tool};

pub(super) const OUT: &str = "demo-out";

/// Our programs, which are built and not installed.
const PROGRAMS: [&str; 3] = ["haltwise", "haltwise-lab", "examples/large_fleet"];

pub(super) struct Shell {
    pub(super) built: PathBuf,
}

impl Shell {
    /// Builds what is asked for, and removes what the last demo left.
    pub(super) fn new(packages: &str) -> Result<Self> {
        tool::run(&mut tool::cargo(&format!(
            "build --profile=demo {packages}"
        )))?;
        let out = repo::root().join(OUT);
        if out.exists() {
            std::fs::remove_dir_all(&out).context("remove what the last demo left")?;
        }
        std::fs::create_dir_all(&out).with_context(|| format!("create {}", out.display()))?;
        let built = repo::target_dir().join("demo");
        Ok(Self { built })
    }

    pub(super) fn program(&self, word: &str) -> PathBuf {
        if PROGRAMS.contains(&word) {
            self.built.join(word)
        } else {
            PathBuf::from(word)
        }
    }

    fn command(&self, words: &str) -> Command {
        let mut words = words.split_whitespace().map(|word| self.program(word));
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).current_dir(repo::root());
        command
    }

    pub(super) fn run(&self, words: &str) -> Result<()> {
        say::step(words);
        tool::run(&mut self.command(words))
    }

    /// Shows the words, and gives the JSON that is printed first.
    pub(super) fn ask(&self, words: &str) -> Result<Value> {
        say::step(words);
        let said = tool::ask_watched(&mut self.command(words))?;
        let mut read = serde_json::Deserializer::from_str(&said).into_iter();
        let first = read.next().context("it prints nothing")?;
        first.with_context(|| format!("read what `{words}` prints"))
    }

    pub(super) fn keep(&self, words: &str, file: &str) -> Result<()> {
        say::step(&format!("{words} >{OUT}/{file}"));
        let said = tool::ask(&mut self.command(words))?;
        let path = repo::root().join(OUT).join(file);
        std::fs::write(&path, said).with_context(|| format!("write {}", path.display()))
    }
}
