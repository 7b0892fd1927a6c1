//! Boots stock kernels under emulation and compares three cross-checks inside. See
//! `xtask/src/kernels.rs`; these tests let the test runner count and report it.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

/// Runs the checks of a kernel, shows what they say, and repeats at the end what was wrong: a log may
/// be read from its end only.
#[expect(
    clippy::print_stdout,
    reason = "the checks speak through the test runner"
)]
fn check(series: &str, options: &[&str]) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["kernels", "--kernel", series])
        .args(options)
        .stdout(Stdio::piped())
        .spawn()
        .expect("xtask starts");
    let said = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut wrong = Vec::new();
    for line in said.lines() {
        let line = line.expect("it says text");
        println!("{line}");
        let signs = ["DISAGREES", "FAILED", "check: ", "spoilt"];
        if !wrong.is_empty() || signs.iter().any(|sign| line.contains(sign)) {
            wrong.push(line);
        }
    }
    let status = child.wait().expect("xtask ends");
    let wrong = wrong.join("\n");
    assert!(status.success(), "kernel {series}: {status}:\n{wrong}");
}

/// A test for each part and kernel. `cargo xtask test` runs them part by part: where an emulator that spoils
/// boots takes up the time there is, no kernel is left out as a whole.
macro_rules! parts {
    ($($name:ident: $series:literal, $options:expr;)*) => {$(
        #[test]
        #[ignore = "boots a kernel under emulation: cargo xtask test"]
        fn $name() {
            check($series, &$options);
        }
    )*};
}

parts! {
    witnesses_on_6_1: "6.1", ["--part", "witnesses"];
    witnesses_on_6_12: "6.12", ["--part", "witnesses"];
    linux_guest_on_6_1: "6.1", ["--part", "linux-guest"];
    linux_guest_on_6_12: "6.12", ["--part", "linux-guest"];
    rule_on_6_1: "6.1", ["--part", "rule"];
    rule_on_6_12: "6.12", ["--part", "rule"];
    // How exits are paired, and what comes and goes: on the newest kernel alone here, on each by
    // `cargo xtask kernels`.
    rest_on_6_1: "6.1", ["--part", "rest", "--brief"];
    rest_on_6_12: "6.12", ["--part", "rest"];
}
