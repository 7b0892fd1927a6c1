//! Entry point for fuzzing: any bytes as a baseline and as an earlier version's journal, no panic.

use super::baseline::{Baseline, settle};
use super::earlier;
use super::target::Found;

/// Reads bytes as either; gives how many targets are held.
///
/// # Panics
/// If a baseline that was read does not read back, or does not settle.
pub fn baseline(bytes: &[u8]) -> u64 {
    let read = serde_json::from_slice::<Baseline>(bytes).ok();
    let read = read.filter(|it| it.check().is_ok());
    let Some(baseline) = read.or_else(|| earlier::baseline(bytes).ok()) else {
        return 0;
    };
    assert_eq!(baseline.check(), Ok(()), "what was read is whole");
    let text = serde_json::to_string(&baseline).expect("a baseline is plain data");
    let again: Baseline = serde_json::from_str(&text).expect("what was written is read");
    assert_eq!(again, baseline);
    for boot in ["", "another boot"] {
        let settled = settle(&baseline, boot, |_| Ok(Found::default())).expect("nothing is there");
        assert_eq!(settled.baseline.check(), Ok(()));
    }
    baseline.held.len() as u64
}
