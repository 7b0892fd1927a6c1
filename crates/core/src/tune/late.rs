//! Whether a gain outlives a calibration that was wrong.
//!
//! Where a vCPU never slept, nothing in its recording says what a sleep would cost: its wake-up latency is
//! that of another guest at another time, the calibration's. A recommendation to sleep then hangs on a
//! figure that nobody saw here. So everybody who comes into the final is played once more with those
//! latencies [`TIMES`] as long, and what gains by the calibration and no longer then is not recommended:
//! it is to be proved first. What the recording itself contains of wake-ups stays as it is.
//!
//! **Why twice.** A timer every 60 us woke its vCPU 47 us late where the calibration of the same run said 22
//! (measurements/2026-11-22-vm-tune): 2.1 times. And nothing is lost that is sure: what is at most half
//! as dear as what is in force stays cheaper, since a sleep of the switch `s` and the latency's price `l`
//! costs `s + 2 l` then, less than `2 (s + l)`. A calibration's own interval is within that: a latency that
//! was measured less well is none ([`calibration::NOISE`]).

use super::advice::{Final, Finalist};
use super::crew::Crew;
use super::material::{Material, Seated};
use super::stage::{self, Entry, Part};
use super::sums::Sums;
use crate::replay::{Cost, calibration};

/// How many times as late as calibrated wake-ups may be for a gain that is recommended.
pub const TIMES: u64 = calibration::NOISE;

/// Whether anything may rest on a calibration.
pub(super) fn is_asked(material: &Material) -> bool {
    let mut tables = material.seats.iter().map(|seated| &seated.table);
    tables.any(|table| table.is_calibrated())
}

/// Plays everybody in the final anew, where that may change anything. `entries` are what is in
/// force, the default, and the others.
pub(super) fn play(material: &Material, entries: &[Entry], of: &mut Final, crew: &impl Crew) {
    if !is_asked(material) {
        return;
    }
    let seats: Vec<&Seated> = material.seats.iter().collect();
    let late = stage::play(material, &seats, entries, Part::WholeIfLate, "doubt", crew);
    for (finalist, late) in of.all_mut().zip(late) {
        finalist.late = late;
    }
}

/// By how much less one setting costs than another on the validation half, as a share of it, were what was
/// calibrated [`TIMES`] as late. `None` where neither rests on it.
pub fn gain<S>(own: &Finalist<S>, other: &Finalist<S>, cost: &Cost) -> Option<f64> {
    let rests = |of: &Finalist<S>| !of.late.is_empty() && of.late != of.parts;
    let judged = |of: &Finalist<S>| Sums::total(of.late.get(1..).unwrap_or_default());
    (rests(own) || rests(other)).then(|| judged(own).gain_on(&judged(other), cost))
}
