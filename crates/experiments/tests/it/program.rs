//! Starts `haltwise-experiments` and reads what it says.

use std::process::{Command, Output};

/// Whether KVM can be used; says why a test is skipped if not.
#[expect(clippy::print_stdout, reason = "a skipped test must say so")]
pub(crate) fn kvm() -> bool {
    let opened = haltwise_lab::vm::open();
    if let Err(error) = &opened {
        println!("skipped: {error}");
    }
    opened.is_ok()
}

pub(crate) fn program(args: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_haltwise-experiments"));
    command.args(args.split_whitespace());
    command.output().expect("the binary has been built")
}
