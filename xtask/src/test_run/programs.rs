//! The programs with tests: built by cargo, run two at a time, since live tests wait most of their time.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use super::quiet::Quiet;
use crate::{repo, say, tool};

/// How many run at a time.
const AT_A_TIME: usize = 2;

/// Simulations as long as they are meant to be; the gate's are samples.
const LONG: [(&str, &str); 3] = [
    ("HALTWISE_WORLDS", "10000"),
    ("HALTWISE_DAYS", "10000"),
    ("HALTWISE_FLIPS", "500"),
];

/// Programs with tests that take long and are ignored for that, and one that a benchmark uses; other ignored tests are parts
/// of others, or write files.
const WITH_LONG_TESTS: [&str; 2] = ["live", "golden"];
const OF_A_BENCHMARK: &str = "an_hour_of_ten_vms";

/// One program with tests.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    name: String,
    path: PathBuf,
    /// Where its crate is, and where cargo would run it.
    home: PathBuf,
}

/// A line of cargo's, as far as we read it.
#[derive(Debug, Deserialize)]
struct Artifact {
    executable: Option<PathBuf>,
    manifest_path: PathBuf,
    target: Target,
    profile: Profile,
}

#[derive(Debug, Deserialize)]
struct Target {
    name: String,
}

#[derive(Debug, Deserialize)]
struct Profile {
    test: bool,
}

/// Builds them, those that take longest first.
pub(crate) fn build() -> Result<Vec<Program>> {
    let mut cargo = tool::cargo(&repo::root());
    cargo.args(["test", "--workspace", "--lib", "--bins", "--tests"]);
    cargo.args(["--no-run", "--message-format=json-render-diagnostics"]);
    let told = tool::ask_watched(&mut cargo)?;
    let mut programs = told.lines().filter_map(program).collect::<Vec<_>>();
    let first = ["live", "golden", "it"];
    let rank = |it: &Program| first.iter().position(|name| it.name == *name);
    programs.sort_by_key(|it| rank(it).unwrap_or(first.len()));
    if programs.is_empty() {
        bail!("cargo has built no tests");
    }
    Ok(programs)
}

fn program(line: &str) -> Option<Program> {
    let artifact: Artifact = serde_json::from_str(line).ok()?;
    let home = artifact.manifest_path.parent()?.to_owned();
    let path = artifact.executable.filter(|_| artifact.profile.test)?;
    Some(Program {
        name: artifact.target.name,
        path,
        home,
    })
}

/// Runs all; with `long`, simulations at full length and what is ignored since it takes long.
pub(crate) fn run(programs: &[Program], long: bool) -> Result<()> {
    let mut waiting: VecDeque<(&Program, bool)> = programs.iter().map(|it| (it, false)).collect();
    if long {
        let with = |it: &&Program| WITH_LONG_TESTS.contains(&&*it.name);
        waiting.extend(programs.iter().filter(with).map(|it| (it, true)));
    }
    let (waiting, failed) = (Mutex::new(waiting), Mutex::new(Vec::new()));
    let next = || waiting.lock().ok()?.pop_front();
    let work = || {
        while let Some((program, ignored)) = next() {
            if let Err(error) = program.run(long, ignored)
                && let Ok(mut failed) = failed.lock()
            {
                failed.push(format!("{error:#}"));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner().unwrap_or_default();
    if !failed.is_empty() {
        bail!("{}", failed.join("\n"));
    }
    Ok(())
}

impl Program {
    /// Runs it, and says then what it said. Tests that cannot run here print `skipped: reason`; that must be seen, and no
    /// more of what tests say that succeed.
    fn run(&self, long: bool, ignored: bool) -> Result<()> {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.home).arg("--show-output");
        if ignored {
            command.args(["--ignored", "--skip", OF_A_BENCHMARK]);
        }
        command.envs(LONG.into_iter().filter(|_| long));
        // Some tests make decoders panic, a thousand times over; a line for each is enough.
        command.env("RUST_BACKTRACE", "0");
        let mut quiet = Quiet::default();
        let (mut said, mut skipped) = (String::new(), Vec::new());
        let done = tool::run_reading(&mut command, |line| {
            if quiet.shows(line) {
                match line.strip_prefix("skipped: ") {
                    Some(reason) => skipped.push(reason.to_owned()),
                    None => said.extend([line, "\n"]),
                }
            }
        });
        let home = self.home.strip_prefix(repo::root());
        let home = home.unwrap_or(&self.home as &Path).display();
        say::line(&format!("tests of {home}, {}{said}", self.name));
        for reason in &skipped {
            say::skipped(reason);
        }
        done.with_context(|| format!("tests of {home}, {}", self.name))
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn of_what_cargo_built_only_programs_with_tests_are_run() {
        let line = |test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/a/Cargo.toml","target":{{"name":"live"}},
                "profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let found = program(&line(true, "\"/t/live\"")).unwrap();
        assert_eq!((&*found.name, found.home), ("live", PathBuf::from("/a")));
        assert!(program(&line(false, "\"/t/live\"")).is_none());
        assert!(program(&line(true, "null")).is_none());
        assert!(program("{\"reason\":\"build-finished\"}").is_none());
    }
}
