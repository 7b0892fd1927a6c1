//! Cloud Hypervisor: `--name`, else the stem of `--api-socket` (`PATH`, `path=PATH`).

use super::arguments::{Arguments, stem};

/// Whether a program of this name is Cloud Hypervisor; the kernel cuts names at 15 bytes.
pub(super) fn is(program: &str) -> bool {
    program.starts_with("cloud-hyperviso")
}

pub(super) fn name(arguments: &Arguments) -> Option<String> {
    let socket = || {
        let value = arguments.option("--api-socket")?;
        let named = value.split(',').find_map(|part| part.strip_prefix("path="));
        match named {
            Some(path) => stem(path),
            None if value.contains('=') => None,
            None => stem(value),
        }
    };
    arguments
        .option("--name")
        .or_else(socket)
        .map(str::to_owned)
}
