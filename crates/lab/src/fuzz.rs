//! Entry point for a fuzz target and its smoke run: any bytes as KVM's binary statistics.
//!
//! Not part of the library's interface.

use crate::stats_fd::{StatKind, parse};

/// Reads bytes as a stats fd's content; gives how many statistics it holds.
///
/// # Panics
/// If more was read than the bytes hold, or a difference to itself is not zero.
pub fn stats_fd(bytes: &[u8]) -> u64 {
    let Ok(stats) = parse(bytes) else { return 0 };
    let held: usize = stats
        .0
        .iter()
        .map(|(name, stat)| name.len() + stat.values.len() * 8)
        .sum();
    assert!(held <= 2 * bytes.len(), "{held} bytes of {}", bytes.len());
    let change = stats.since(&stats);
    assert_eq!(change.0.len(), stats.0.len(), "statistics of a difference");
    for (name, now) in &stats.0 {
        let is_state = matches!(now.kind, StatKind::Instant | StatKind::Peak);
        let same = if is_state {
            now.values.clone()
        } else {
            vec![0; now.values.len()]
        };
        assert_eq!(change.0[name].values, same, "change of {name}");
        assert!(stats.scalar(name).is_none() || stats.log_hist(name).is_none());
    }
    stats.0.len() as u64
}
