//! What a row says of somebody in one step: rates, shares, percentiles. Computed from core's accounts.

use haltwise_core::account::{Account, Ceiling, Spread};
use haltwise_core::event::{CeilingSource, Vcpu, WakeSource};
use haltwise_core::exit::account::Passed;
use haltwise_core::exit::names::Names;
use haltwise_core::exit::{Cause, Kind};

use super::step::{Around, Cell, Step};

const REASONS: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ceilings {
    pub(crate) low_ns: u32,
    pub(crate) high_ns: u32,
    /// Who set them, if it is the same for all.
    pub(crate) source: CeilingSource,
}

impl Ceilings {
    fn with(known: Option<Self>, ceiling: Ceiling) -> Self {
        let Some(known) = known else {
            return Self {
                low_ns: ceiling.ns,
                high_ns: ceiling.ns,
                source: ceiling.source,
            };
        };
        Self {
            low_ns: known.low_ns.min(ceiling.ns),
            high_ns: known.high_ns.max(ceiling.ns),
            source: if known.source == ceiling.source {
                known.source
            } else {
                CeilingSource::Unknown
            },
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reason {
    /// Its name, as the kernel prints it.
    pub(crate) name: String,
    pub(crate) count: u64,
    /// How often in a second.
    pub(crate) per_s: f64,
    /// Time that they took, where it is known and means something: not of halts.
    pub(crate) time_ns: Option<u64>,
    pub(crate) user_ns: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExitFigures {
    /// How many; where KVM virtualises in software and tells of none, instructions emulated.
    pub(crate) count: u64,
    pub(crate) emulated: bool,
    /// In a second.
    pub(crate) per_s: f64,
    /// The most frequent reasons first.
    pub(crate) reasons: Vec<Reason>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figures {
    pub(crate) vcpus: usize,
    /// CPUs that its threads took; `None` if that is not known.
    pub(crate) cpu: Option<f64>,
    pub(crate) halts: u64,
    pub(crate) halts_per_s: f64,
    pub(crate) waits: u64,
    /// CPUs that polled with success; `None` if no halt says whether it polled.
    pub(crate) useful: Option<f64>,
    /// CPUs that polled without success.
    pub(crate) wasted: Option<f64>,
    /// Wake-up latency of the halts that waited.
    pub(crate) latency: Option<Spread>,
    /// Mean window, where known.
    pub(crate) window_ns: Option<u64>,
    pub(crate) ceilings: Option<Ceilings>,
    pub(crate) vetoes: usize,
    /// Exits; `None` if none were recorded.
    pub(crate) exits: Option<ExitFigures>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Whose<'a> {
    pub(crate) cell: &'a Cell,
    pub(crate) known: &'a [&'a Vcpu],
    /// vCPUs that are known or did something.
    pub(crate) vcpus: usize,
    pub(crate) cpu: Option<f64>,
    pub(crate) length_ns: u64,
    /// What exits are called; `None` if none are recorded.
    pub(crate) names: Option<&'a Names>,
}

impl Figures {
    pub(crate) fn of(step: &Step, whose: Whose<'_>) -> Self {
        let halts = &whose.cell.halts;
        let length = whose.length_ns;
        let vcpus = u64::try_from(whose.vcpus.max(1)).unwrap_or(u64::MAX);
        let polled = halts.polled_of(length.saturating_mul(vcpus));
        Self {
            vcpus: whose.vcpus,
            cpu: whose.cpu,
            halts: halts.halts,
            halts_per_s: per_s(halts.halts, length),
            waits: halts.waits,
            useful: cpus(halts, polled.poll_success_ns, length),
            wasted: cpus(halts, polled.poll_fail_ns, length),
            latency: Spread::of(&halts.wake_latency_ns),
            window_ns: window(whose),
            ceilings: ceilings(&step.around, whose),
            vetoes: (whose.known.iter())
                .filter(|vcpu| vcpu.guest_veto == Some(true))
                .count(),
            exits: (whose.names).map(|names| {
                let part = length as f64 / step.length_ns().max(1) as f64;
                exits(whose.cell, step.exits_ns() as f64 * part, names)
            }),
        }
    }
}

/// So many in a second.
pub(crate) fn per_s(count: u64, length_ns: u64) -> f64 {
    if length_ns == 0 {
        return 0.0;
    }
    count as f64 / (length_ns as f64 / 1e9)
}

/// CPUs that a time is, where the halts say whether they polled.
pub(crate) fn cpus(halts: &Account, ns: u64, length_ns: u64) -> Option<f64> {
    let known = halts.poll_known > 0 || halts.halts == 0;
    (known && length_ns > 0).then(|| ns as f64 / length_ns as f64)
}

/// The mean of the windows of the halts; else of the vCPUs' as they were last seen.
fn window(whose: Whose<'_>) -> Option<u64> {
    whose.cell.window.mean().or_else(|| {
        let seen: Vec<u64> = (whose.known.iter())
            .filter_map(|vcpu| vcpu.window_ns.map(u64::from))
            .collect();
        let count = u64::try_from(seen.len()).unwrap_or(u64::MAX);
        seen.iter().sum::<u64>().checked_div(count)
    })
}

/// The ceilings that the halts told of; else the vCPUs'.
fn ceilings(around: &Around, whose: Whose<'_>) -> Option<Ceilings> {
    let told = whose.cell.halts.ceilings.rows();
    let told = told.fold(None, |known, (ceiling, _)| {
        Some(Ceilings::with(known, *ceiling))
    });
    told.or_else(|| {
        let known = whose.known.iter();
        let each = known.filter_map(|vcpu| ceiling_of(around, vcpu));
        each.fold(None, |known, ceiling| Some(Ceilings::with(known, ceiling)))
    })
}

/// A vCPU's ceiling: the module parameter as it was then, if that binds it.
fn ceiling_of(around: &Around, vcpu: &Vcpu) -> Option<Ceiling> {
    let source = vcpu.ceiling_source;
    let live = (source == CeilingSource::Param)
        .then(|| around.knobs.get("halt_poll_ns")?.parse().ok())
        .flatten();
    let ns = live.or(vcpu.ceiling_ns)?;
    Some(Ceiling { ns, source })
}

fn exits(cell: &Cell, length_ns: f64, names: &Names) -> ExitFigures {
    let per_s = |count: u64| {
        if length_ns > 0.0 {
            count as f64 / (length_ns / 1e9)
        } else {
            0.0
        }
    };
    let Some(account) = &cell.exits else {
        return ExitFigures {
            count: 0,
            emulated: false,
            per_s: 0.0,
            reasons: Vec::new(),
        };
    };
    let passed = account.total();
    let real = passed.exits_in_all().saturating_add(passed.other);
    let stands_for = if real > 0 { real } else { passed.emulations };
    let mut causes: Vec<(&Cause, _)> = account
        .causes
        .iter()
        .filter(|(cause, _)| is_reason(cause.kind, &passed))
        .collect();
    causes.sort_by_key(|(cause, tally)| (std::cmp::Reverse(tally.count), **cause));
    let reasons = causes.into_iter().take(REASONS);
    ExitFigures {
        count: stands_for,
        emulated: real == 0 && passed.emulations > 0,
        per_s: per_s(stands_for),
        reasons: reasons
            .map(|(cause, tally)| Reason {
                name: cause.name(names),
                count: tally.count,
                per_s: per_s(tally.count),
                time_ns: (!cause.is_halt() && tally.handling_ns.count() > 0)
                    .then(|| tally.time_ns()),
                user_ns: tally.user_ns,
            })
            .collect(),
    }
}

/// Exits have reasons. Where KVM virtualises in software, what stands for them has.
fn is_reason(kind: Kind, passed: &Passed) -> bool {
    match kind {
        Kind::Exit | Kind::Other => true,
        Kind::UserspaceExit | Kind::EmulateInsn => passed.exits_in_all() == 0,
        _ => false,
    }
}

/// Halts by what ended them, in the order of [`WakeSource::ALL`].
pub(crate) fn wakes(halts: &Account) -> [(WakeSource, u64); 5] {
    let mut wakes = WakeSource::ALL.map(|source| (source, 0));
    for ((_, count), told) in wakes.iter_mut().zip(halts.wakes) {
        *count = told;
    }
    wakes
}

#[cfg(test)]
mod test;
