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

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn id_before_socket() {
        for (line, expected) in [
            (
                "firecracker\0--id\0fn-17\0--api-sock\0/a.socket\0",
                Some("fn-17"),
            ),
            ("firecracker\0--api-sock\0/run/fc1.socket\0", Some("fc1")),
            ("firecracker\0--no-api\0", None),
        ] {
            let arguments = Arguments::parse(line.as_bytes());
            assert_eq!(name(&arguments).as_deref(), expected, "{line:?}");
        }
        assert!(is("firecracker-v1.7.0-x86_64"));
        assert!(!is("firectl"));
    }
}
