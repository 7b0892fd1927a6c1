//! The fuzz targets' smoke run: their seeds, and seeded mutations of them, on a stable compiler.
//!
//! The real runs are `cargo +nightly fuzz run TARGET`; see `fuzz/README.md`.
#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

use haltwise_experiments::fuzz;

#[path = "../../../fuzz/smoke.rs"]
mod smoke;

#[test]
fn lab_exitless_timer_smoke() {
    smoke::run("experiments_exitless_timer", fuzz::exitless_timer, 2_000);
}

#[test]
fn lab_framebuffer_smoke() {
    smoke::run("experiments_framebuffer", fuzz::framebuffer, 2_000);
}

#[test]
fn lab_pic_smoke() {
    smoke::run("experiments_pic", fuzz::pic, 2_000);
}

#[test]
fn lab_block_smoke() {
    smoke::run("experiments_block", fuzz::block, 1_000);
}

#[test]
fn lab_net_smoke() {
    smoke::run("experiments_net", fuzz::net, 2_000);
}
