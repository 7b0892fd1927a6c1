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

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn name_before_socket() {
        for (line, expected) in [
            (
                "cloud-hypervisor\0--name\0db\0--api-socket\0/x.sock\0",
                Some("db"),
            ),
            (
                "cloud-hypervisor\0--api-socket\0/run/ch1.sock\0",
                Some("ch1"),
            ),
            (
                "cloud-hypervisor\0--api-socket=path=/run/ch2.sock\0",
                Some("ch2"),
            ),
            ("cloud-hypervisor\0--api-socket\0fd=3\0", None),
            ("cloud-hypervisor\0", None),
        ] {
            let arguments = Arguments::parse(line.as_bytes());
            assert_eq!(name(&arguments).as_deref(), expected, "{line:?}");
        }
    }
}
