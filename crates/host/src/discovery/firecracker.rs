//! Firecracker: `--id`, which its jailer always gives; else the stem of `--api-sock`.

use super::arguments::{Arguments, stem};

/// Whether a program of this name is Firecracker.
pub(super) fn is(program: &str) -> bool {
    program == "firecracker" || program.starts_with("firecracker-v")
}

pub(super) fn name(arguments: &Arguments) -> Option<String> {
    arguments
        .option("--id")
        .or_else(|| stem(arguments.option("--api-sock")?))
        .map(str::to_owned)
}
