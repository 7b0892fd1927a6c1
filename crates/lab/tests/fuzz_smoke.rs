//! The fuzz target's smoke run: its seeds, and seeded mutations of them, on a stable compiler.
//!
//! The real runs are `cargo +nightly fuzz run TARGET`; see `fuzz/README.md`.
#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

use haltwise_lab::fuzz;

#[path = "../../../fuzz/smoke.rs"]
mod smoke;

#[test]
fn lab_stats_fd_smoke() {
    smoke::run("lab_stats_fd", fuzz::stats_fd, 2_000);
}
