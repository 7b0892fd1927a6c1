//! Recordings of the VMs of a target, put on one time base.
//!
//! A look ends after so many halts, so that a VM is recorded for the shorter the more it halts. Where several VMs are one
//! target, each is taken to have gone on as recorded for as long as the one that was recorded longest: its stretches are
//! spread over that time, and each of its halts stands for several.

use super::super::evidence::{OfVm, Question};
use super::super::input::Scope;
use super::Stretch;
use crate::event::{CeilingSource, Halt};
use crate::ids::VmIndex;
use crate::kvm::Knobs;
use crate::replay::cost::MILLI;
use crate::replay::{Cost, Sums, latency};
use crate::stats::Fold as _;

/// For how long a VM was recorded, in nanoseconds.
fn span_ns(of: &OfVm<'_, Stretch>) -> u64 {
    let spans = of.chunks.iter().map(|chunk| chunk.span_ns);
    spans.sum::<u64>().max(1)
}

/// For how many halts each halt of a VM stands, in thousandths, VM by VM.
pub(super) fn stand_for_milli(vms: &[OfVm<'_, Stretch>]) -> Vec<u64> {
    let longest_ns = vms.iter().map(span_ns).max().unwrap_or(1);
    let milli = |of| u128::from(longest_ns) * u128::from(MILLI) / u128::from(span_ns(of));
    (vms.iter())
        .map(|of| u64::try_from(milli(of)).unwrap_or(u64::MAX))
        .collect()
}

/// The halts of a VM on a time of their own, stretch behind stretch, under the ceiling in force. Where each stands for
/// several, as much time lies between them.
pub(super) fn placed<'a>(
    vm: VmIndex,
    stretches: &'a [&Stretch],
    question: &Question,
    stands_for_milli: u64,
) -> impl Iterator<Item = Halt> + 'a {
    let in_force = question.in_force.halt_poll_ns;
    let source = match question.scope {
        Scope::Vm(_) => CeilingSource::Cap,
        Scope::Host => CeilingSource::Param,
    };
    let spread = move |ns: u64| {
        let ns = u128::from(ns) * u128::from(stands_for_milli) / u128::from(MILLI);
        u64::try_from(ns).unwrap_or(u64::MAX)
    };
    let mut from_ns = 0_u64;
    stretches.iter().flat_map(move |chunk| {
        let at_ns = from_ns;
        from_ns = from_ns.saturating_add(spread(chunk.span_ns));
        chunk.halts.iter().map(move |halt| Halt {
            start_ns: at_ns.saturating_add(spread(halt.start_ns.saturating_sub(chunk.began_ns))),
            vm: Some(vm),
            ceiling_ns: Some(in_force),
            ceiling_source: source,
            ..*halt
        })
    })
}

/// Recorded halts of all VMs together.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    pub(super) sums: Sums,
    span_ns: u64,
    vcpus: u64,
    latencies_ns: Vec<u64>,
}

impl Recorded {
    pub(super) fn of(vms: &[OfVm<'_, Stretch>]) -> Self {
        let mut all = Self {
            span_ns: vms.iter().map(span_ns).max().unwrap_or(1),
            ..Self::default()
        };
        for (of, stands_for_milli) in vms.iter().zip(stand_for_milli(vms)) {
            let mut sums = Sums::default();
            all.vcpus += of.vcpus.max(1);
            for halt in of.chunks.iter().flat_map(|chunk| &chunk.halts) {
                let slept_late = halt.wake_latency_ns.filter(|_| halt.waited);
                all.latencies_ns.extend(slept_late);
                sums.fold(&Sums {
                    halts: 1,
                    blocks: halt.waited.into(),
                    poll_ns: halt.poll_ns.unwrap_or(0),
                    latency_ns: halt.wake_latency_ns.unwrap_or(0),
                    halt_ns: halt.halt_ns,
                    ..Sums::default()
                });
            }
            let weighed = sums.weighed(Some(of.weight_milli));
            all.sums.fold(&weighed.times(stands_for_milli));
        }
        all
    }

    pub(super) fn halts_per_s(&self) -> f64 {
        self.sums.halts as f64 * 1e9 / self.span_ns as f64
    }

    fn halt_mean_ns(&self) -> f64 {
        self.sums.halt_ns as f64 / self.sums.halts.max(1) as f64
    }

    pub(super) fn gap_mean_ns(&self) -> f64 {
        self.halt_mean_ns() - self.sums.latency_mean_ns()
    }

    /// The most that a ceiling can cost more than what was recorded, in a second: each halt polls for all of it and meets
    /// nothing, then sleeps, and wakes twice as late as the latest class of sleeps was calibrated, or as half of the sleeps
    /// recorded did. (The latest of all wake-ups is one that others delayed, and no measure of thousands.) A vCPU that
    /// wakes so late halts less often.
    pub(super) fn worst_ns_per_s(&self, calibrated_ns: u64, to: Knobs, cost: &Cost) -> f64 {
        let mut sorted = self.latencies_ns.clone();
        sorted.sort_unstable();
        let recorded_ns = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
        let latency_ns = latency::TIMES * calibrated_ns.max(recorded_ns);
        let most_polled_ns = self.halt_mean_ns().min(f64::from(to.halt_poll_ns));
        let worst_ns = most_polled_ns + cost.break_even_ns(latency_ns) as f64;
        let more_ns = worst_ns - self.sums.cost_per_halt_ns(cost);
        let later_ns = latency_ns as f64 - self.sums.latency_mean_ns();
        let of_each = self.halts_per_s() / self.vcpus.max(1) as f64;
        let slower = 1.0 + of_each * later_ns.max(0.0) / 1e9;
        (self.halts_per_s() / slower * more_ns).max(0.0)
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::kvm::{Arch, Version};

    /// Recording of a vCPU that polls for 50 us 14,000 times a second, with three sleeps, one of them delayed.
    fn recorded(longest_ns: u64) -> Recorded {
        Recorded {
            sums: Sums {
                halts: 14_000,
                poll_ns: 14_000 * 50_000,
                halt_ns: 14_000 * 50_000,
                ..Sums::default()
            },
            span_ns: 1_000_000_000,
            vcpus: 1,
            latencies_ns: vec![20_000, longest_ns, 20_000],
        }
    }

    const BALANCED: Cost = Cost {
        switch_cpu_ns: 5_000,
        latency_weight_milli: 1_000,
        ..Cost::FREE
    };

    /// The most that a trial may cost depends on no single wake-up, and is less than the vCPU can be late in that time.
    #[test]
    fn the_worst_is_no_latest_wake_up_at_every_halt() {
        let off = Knobs {
            halt_poll_ns: 0,
            ..Knobs::defaults(Version::new(6, 12), Arch::X86)
        };
        let worst = |longest_ns| recorded(longest_ns).worst_ns_per_s(30_000, off, &BALANCED);
        // Twice 30 us late and the switch, 15 us more than the poll, at 14,000 / (1 + 14,000 * 60 us) halts a second.
        let expected = 15_000.0 * 14_000.0 / 1.84;
        assert!((worst(20_000) - expected).abs() < 1.0, "{}", worst(20_000));
        assert!((worst(900_000) - expected).abs() < 1.0);
        assert!(worst(20_000) > 0.0 && worst(20_000) < 1e9);
    }
}
