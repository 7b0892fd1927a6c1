//! Boots stock kernels under emulation and compares three witnesses inside. See
//! `xtask/src/kernels.rs`; these tests let the test runner count and report it.

use std::process::Command;

fn check(series: &str) {
    let status = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["kernels", "--kernel", series])
        .status()
        .expect("xtask starts");
    assert!(status.success(), "kernel {series}: {status}");
}

#[test]
#[ignore = "boots a kernel under emulation: cargo xtask test"]
fn linux_6_1() {
    check("6.1");
}

#[test]
#[ignore = "boots a kernel under emulation: cargo xtask test"]
fn linux_6_12() {
    check("6.12");
}
