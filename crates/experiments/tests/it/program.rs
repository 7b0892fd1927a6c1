//! Starts `haltwise-experiments` and reads what it says.

use std::process::{Command, Output};

/// `None`, and the reason printed, where KVM cannot be used.
#[expect(clippy::print_stdout, reason = "a skipped test must say so")]
pub(crate) fn kvm() -> Option<()> {
    let opened = haltwise_lab::vm::open().map(|_| ());
    opened
        .inspect_err(|error| println!("skipped: {error}"))
        .ok()
}

pub(crate) fn program(args: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_haltwise-experiments"));
    command.args(args.split_whitespace());
    command.output().expect("the binary has been built")
}
