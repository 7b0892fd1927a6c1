//! The fuzz targets' smoke run: their seeds, and seeded mutations of them, on a stable compiler.
//!
//! The real runs are `cargo +nightly fuzz run TARGET`; see `fuzz/README.md`.
#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

use haltwise_host::fuzz;

#[path = "../../../fuzz/smoke.rs"]
mod smoke;

#[test]
fn host_format_smoke() {
    smoke::run("host_format", fuzz::format, 2_000);
}

#[test]
fn host_bpf_record_smoke() {
    smoke::run("host_bpf_record", fuzz::bpf_record, 2_000);
}

#[test]
fn host_baseline_smoke() {
    smoke::run("host_baseline", fuzz::baseline, 2_000);
}

#[test]
fn host_perf_record_smoke() {
    smoke::run("host_perf_record", fuzz::perf_record, 2_000);
}

#[test]
fn host_cmdline_smoke() {
    smoke::run("host_cmdline", fuzz::cmdline, 2_000);
}

#[test]
fn host_agent_reply_smoke() {
    smoke::run("host_agent_reply", fuzz::agent_reply, 2_000);
}

#[test]
fn host_sample_smoke() {
    smoke::run("host_sample", fuzz::sample, 2_000);
}
