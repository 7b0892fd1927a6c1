//! Other programs: how they are found, run and asked.
//!
//! Every failure names the command line, so that it can be repeated by hand.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

use crate::repo;

/// Runs a command with its output going where ours goes; an exit code other than 0 is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = line_of(command);
    let status = command.stdin(Stdio::null()).status();
    let status = status.with_context(|| format!("start `{line}`"))?;
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

/// Runs a command whose stderr goes where ours goes, as progress does; gives what it wrote to stdout, and how it ended.
pub(crate) fn watch(command: &mut Command) -> Result<(String, Result<()>)> {
    let line = line_of(command);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output();
    let output = output.with_context(|| format!("start `{line}`"))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok((stdout, ended(&line, output.status, b"")))
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
    fn a_program_that_is_not_there_is_named() {
        let error = run(&mut Command::new("no-such-program-here")).expect_err("cannot start");
        assert!(format!("{error:#}").contains("no-such-program-here"));
        assert_eq!(find("no-such-program-here"), None);
    }
}
