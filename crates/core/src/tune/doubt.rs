//! Whether a gain outlives what nobody recorded.
//!
//! Two things may be missing from a recording, and a recommendation may hang on either. So everybody who comes into the
//! final is played once more with each of them otherwise. What gains as taken and no longer then is not recommended: it is
//! to be proved first. What the recording itself shows stays as it is.
//!
//! **Wake-ups** ([`Doubt::Late`]). Where a vCPU never slept, nothing in its recording says what a sleep would cost: its
//! wake-up latency is that of another guest at another time, the calibration's. It is taken to be [`TIMES`] as long. Why
//! twice: a timer every 60 us woke its vCPU 47 us late where the calibration of the same run said 22
//! (measurements/2026-11-22-vm-tune): 2.1 times. And nothing is lost that is sure: what is at most half
//! as dear as what is in force stays cheaper, since a sleep of the switch `s` and the latency's price `l`
//! costs `s + 2 l` then, less than `2 (s + l)`. A calibration's own interval is within that: a latency that
//! was measured less well is none ([`calibration::NOISE`]).
//!
//! **Timers** ([`Doubt::Staying`]). A timer that comes at a fixed time comes the sooner the later its vCPU wakes; one that
//! is set anew after each wake-up does not. Of a vCPU that hardly slept nothing shows which it is
//! ([`crate::replay::arrivals`]), and a vCPU that polls well is one that hardly slept. Intervals of what is compared reach
//! to both readings.

use super::advice::{Final, Finalist};
use super::crew::Crew;
use super::material::{Material, Seated};
use super::stage::{self, Entry, Part};
use super::sums::Sums;
use crate::replay::arrivals::Follow;
use crate::replay::latency::Table;
use crate::replay::{Cost, calibration};

/// How many times as late as calibrated wake-ups may be for a gain that is recommended.
pub const TIMES: u64 = calibration::NOISE;

/// What is taken otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// Wake-ups that a calibration tells are [`TIMES`] as late.
    Late,
    /// Gaps stay, wherever nothing recorded shows how they follow.
    Staying,
}

impl Doubt {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Late, Self::Staying];

    /// Whether anything may rest on it.
    pub(crate) fn is_asked(self, material: &Material) -> bool {
        (material.seats.iter()).any(|seated| match self {
            Self::Late => seated.table.is_calibrated(),
            Self::Staying => seated.follow.staying().is_some(),
        })
    }

    /// The wake-up latencies of a vCPU then, where they are others.
    pub(super) fn table(self, seated: &Seated) -> Option<Table> {
        match self {
            Self::Late => seated.table.calibrated_times(TIMES),
            Self::Staying => None,
        }
    }

    /// How far its gaps follow then.
    pub(super) fn follow(self, seated: &Seated) -> Follow {
        match self {
            Self::Late => seated.follow,
            Self::Staying => seated.follow.staying().unwrap_or(seated.follow),
        }
    }
}

/// Plays everybody in the final anew, where that may change anything. `entries` are what is in
/// force, the default, and the others.
pub(super) fn play(material: &Material, entries: &[Entry], of: &mut Final, crew: &impl Crew) {
    let seats: Vec<&Seated> = material.seats.iter().collect();
    for doubt in Doubt::ALL {
        if !doubt.is_asked(material) {
            continue;
        }
        let part = Part::Doubted(doubt);
        let parts = stage::play(material, &seats, entries, part, "doubt", crew);
        for (finalist, parts) in of.all_mut().zip(parts) {
            *finalist.doubted_mut(doubt) = parts;
        }
    }
}

/// By how much less one setting costs than another on the validation half, as a share of it, with something taken
/// otherwise. `None` where neither rests on that.
pub fn gain<S>(own: &Finalist<S>, other: &Finalist<S>, cost: &Cost, doubt: Doubt) -> Option<f64> {
    let rests = |of: &Finalist<S>| of.rests_on(doubt);
    let judged = |of: &Finalist<S>| Sums::total(of.doubted_blocks(doubt));
    (rests(own) || rests(other)).then(|| judged(own).gain_on(&judged(other), cost))
}
