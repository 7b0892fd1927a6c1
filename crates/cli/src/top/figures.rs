//! Figures of a row in one step: rates, shares, percentiles. Declared here, and computed from core's accounts.

use std::collections::BTreeMap;

use haltwise_core::account::parts::Parts;
use haltwise_core::account::{Account, Ceiling, Spread};
use haltwise_core::event::{CeilingSource, Observable, Vcpu, Vm};
use haltwise_core::exit::account::{Account as ExitAccount, By, Passed};
use haltwise_core::exit::names::Names;
use haltwise_core::exit::{Cause, Kind};
use haltwise_document::figures;
use serde::{Serialize, Serializer};

use super::step::{Around, Cell, Key, Step};
use crate::figures::{PARTS, SPREAD, Wakes, wakes};

const REASONS: usize = 5;

figures! {
    /// Figures of the host, a VM or a vCPU.
    #[derive(Clone, PartialEq)]
    pub(crate) struct IntervalFigures {
        /// CPU time of all threads of the VM's VMM, or of the vCPU's thread. A capture has that of all of it: with
        /// `--once`.
        pub(crate) cpu_percent: Option<f64> = CpuPercent,
        /// Halts that ended in the interval.
        pub(crate) halts: Option<u64> = Count,
        /// The same in a second.
        pub(crate) halts_per_s: Option<f64> = PerSecond,
        /// Those of them in which the vCPU was scheduled out.
        pub(crate) waits: Option<u64> = Count,
        /// Halts that polled.
        pub(crate) polled: Option<u64> = Count,
        /// Polls that a wake event ended before the vCPU was scheduled out.
        pub(crate) successful_polls: Option<u64> = Count,
        /// Time of successful polls.
        pub(crate) useful_cpu_percent: Option<f64> = CpuPercent,
        /// Time of failed polls, which ended in a wait.
        pub(crate) wasted_cpu_percent: Option<f64> = CpuPercent,
        /// Halted time by what it was spent on.
        pub(crate) parts: Option<Parts> = Record(PARTS),
        /// Halts by what ended them: `timer`, `ipi`, `device`, `other`, `unknown`.
        #[serde(serialize_with = "by_source")]
        pub(crate) wakes: Option<Wakes> = Object,
        /// Wake-up latency of the halts that waited.
        pub(crate) wake_latency_ns: Option<Spread> = Record(SPREAD),
        /// Mean polling window of the halts; live, of the vCPUs as last seen.
        pub(crate) window_ns: Option<u64> = Nanos,
        /// The ceilings in force.
        pub(crate) ceiling: Option<CeilingRange> = Record(CeilingRange::FIGURES),
        /// Exits; `null` unless they are counted.
        pub(crate) exits: Option<CountedExits> = Record(CountedExits::FIGURES),
    }

    #[derive(Clone, Copy, PartialEq)]
    pub(crate) struct CeilingRange {
        /// The lowest.
        pub(crate) low_ns: u32 = Nanos,
        /// The highest.
        pub(crate) high_ns: u32 = Nanos,
        /// `param`, `cap`, `snapshot`, or `unknown` where vCPUs differ.
        pub(crate) source: CeilingSource = Word,
    }

    #[derive(Clone, PartialEq)]
    pub(crate) struct CountedExits {
        /// `exits`, as the tracepoint `kvm_exit` reports them, or `emulated-instructions` where it reports none. For
        /// an instruction that KVM emulates it does not fire, while KVM's counter `exits` grows.
        pub(crate) counts: &'static str = Word,
        /// How many.
        pub(crate) count: u64 = Count,
        /// The same in a second. Exits are read once a second, and the rate is over the time between readings.
        pub(crate) per_s: f64 = PerSecond,
        /// The five most frequent reasons.
        pub(crate) reasons: Vec<CountedReason> = List(CountedReason::FIGURES),
    }

    #[derive(Clone, PartialEq)]
    pub(crate) struct CountedReason {
        /// As the kernel prints it.
        pub(crate) name: String = Name,
        /// How often.
        pub(crate) count: u64 = Count,
        /// The same in a second.
        pub(crate) per_s: f64 = PerSecond,
        /// Time from these exits to the next entries; `null` for halts, whose time is mostly sleep.
        pub(crate) time_ns: Option<u64> = Nanos,
        /// The part of it in the VMM.
        pub(crate) user_ns: u64 = Nanos,
    }
}

impl CeilingRange {
    fn with(self, other: Self) -> Self {
        Self {
            low_ns: self.low_ns.min(other.low_ns),
            high_ns: self.high_ns.max(other.high_ns),
            source: if self.source == other.source {
                self.source
            } else {
                CeilingSource::Unknown
            },
        }
    }
}

