//! How far predictions rest on wake-ups that were recorded without polling, in words.

use super::view::{HaltGroup, PlayedPolicy};
use crate::number::{nanos_f64, percent};

/// Shares of the halts that differ by less are not worth a word, in percent.
const LEAST_POINTS: f64 = 1.0;

/// Why wake-ups may be shorter than recorded.
pub(crate) const WHY: &str = "This recording hardly polled. With polling, wake-ups may be shorter, \
                              also those of the waker, since CPUs stay in C0. KVM compares gap plus \
                              wake-up latency with the ceiling, so windows would grow more often.";

/// Of each policy that would poll otherwise if wake-ups were shorter, how it would; empty if none would.
pub(super) fn doubts(group: &HaltGroup) -> Option<String> {
    let each = group.played.iter();
    let said: Vec<String> = each.filter_map(|played| doubt(group, played)).collect();
    (!said.is_empty()).then(|| format!("{WHY} If they were a fifth shorter: {}.", said.join("; ")))
}

fn doubt(group: &HaltGroup, played: &PlayedPolicy) -> Option<String> {
    let quicker = played.quicker_wakes.as_ref()?;
    let row = &played.from_zero;
    let halts = group.halts.max(1) as f64;
    let (met, poll_ns) = (row.successful_polls?, row.poll_ns?);
    let points = 100.0 * (quicker.successful_polls as f64 - met as f64) / halts;
    (points.abs() >= LEAST_POINTS).then(|| {
        format!(
            "{} would catch {} of the halts by polling instead of {}, and poll {} per halt instead of {}",
            played.policy,
            percent(quicker.successful_polls as f64, halts),
            percent(met as f64, halts),
            nanos_f64(quicker.poll_ns as f64 / halts),
            nanos_f64(poll_ns as f64 / halts),
        )
    })
}
