//! Wake-ups that a recording does not show: how early and how late they may be.
//!
//! **A recording that hardly polled** does not show what wake-ups are like with polling. KVM's rule sees gap and wake-up
//! latency together, so that shorter wake-ups let windows grow. A vCPU that polled has kept its CPU awake, and a waker that
//! waits for its answer slept for a shorter time. Pairs of runs of the lab with the same drawn gaps (exponential, 60 us;
//! ceilings of 0 and 100 us; one vCPU, 6.18, in a VM) show it: sleeps of the same length took 30.7 us to wake after a poll
//! and 38.5 us without one (40 and 48 us in another VM), and a gap after a poll that was met was shorter by 0.5 to 15 us
//! where the waker blocks. In these VMs 31 to 35 % of the halts were met by a poll where 26 % had been predicted. How much
//! shorter depends on idle states and on the waker, so nothing is corrected: each policy is played once more with wake-ups a
//! fifth shorter, the most that was seen.
//!
//! **A recording that hardly slept** for the lengths that its load makes takes the latency from a calibration or from a
//! few sleeps ([`Table::early`], [`Table::late`]). Each policy is played once more with these as early and as late as
//! they may be; a few sleeps also a quarter longer, which is the same fifth ([`Table::late`] leaves them as they were).

use std::sync::Arc;

use super::latency::{CLASSES, Origin, Table, class_of};

/// Least share of a wake-up that remains with polling, in %.
const QUICKER_PERCENT: u64 = 80;
/// Longest wake-up without polling, in % of a wake-up with polling.
const SLOWER_PERCENT: u64 = 125;

/// Whether polling is so rare in a recording that it does not show what wake-ups are like with it: less than
/// one halt in ten polled.
pub(super) fn hardly_polled(halts_that_polled: u64, halts: u64) -> bool {
    halts_that_polled.saturating_mul(10) < halts
}

/// Whether sleeps are so rare in a recording that it does not show how late its load's sleeps wake: for one halt in ten
/// nothing recorded shows how late a sleep for all of its gap wakes.
pub(super) fn hardly_slept(halts_not_shown: u64, halts: u64) -> bool {
    halts_not_shown > 0 && halts_not_shown.saturating_mul(10) >= halts
}

/// How long the wake-ups of a replay take.
#[derive(Debug, Clone)]
pub(super) enum Wakes {
    /// As the table says.
    Known,
    /// As early as they may be: `percent` of that, and no later than a few sleeps may have been.
    Early {
        fastest_ns: Option<Arc<[u64; CLASSES]>>,
        percent: u64,
    },
    Late,
}

impl Wakes {
    /// With a `table` where sleeps were hardly recorded; where the recording hardly polled a fifth shorter.
    pub(super) fn early(table: Option<&Table>, hardly_polled: bool) -> Self {
        Self::Early {
            fastest_ns: table.map(|table| Arc::new(table.fastest_ns())),
            percent: if hardly_polled { QUICKER_PERCENT } else { 100 },
        }
    }

    /// Wake-up latency of a sleep of `slept_ns` that takes `ns` by the table.
    #[inline]
    pub(super) fn latency_ns(&self, ns: u64, slept_ns: u64, origin: Origin, table: &Table) -> u64 {
        match self {
            Self::Known => ns,
            Self::Early {
                fastest_ns,
                percent,
            } => {
                let early_ns = match fastest_ns {
                    Some(fastest_ns) if origin != Origin::Recorded => {
                        table.early_ns(class_of(slept_ns), ns, fastest_ns)
                    }
                    _ => ns,
                };
                of_hundred(early_ns, *percent)
            }
            Self::Late => match origin {
                Origin::Recorded => ns,
                Origin::Calibrated => table.late_ns(class_of(slept_ns), ns),
                Origin::Few => of_hundred(ns, SLOWER_PERCENT),
            },
        }
    }
}

fn of_hundred(ns: u64, percent: u64) -> u64 {
    if percent == 100 {
        return ns;
    }
    u64::try_from(u128::from(ns) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}
