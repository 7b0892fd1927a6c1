//! Starts `haltwise-lab` and reads what it says.

use std::process::{Command, Output};

use haltwise_lab::outcome::Outcome;

pub(crate) const LAB: &str = env!("CARGO_BIN_EXE_haltwise-lab");

/// `None`, and the reason printed, where KVM cannot be used.
#[expect(clippy::print_stdout, reason = "a skipped test must say so")]
pub(crate) fn kvm() -> Option<()> {
    let opened = haltwise_lab::vm::open().map(|_| ());
    opened
        .inspect_err(|error| println!("skipped: {error}"))
        .ok()
}

pub(crate) fn lab(args: &str) -> Output {
    let mut command = Command::new(LAB);
    command.args(args.split_whitespace());
    command.output().expect("the binary has been built")
}

pub(crate) fn run(args: &str) -> Outcome {
    parse(&lab(&format!("run {args} --json")))
}

/// Parses the JSON of a run that must have succeeded.
pub(crate) fn parse(output: &Output) -> Outcome {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {error}", output.status);
    serde_json::from_slice(&output.stdout).expect("JSON of the documented shape")
}
