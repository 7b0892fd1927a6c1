//! Halts as counts: what is kept of them where their rows cannot be.

use super::{Halt, HaltCounts};
use crate::stats::Fold;

impl HaltCounts {
    /// Counts one more halt of the same vCPU, by the rules by which the account reads it.
    pub fn count(&mut self, halt: &Halt) {
        self.stretch(halt.start_ns, halt.end_ns());
        self.halts.fold(&1);
        self.waited.fold(&u64::from(halt.waited));
        self.wakes[usize::from(halt.wake.code())].fold(&1);
        self.halt_ns.record(halt.halt_ns);
        if let Some(gap_ns) = halt.gap_ns() {
            self.gap_ns.record(gap_ns);
        }
        if let (true, Some(latency_ns)) = (halt.waited, halt.wake_latency_ns) {
            self.wake_latency_ns.record(latency_ns);
        }
        self.count_poll(halt);
    }

    fn count_poll(&mut self, halt: &Halt) {
        let polled = halt.has_polled() == Some(true);
        let counts = [
            (&mut self.poll_known, halt.poll_ns.is_some()),
            (&mut self.polled, polled),
            (&mut self.successful_polls, polled && !halt.waited),
            (&mut self.poll_cuts, polled && halt.is_preempted()),
        ];
        for (count, more) in counts {
            count.get_or_insert(0).fold(&u64::from(more));
        }
        if let (true, Some(poll_ns)) = (polled, halt.poll_ns) {
            let polls = if halt.waited {
                &mut self.poll_fail_ns
            } else {
                &mut self.poll_success_ns
            };
            polls.record(poll_ns);
        }
    }

    /// Adds the counts of another interval: these are then the counts of both, and of what lies between.
    pub fn merge(&mut self, other: &Self) {
        if other.halts == 0 {
            return;
        }
        if self.halts == 0 {
            let (vm, vcpu, tid) = (self.vm, self.vcpu, self.tid);
            self.clone_from(other);
            (self.vm, self.vcpu, self.tid) = (vm, vcpu, tid);
            return;
        }
        let sum = |of: fn(&Self) -> u64| Some(of(self).saturating_add(of(other)));
        (self.poll_known, self.polled, self.successful_polls) = (
            sum(Self::polls_known),
            sum(Self::polls),
            sum(Self::polls_met),
        );
        let cuts = self.poll_cuts.zip(other.poll_cuts);
        self.poll_cuts = cuts.map(|(ours, more)| ours.saturating_add(more));
        let start_ns = other.time_ns.saturating_sub(other.interval_ns);
        self.stretch(start_ns, other.time_ns);
        self.halts.fold(&other.halts);
        self.waited.fold(&other.waited);
        self.wakes.fold(&other.wakes);
        self.halt_ns.merge(&other.halt_ns);
        self.gap_ns.merge(&other.gap_ns);
        self.poll_success_ns.merge(&other.poll_success_ns);
        self.poll_fail_ns.merge(&other.poll_fail_ns);
        self.wake_latency_ns.merge(&other.wake_latency_ns);
    }

    fn stretch(&mut self, start_ns: u64, end_ns: u64) {
        let (mut first_ns, mut last_ns) = (start_ns, end_ns);
        if self.halts > 0 {
            first_ns = first_ns.min(self.time_ns.saturating_sub(self.interval_ns));
            last_ns = last_ns.max(self.time_ns);
        }
        self.time_ns = last_ns;
        self.interval_ns = last_ns.saturating_sub(first_ns);
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::account::Account;
    use crate::event::WakeSource;

    /// Halts of every kind: met, failed, cut, not polled, not known.
    fn halts() -> Vec<Halt> {
        let halt = |i: u64| Halt {
            start_ns: 1_000_000 + i * 50_000,
            halt_ns: 1_000 + i * 700,
            waited: i.is_multiple_of(3),
            valid: true,
            window_ns: i.is_multiple_of(2).then_some(10_000),
            poll_ns: (!i.is_multiple_of(5)).then_some(i % 4 * 200),
            polled: [None, None, Some(true), Some(false)][usize::try_from(i / 5 % 4).unwrap()],
            wake_latency_ns: (!i.is_multiple_of(7)).then_some(if i.is_multiple_of(3) {
                300
            } else {
                0
            }),
            wake: WakeSource::ALL[usize::try_from(i % 5).unwrap()],
            poll_cut: Some(i.is_multiple_of(11)),
            ..Halt::default()
        };
        (0..60).map(halt).collect()
    }

    fn counted<'a>(halts: impl IntoIterator<Item = &'a Halt>) -> HaltCounts {
        let mut counts = HaltCounts::default();
        for halt in halts {
            counts.count(halt);
        }
        counts
    }

    #[test]
    fn counts_say_what_the_halts_say() {
        let (mut of_halts, mut of_counts) = (Account::default(), Account::default());
        let halts = halts();
        for halt in &halts {
            of_halts.halt(halt);
        }
        of_counts.counts(&counted(&halts));
        let figures = |it: &Account| {
            let polls = (it.poll_known, it.polled, it.successful_polls, it.poll_cuts);
            let times = [&it.halt_ns, &it.gap_ns, &it.wake_latency_ns].map(Clone::clone);
            let polled = (it.poll_success_ns.clone(), it.poll_fail_ns.clone());
            let span = (it.span.first_ns, it.span.last_ns);
            (it.halts, it.waits, it.wakes, polls, times, polled, span)
        };
        assert_eq!(figures(&of_counts), figures(&of_halts));
        assert_eq!(of_counts.parts.total_ns(), of_halts.parts.total_ns());
    }

    #[test]
    fn counts_of_parts_make_the_counts_of_the_whole() {
        let halts = halts();
        for middle in [0, 1, 17, 60] {
            let (first, rest) = halts.split_at(middle);
            let mut merged = counted(first);
            merged.merge(&counted(rest));
            assert_eq!(merged, counted(&halts), "{middle}");
            let mut merged = counted(rest);
            merged.merge(&counted(first));
            assert_eq!(merged, counted(&halts), "{middle}, the other way");
        }
    }
}
