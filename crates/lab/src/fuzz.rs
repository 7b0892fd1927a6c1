//! Entry point for a fuzz target and its smoke run: any bytes as KVM's binary statistics.
//!
//! Not part of the library's interface.

use crate::stats_fd::parse;

/// Reads bytes as a stats fd's content; gives how many statistics it holds.
///
/// # Panics
/// If more was read than the bytes hold, or a difference to itself is not zero.
pub fn stats_fd(bytes: &[u8]) -> u64 {
    let Ok(stats) = parse(bytes) else { return 0 };
    let scalars = stats.counts.keys().chain(stats.states.keys());
    let scalars = scalars.map(|name| name.len() + 8);
    let hists = stats
        .hists
        .iter()
        .map(|(name, hist)| name.len() + size_of_val(hist));
    let held: usize = scalars.chain(hists).sum();
    assert!(held <= 2 * bytes.len(), "{held} bytes of {}", bytes.len());
    let change = stats.clone().since(&stats);
    assert_eq!(change.states, stats.states, "states are kept");
    assert!(
        change.counts.values().all(|count| *count == 0),
        "{change:?}"
    );
    assert!(
        change.hists.values().all(|hist| hist.count() == 0),
        "{change:?}"
    );
    (stats.counts.len() + stats.states.len() + stats.hists.len()) as u64
}
