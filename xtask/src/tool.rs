//! Other programs: how they are found, run and asked.
//!
//! Every failure names the command line, so that it can be repeated by hand.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

use crate::repo;

/// Runs a command with its output going where ours goes; an exit code other than 0 is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = line_of(command);
    let status = command.stdin(Stdio::null()).status();
    ended(
        &line,
        status.with_context(|| format!("start `{line}`"))?,
        b"",
    )
}

/// Runs a command and hands each line of its stdout to `take` as it comes; an exit code other than 0
/// is an error. What is no UTF-8 is shown as near as can be.
pub(crate) fn run_reading(command: &mut Command, mut take: impl FnMut(&str)) -> Result<()> {
    let line = line_of(command);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = child.with_context(|| format!("start `{line}`"))?;
    let stdout = child.stdout.take().context("its stdout is piped")?;
    for said in BufReader::new(stdout).split(b'\n') {
        let said = said.with_context(|| format!("read from `{line}`"))?;
        take(&String::from_utf8_lossy(&said));
    }
    let status = child.wait().with_context(|| format!("wait for `{line}`"))?;
    ended(&line, status, b"")
}

/// Runs a command and gives back what it wrote to stdout; stderr is part of the error.
pub(crate) fn ask(command: &mut Command) -> Result<String> {
    let line = line_of(command);
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("start `{line}`"))?;
    ended(&line, output.status, &output.stderr)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The same of a command whose stderr goes where ours goes, as progress does.
pub(crate) fn ask_watched(command: &mut Command) -> Result<String> {
    ask(command.stderr(Stdio::inherit()))
}

fn ended(line: &str, status: ExitStatus, stderr: &[u8]) -> Result<()> {
    if !status.success() {
        let stderr = String::from_utf8_lossy(stderr);
        let said = format!("{status}: {}", stderr.trim());
        bail!("`{line}` ended with {}", said.trim_end_matches(": "));
    }
    Ok(())
}

/// Where a program lies, looking through `PATH` and the places of system programs.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|dir| dir.join(program))
        .find(|candidate| candidate.is_file())
}

/// The cargo that runs us, in the repository's root, with arguments that blanks separate.
pub(crate) fn cargo(arguments: &str) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(repo::root());
    command.args(arguments.split_whitespace());
    command
}

/// A command line as one would type it.
fn line_of(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn failure_names_the_command_and_its_stderr() {
        let error = ask(Command::new("sh").args(["-c", "echo why >&2; exit 3"]))
            .expect_err("the script fails");
        let text = format!("{error:#}");
        assert!(text.contains("sh -c") && text.contains("why"), "{text}");
    }

    #[test]
    fn lines_come_one_by_one_and_a_failure_after_them() {
        let mut lines = Vec::new();
        let mut script = Command::new("sh");
        script.args(["-c", "echo a; printf 'b\\377'; exit 3"]);
        let done = run_reading(&mut script, |line| lines.push(line.to_owned()));
        assert!(done.is_err_and(|error| error.to_string().contains('3')));
        assert_eq!(lines, ["a", "b\u{fffd}"]);
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = run(&mut Command::new("no-such-program-here")).expect_err("cannot start");
        assert!(format!("{error:#}").contains("no-such-program-here"));
        assert_eq!(find("no-such-program-here"), None);
    }
}
