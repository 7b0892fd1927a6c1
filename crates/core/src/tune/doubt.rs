//! Assumptions about what was not recorded.
//!
//! Two things may be missing from a recording, and a recommendation may depend on either. Every setting of the final is
//! played once more with each of them otherwise, where a recorded halt depends on it; intervals cover all of it, and a gain that is lost under one of them is
//! to be proved first. What the recording itself shows stays as it is.
//!
//! **Wake-ups** ([`Doubt::Early`], [`Doubt::Late`]). Where too few halts slept for a length of time, the wake-up latency is
//! that of a calibration or of a few sleeps: [`Table::early`] and [`Table::late`] say how far it may be off.
//!
//! **Timers** ([`Doubt::Staying`]). A timer that comes at a fixed time comes the sooner the later its vCPU wakes; one that
//! is rearmed after each wake-up does not. Nothing shows which it is if a vCPU hardly slept
//! ([`crate::replay::arrivals`]), and a vCPU that polls well is one that hardly slept.

use super::final_round::FinalRound;
use super::inputs::{Inputs, VcpuInput};
use super::pool::Pool;
use super::stage::{self, Entry, Part};
use crate::replay::arrivals::Follow;
use crate::replay::latency::Table;

/// Alternative assumption about data that was not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// Doubtful wake-ups are as early as they may be.
    Early,
    /// Doubtful wake-ups are as late as they may be.
    Late,
    /// Gaps stay, wherever nothing recorded shows how they follow.
    Staying,
}

impl Doubt {
    pub const ALL: [Self; 3] = [Self::Early, Self::Late, Self::Staying];

    /// Whether anything may depend on it.
    pub(crate) fn is_asked(self, inputs: &Inputs) -> bool {
        (inputs.seats.iter()).any(|seated| match self {
            Self::Early | Self::Late => self.table(seated).is_some(),
            Self::Staying => self.follow(seated) != seated.follow,
        })
    }

    /// The wake-up latencies of a vCPU then, where they are others.
    pub(super) fn table(self, seated: &VcpuInput) -> Option<Table> {
        match self {
            Self::Early => seated.table.early(),
            Self::Late => seated.table.late(),
            Self::Staying => None,
        }
    }

    pub(super) fn follow(self, seated: &VcpuInput) -> Follow {
        let staying = match self {
            Self::Early | Self::Late => None,
            Self::Staying => seated.follow.staying(seated.recorded.wakes),
        };
        staying.unwrap_or(seated.follow)
    }
}

/// Replays all settings of the final round under each assumption that may change a figure. `entries` are what is in force, the default, and
/// the others.
pub(super) fn play(inputs: &Inputs, entries: &[Entry], of: &mut FinalRound, pool: &impl Pool) {
    for doubt in Doubt::ALL {
        if !doubt.is_asked(inputs) {
            continue;
        }
        let part = Part::Doubted(doubt);
        let parts = stage::play(inputs, entries, part, "doubt", pool);
        for (finalist, parts) in of.all_mut().zip(parts) {
            if parts != finalist.parts {
                finalist.doubted.push((doubt, parts));
            }
        }
    }
}
