//! Entry point for fuzzing: any bytes as a baseline, no panic.

use super::baseline::{Baseline, settle};
use super::target::Found;

/// Reads bytes as one; gives how many targets are held.
///
/// # Panics
/// If a baseline that was read does not read back, or does not settle.
pub fn baseline(bytes: &[u8]) -> u64 {
    let read = serde_json::from_slice::<Baseline>(bytes).ok();
    let Some(baseline) = read.filter(|it| it.check().is_ok()) else {
        return 0;
    };
    let text = serde_json::to_string(&baseline).expect("a baseline is plain data");
    let again: Baseline = serde_json::from_str(&text).expect("what was written is read");
    assert_eq!(again, baseline);
    for boot in ["", "another boot"] {
        let settled = settle(&baseline, boot, |_| Ok(Found::default())).expect("nothing is there");
        assert_eq!(settled.baseline.check(), Ok(()));
    }
    baseline.held.len() as u64
}
