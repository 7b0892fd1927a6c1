//! Counts mode of this source: halts folded into one row per vCPU and interval. Pure.

use std::collections::BTreeMap;

use haltwise_core::event::{Halt, HaltCounts};
use haltwise_core::ids::Tid;

#[derive(Debug)]
pub(super) struct Counts {
    interval_ns: u64,
    began_ns: u64,
    rows: BTreeMap<Tid, PartialCounts>,
}

#[derive(Debug, Default)]
struct PartialCounts {
    counts: HaltCounts,
    windows_known: u64,
    polled: u64,
    successful: u64,
    polls_known: u64,
    cut: u64,
    turned_back_ns: u64,
}

impl Counts {
    pub(super) fn new(interval_ns: u64, now_ns: u64) -> Self {
        Self {
            interval_ns: interval_ns.max(1),
            began_ns: now_ns,
            rows: BTreeMap::new(),
        }
    }

    pub(super) fn interval_start_ns(&self) -> u64 {
        self.began_ns
    }

    /// All events before `now_ns` were added: ends the interval if it is over.
    pub(super) fn advance(&mut self, now_ns: u64, out: &mut Vec<HaltCounts>) {
        let since = now_ns.saturating_sub(self.began_ns);
        if since < self.interval_ns {
            return;
        }
        let end = self.began_ns.saturating_add(self.interval_ns);
        self.close(end, out);
        // Intervals without any event have no rows.
        self.began_ns = now_ns - since % self.interval_ns;
    }

    pub(super) fn finish(&mut self, now_ns: u64, out: &mut Vec<HaltCounts>) {
        self.advance(now_ns, out);
        self.close(now_ns, out);
    }

    pub(super) fn add(&mut self, halt: &Halt) {
        let row = self.rows.entry(halt.tid).or_default();
        let counts = &mut row.counts;
        counts.vm = halt.vm;
        counts.vcpu = halt.vcpu;
        counts.tid = halt.tid;
        counts.halts += 1;
        counts.waited += u64::from(halt.waited);
        counts.wakes[usize::from(halt.wake.code())] += 1;
        counts.halt_ns.record(halt.halt_ns);
        if let Some(gap) = halt.gap_ns() {
            counts.gap_ns.record(gap);
        }
        if let Some(latency) = halt.wake_latency_ns.filter(|_| halt.waited) {
            counts.wake_latency_ns.record(latency);
        }
        if let Some(window) = halt.window_ns {
            row.windows_known += 1;
            row.polled += u64::from(window > 0);
            row.successful += u64::from(window > 0 && !halt.waited);
        }
        if let Some(poll) = halt.poll_ns {
            row.polls_known += 1;
            row.cut += u64::from(halt.is_preempted());
            if !halt.waited {
                row.turned_back_ns += halt.halt_ns.saturating_sub(poll);
            }
            match (poll, halt.waited) {
                (0, _) if halt.window_ns == Some(0) => {}
                (_, true) => counts.poll_fail_ns.record(poll),
                (_, false) => counts.poll_success_ns.record(poll),
            }
        }
    }

    fn close(&mut self, end_ns: u64, out: &mut Vec<HaltCounts>) {
        let interval_ns = end_ns.saturating_sub(self.began_ns);
        for row in std::mem::take(&mut self.rows).into_values() {
            let halts = row.counts.halts;
            let windows_known = row.windows_known > 0 || halts == 0;
            let polls_known = row.polls_known > 0 || halts == 0;
            out.push(HaltCounts {
                time_ns: end_ns,
                interval_ns,
                poll_known: Some(row.windows_known),
                polled: windows_known.then_some(row.polled),
                successful_polls: windows_known.then_some(row.successful),
                poll_cuts: polls_known.then_some(row.cut),
                turned_back_ns: polls_known.then_some(row.turned_back_ns),
                ..row.counts
            });
        }
    }
}

#[cfg(test)]
mod test {
    use haltwise_core::event::WakeSource;

    use super::*;

    fn halt(waited: bool, window: Option<u32>) -> Halt {
        Halt {
            tid: Tid(7),
            halt_ns: 30_000,
            waited,
            window_ns: window,
            poll_ns: window.map(u64::from),
            wake_latency_ns: Some(if waited { 9_000 } else { 0 }),
            wake: WakeSource::Device,
            ..Halt::default()
        }
    }

    #[test]
    fn an_interval_is_counted_and_the_next_begins() {
        let mut counts = Counts::new(100, 1_000);
        let mut out = Vec::new();
        counts.add(&halt(true, Some(10_000)));
        counts.add(&halt(false, Some(50_000)));
        counts.add(&halt(true, Some(0)));
        counts.advance(1_099, &mut out);
        assert_eq!(out, []);
        counts.advance(1_350, &mut out);
        let row = &out[0];
        assert_eq!(
            (row.time_ns, row.interval_ns, row.tid),
            (1_100, 100, Tid(7))
        );
        assert_eq!((row.halts, row.waited), (3, 2));
        assert_eq!((row.polled, row.successful_polls), (Some(2), Some(1)));
        assert_eq!(row.poll_cuts, Some(0));
        assert_eq!(row.wakes[usize::from(WakeSource::Device.code())], 3);
        assert_eq!(
            (row.poll_fail_ns.sum(), row.poll_success_ns.sum()),
            (10_000, 50_000)
        );
        assert_eq!(row.turned_back_ns, Some(0));
        assert_eq!((row.gap_ns.count(), row.wake_latency_ns.count()), (3, 2));
        counts.add(&halt(true, Some(0)));
        counts.finish(1_370, &mut out);
        assert_eq!((out[1].time_ns, out[1].interval_ns), (1_370, 70));
        assert_eq!(out.len(), 2);
    }

    #[test]
    fn what_one_halt_does_not_say_is_known_of_the_others() {
        let mut counts = Counts::new(100, 0);
        let mut out = Vec::new();
        counts.add(&halt(false, Some(10_000)));
        counts.add(&halt(true, None));
        counts.finish(50, &mut out);
        assert_eq!(
            (
                out[0].halts,
                out[0].poll_known,
                out[0].polled,
                out[0].poll_cuts
            ),
            (2, Some(1), Some(1), Some(0))
        );
        assert_eq!(out[0].turned_back_ns, Some(20_000));
    }
}
