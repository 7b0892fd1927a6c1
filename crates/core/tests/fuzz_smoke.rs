//! The fuzz targets' smoke run: their seeds, and seeded mutations of them, on a stable compiler.
//!
//! The real runs are `cargo +nightly fuzz run TARGET`; see `fuzz/README.md`.
#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

use haltwise_core::fuzz;

#[path = "../../../fuzz/smoke.rs"]
mod smoke;

#[test]
fn core_text_smoke() {
    smoke::run("core_text", fuzz::text, 2_000);
}
