//! Output of a program, and its exit code.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;

use crate::vm::OpenError;

/// Prints; a reader that has left (`| head`) is not our failure.
pub fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("write to stdout"),
    }
}

/// Why `/dev/kvm` could not be used, if that is what went wrong.
pub fn no_kvm(error: &anyhow::Error) -> Option<&OpenError> {
    error.downcast_ref()
}

/// Reports an error and what to do about it; `usage` is the hint for a wrong name or value on the command line.
#[expect(clippy::print_stderr, reason = "the one place that prints errors")]
pub fn end(
    done: anyhow::Result<()>,
    usage: fn(&anyhow::Error) -> Option<&'static str>,
) -> ExitCode {
    let Err(error) = done else {
        return ExitCode::SUCCESS;
    };
    eprintln!("error: {error:#}");
    let (code, hint) = match no_kvm(&error) {
        Some(OpenError::Unsupported(_)) => (
            3,
            "load the kvm module (modprobe kvm_intel or kvm_amd), or enable nested \
             virtualisation of this machine",
        ),
        Some(OpenError::Denied(_)) => (
            4,
            "run as root, or as a member of the group that owns /dev/kvm",
        ),
        _ => match usage(&error) {
            Some(hint) => (2, hint),
            None => return ExitCode::from(1),
        },
    };
    eprintln!("hint: {hint}");
    ExitCode::from(code)
}
