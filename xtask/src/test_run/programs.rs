//! The programs with tests: built by cargo, run two at a time, since live tests wait most of their time.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::{repo, say, tool};

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

/// Tests of this program whose name begins so need idle CPUs: they run when nothing else does.
const LIVE: &str = "live";
const AT_REST: &str = "::at_rest_";

#[derive(Debug, Clone)]
pub(crate) struct Program {
    name: String,
    path: PathBuf,
    /// Where its crate is, and where cargo would run it.
    home: PathBuf,
}

/// Arguments that choose tests of a program. Of those that are ignored, one brings thousands of VMs.
type Tests = &'static [&'static str];
const ORDINARY: Tests = &["--skip", AT_REST];
const IGNORED: Tests = &["--ignored", "--test-threads", "1", "--skip", OF_A_BENCHMARK];
const ALONE: Tests = &["--test-threads", "1", AT_REST];

/// Builds them, those that take longest first.
pub(crate) fn build() -> Result<Vec<Program>> {
    let test =
        "test --workspace --lib --bins --tests --no-run --message-format=json-render-diagnostics";
    let (printed, done) = tool::watch(&mut tool::cargo(test))?;
    done?;
    let mut programs = printed.lines().filter_map(program).collect::<Vec<_>>();
    let first = ["live", "golden", "it"];
    let rank = |it: &Program| first.iter().position(|name| it.name == *name);
    programs.sort_by_key(|it| rank(it).unwrap_or(first.len()));
    if programs.is_empty() {
        bail!("cargo has built no tests");
    }
    Ok(programs)
}

/// The program that a line of cargo's tells of, if it has tests.
fn program(line: &str) -> Option<Program> {
    let artifact: Value = serde_json::from_str(line).ok()?;
    let is_test = artifact["profile"]["test"].as_bool()?;
    let path = artifact["executable"].as_str().filter(|_| is_test)?;
    let manifest = Path::new(artifact["manifest_path"].as_str()?);
    Some(Program {
        name: artifact["target"]["name"].as_str()?.to_owned(),
        path: path.into(),
        home: manifest.parent()?.to_owned(),
    })
}

/// Runs all; with `long`, simulations at full length and what is ignored since it takes long.
pub(crate) fn run(programs: &[Program], long: bool) -> Result<()> {
    let of = |tests: Tests| move |program| (program, tests);
    let mut runs: VecDeque<(&Program, Tests)> = programs.iter().map(of(ORDINARY)).collect();
    if long {
        let with = |it: &&Program| WITH_LONG_TESTS.contains(&&*it.name);
        runs.extend(programs.iter().filter(with).map(of(IGNORED)));
    }
    let (runs, failed) = (Mutex::new(runs), Mutex::new(Vec::new()));
    let next = || runs.lock().ok()?.pop_front();
    let note = |done: Result<()>| {
        if let Err(error) = done
            && let Ok(mut failed) = failed.lock()
        {
            failed.push(format!("{error:#}"));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some((program, tests)) = next() {
                    note(program.run(tests, long));
                }
            });
        }
    });
    for live in programs.iter().filter(|it| it.name == LIVE) {
        note(live.run(ALONE, long));
    }
    let failed = failed.into_inner().unwrap_or_default();
    if !failed.is_empty() {
        bail!("{}", failed.join("\n"));
    }
    Ok(())
}

impl Program {
    /// Runs it, and says then what it said. Tests that cannot run here print `skipped: reason`; that must be seen, and no
    /// more of what tests say that succeed.
    fn run(&self, tests: Tests, long: bool) -> Result<()> {
        let Self { name, path, home } = self;
        let mut command = Command::new(path);
        command.current_dir(home).arg("--show-output");
        command.args(tests);
        command.envs(LONG.into_iter().filter(|_| long));
        // Some tests make decoders panic, a thousand times over; a line for each is enough.
        command.env("RUST_BACKTRACE", "0");
        let mut quiet = Quiet::default();
        let (mut said, mut skipped) = (String::new(), Vec::new());
        let (printed, done) = tool::watch(&mut command)?;
        for line in printed.lines().filter(|line| quiet.shows(line)) {
            match line.strip_prefix("skipped: ") {
                Some(reason) => skipped.push(reason.to_owned()),
                None => said.extend([line, "\n"]),
            }
        }
        let home = home.strip_prefix(repo::root()).unwrap_or(home).display();
        say::line(&format!("tests of {home}, {name}{said}"));
        for reason in &skipped {
            say::skipped(reason);
        }
        done.with_context(|| format!("tests of {home}, {name}"))
    }
}

/// Follows the output of `cargo test -- --show-output`, which repeats all that successful tests printed, decoders' panics by
/// the thousand among it. All of that is dropped but for `skipped: reason`.
#[derive(Debug, Default)]
struct Quiet {
    within_successes: bool,
}

impl Quiet {
    fn shows(&mut self, line: &str) -> bool {
        match line {
            "successes:" => self.within_successes = true,
            "failures:" => self.within_successes = false,
            _ if line.starts_with("test result:") => self.within_successes = false,
            _ => {}
        }
        !self.within_successes || line.starts_with("skipped:")
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn what_successful_tests_print_is_dropped_but_for_skipped() {
        let output = "test a ... ok\n\nsuccesses:\n\n---- a stdout ----\nnoise\nskipped: no /dev/kvm\n\
                      \nsuccesses:\n    a\n\nfailures:\n---- b stdout ----\nwhy\ntest result: FAILED\nnext";
        let mut quiet = Quiet::default();
        let shown: Vec<_> = output.lines().filter(|line| quiet.shows(line)).collect();
        assert_eq!(
            shown.join("|"),
            "test a ... ok||skipped: no /dev/kvm|failures:|---- b stdout ----|why|test result: FAILED|next"
        );
    }
}
