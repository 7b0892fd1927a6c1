//! The fuzz targets' smoke run: their seeds, and seeded mutations of them, on a stable compiler.
//!
//! The real runs are `cargo +nightly fuzz run TARGET`; see `fuzz/README.md`.
#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

use haltwise_capture::fuzz;

#[path = "../../../fuzz/smoke.rs"]
mod smoke;

#[test]
fn capture_json_smoke() {
    smoke::run("capture_json", fuzz::capture_json, 400);
}

#[test]
fn capture_stream_smoke() {
    smoke::run("capture_stream", fuzz::stream, 400);
}

#[test]
fn capture_parquet_smoke() {
    smoke::run("capture_parquet", fuzz::parquet, 400);
}

#[test]
fn capture_import_smoke() {
    smoke::run("capture_import", fuzz::import_text, 3000);
}
