//! How the tasks speak: headings and results on stdout, so that a log reads from top to bottom.
//!
//! Not a logger. Errors leave through `main`'s result.

#![expect(clippy::print_stdout, reason = "the output of tasks is for people")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub(crate) fn step(what: &str) {
    println!("==> {what}");
}

pub(crate) fn note(what: &str) {
    println!("    {what}");
}

/// Passes on a line of something that ran for the reader.
pub(crate) fn line(text: &str) {
    println!("{text}");
}

/// Says that something could not run here, and why. Tests and tasks share the form.
pub(crate) fn skipped(reason: &str) {
    SKIPPED.fetch_add(1, Ordering::Relaxed);
    println!("skipped: {reason}");
}

pub(crate) fn skips() -> usize {
    SKIPPED.load(Ordering::Relaxed)
}

static SKIPPED: AtomicUsize = AtomicUsize::new(0);

/// A duration as people read it: `0.3 s`, `12.0 s`, `3 min 05 s`.
pub(crate) fn seconds(elapsed: Duration) -> String {
    let whole = elapsed.as_secs();
    if whole < 120 {
        format!("{:.1} s", elapsed.as_secs_f64())
    } else {
        format!("{} min {:02} s", whole / 60, whole % 60)
    }
}