/// Value of [`CountedExits::counts`] where KVM virtualises in software and reports no exits.
pub(crate) const EMULATED: &str = "emulated-instructions";

impl IntervalFigures {
    /// Figures of a subject with so many vCPUs, which is a VM, in one, or neither. `names`: what exits are called;
    /// `None` if none are recorded.
    pub(crate) fn of(
        step: &Step,
        key: Key,
        vm: Option<&Vm>,
        vcpus: usize,
        names: Option<&Names>,
    ) -> Self {
        let cell = step.sum(key);
        let halts = &cell.halts;
        let length = vm.map_or(step.length_ns(), |vm| step.there_ns(vm));
        let most = length.saturating_mul(vcpus.max(1) as u64);
        let polled = halts.polled_of(most);
        // Nothing is known of halts that cannot be observed, which is not zero.
        let seen = vm.is_none_or(|vm| vm.observable == Observable::Yes) || halts.halts > 0;
        let polls = seen && is_polling_known(halts);
        let percent = |ns| {
            cpus(halts, ns, length)
                .filter(|_| seen)
                .map(|it| it * 100.0)
        };
        Self {
            cpu_percent: step.cpus_of(key).map(|cpus| cpus * 100.0),
            halts: seen.then_some(halts.halts),
            halts_per_s: seen.then(|| per_s(halts.halts, length as f64)),
            waits: seen.then_some(halts.waits),
            polled: polls.then_some(halts.polled),
            successful_polls: polls.then_some(halts.successful_polls),
            useful_cpu_percent: percent(polled.poll_success_ns),
            wasted_cpu_percent: percent(polled.poll_fail_ns),
            parts: seen.then_some(halts.parts),
            wakes: seen.then_some(halts.wakes),
            wake_latency_ns: Spread::of(&halts.wake_latency_ns),
            window_ns: cell.window.mean().or_else(|| last_window(step, key)),
            ceiling: ceilings(step, key, halts),
            exits: names.map(|names| {
                let part = length as f64 / step.length_ns().max(1) as f64;
                exits(&cell, step.exits_ns() as f64 * part, names)
            }),
        }
    }
}

pub(crate) fn per_s(count: u64, length_ns: f64) -> f64 {
    if length_ns > 0.0 {
        count as f64 / (length_ns / 1e9)
    } else {
        0.0
    }
}

fn is_polling_known(halts: &Account) -> bool {
    halts.poll_known > 0 || halts.halts == 0
}

/// CPUs that a time is, where the halts say whether they polled.
pub(crate) fn cpus(halts: &Account, ns: u64, length_ns: u64) -> Option<f64> {
    (is_polling_known(halts) && length_ns > 0).then(|| ns as f64 / length_ns as f64)
}

fn last_window(step: &Step, key: Key) -> Option<u64> {
    let seen = step.known(key).filter_map(|vcpu| vcpu.window_ns);
    let seen: Vec<u64> = seen.map(u64::from).collect();
    seen.iter().sum::<u64>().checked_div(seen.len() as u64)
}

/// The ceilings that the halts told of; else the vCPUs'.
fn ceilings(step: &Step, key: Key, halts: &Account) -> Option<CeilingRange> {
    let told = halts.ceilings.rows().map(|(ceiling, _)| *ceiling);
    let known = step.known(key);
    let known = known.filter_map(|vcpu| ceiling_of(&step.around, vcpu));
    let range = |ceiling: Ceiling| CeilingRange {
        low_ns: ceiling.ns,
        high_ns: ceiling.ns,
        source: ceiling.source,
    };
    let told = told.map(range).reduce(CeilingRange::with);
    told.or_else(|| known.map(range).reduce(CeilingRange::with))
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

pub(crate) fn exits(cell: &Cell, length_ns: f64, names: &Names) -> CountedExits {
    let none = ExitAccount::new(By::Reason, 0);
    let account = cell.exits.as_deref().unwrap_or(&none);
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
    CountedExits {
        counts: if real == 0 && passed.emulations > 0 {
            EMULATED
        } else {
            "exits"
        },
        count: stands_for,
        per_s: per_s(stands_for, length_ns),
        reasons: reasons
            .map(|(cause, tally)| CountedReason {
                name: cause.name(names),
                count: tally.count,
                per_s: per_s(tally.count, length_ns),
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

#[expect(clippy::ref_option, reason = "the form that serde calls")]
fn by_source<S: Serializer>(counts: &Option<Wakes>, to: S) -> Result<S::Ok, S::Error> {
    let counts = counts.map(|counts| wakes(counts).collect::<BTreeMap<_, _>>());
    counts.serialize(to)
}

#[cfg(test)]
mod test;
