//! Times that can be trusted: each CPU's must not run backwards.
//!
//! A tracer keeps a buffer for each CPU and prints it in order, so that on one CPU a time before the
//! last one is a fault. Which of the two is at fault shows the one after them:
//!
//! ```text
//!   10  11  99  12  13    99 fits nothing: it is dropped
//!   10  11   3  12  13     3 fits nothing: it is dropped
//!   10  11   3   4   5    the clock stepped back: all is dropped until it has caught up
//! ```
//!
//! So each CPU's latest event waits here for the next one.

use std::collections::BTreeMap;

use super::error::Skipped;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Passed<T> {
    /// The event before it, which may go on now.
    pub(super) ready: Option<(u64, T)>,
    /// After that event, and at this time, something is missing on this CPU.
    pub(super) gap_ns: Option<u64>,
    /// Why an event was dropped: this one, or the one before it.
    pub(super) dropped: Option<Skipped>,
    /// It is the first event of its CPU.
    pub(super) first: bool,
}

#[derive(Debug)]
pub(super) struct Clock<T> {
    cpus: BTreeMap<Option<u32>, Cpu<T>>,
    /// How often events went missing of which not even the CPU is known.
    gaps: u64,
}

#[derive(Debug)]
struct Cpu<T> {
    passed_ns: u64,
    waiting: Option<(u64, T)>,
    /// An event came that lies before what went on, and none since that does not.
    behind: bool,
    /// Something of this CPU is missing after the event that waits.
    gap: bool,
    /// `gaps` when the event that waits came.
    gaps: u64,
}

impl<T> Default for Clock<T> {
    fn default() -> Self {
        Self {
            cpus: BTreeMap::new(),
            gaps: 0,
        }
    }
}

impl<T> Clock<T> {
    /// Events of some CPU are missing after those that came.
    pub(super) fn gap(&mut self) {
        self.gaps += 1;
    }

    /// Takes the next event of a CPU. Where no CPU is printed, all are taken for one.
    pub(super) fn pass(&mut self, cpu: Option<u32>, time_ns: u64, event: T) -> Passed<T> {
        let mut first = false;
        let cpu = self.cpus.entry(cpu).or_insert_with(|| {
            first = true;
            Cpu {
                passed_ns: 0,
                waiting: None,
                behind: false,
                gap: false,
                gaps: self.gaps,
            }
        });
        let mut passed = Passed {
            ready: None,
            gap_ns: None,
            dropped: None,
            first,
        };
        if time_ns < cpu.passed_ns {
            passed.dropped = Some(if cpu.behind {
                Skipped::SteppedBack
            } else {
                Skipped::OutOfOrder
            });
            cpu.behind = true;
            cpu.gap = true;
            return passed;
        }
        cpu.behind = false;
        let waited = cpu.waiting.replace((time_ns, event));
        let mut gap = std::mem::take(&mut cpu.gap) || cpu.gaps != self.gaps;
        cpu.gaps = self.gaps;
        match waited {
            Some((waited_ns, _)) if time_ns < waited_ns => {
                passed.dropped = Some(Skipped::OutOfOrder);
                gap = true;
            }
            Some((waited_ns, event)) => {
                cpu.passed_ns = waited_ns;
                passed.ready = Some((waited_ns, event));
            }
            None => {}
        }
        passed.gap_ns = gap.then_some(cpu.passed_ns);
        passed
    }

    /// The events that still wait, when no more will come.
    pub(super) fn finish(&mut self) -> Vec<(u64, T)> {
        let cpus = self.cpus.values_mut();
        cpus.filter_map(|cpu| cpu.waiting.take()).collect()
    }
}

#[cfg(test)]
mod test {
    use super::*;

    /// Those of one CPU's times that went on.
    fn through(times: &[u64]) -> Vec<u64> {
        let mut clock = Clock::default();
        let (mut out, mut dropped) = (Vec::new(), 0);
        for &time in times {
            let passed = clock.pass(Some(0), time, ());
            out.extend(passed.ready);
            dropped += usize::from(passed.dropped.is_some());
        }
        out.extend(clock.finish());
        assert_eq!(out.len() + dropped, times.len());
        out.into_iter().map(|(time, ())| time).collect()
    }

    #[test]
    fn what_is_missing_lies_after_what_was_read() {
        let mut clock = Clock::default();
        clock.pass(Some(0), 10, 'a');
        clock.pass(Some(1), 11, 'b');
        clock.gap();
        for (cpu, time) in [(0, 12), (1, 13)] {
            let passed = clock.pass(Some(cpu), time, 'c');
            assert_eq!(passed.gap_ns, passed.ready.map(|(time, _)| time));
        }
        assert_eq!(clock.pass(Some(0), 14, 'd').gap_ns, None);
        // The CPU of a dropped event is known.
        assert_eq!(clock.pass(Some(0), 1, 'x').gap_ns, None);
        assert_eq!(clock.pass(Some(1), 15, 'e').gap_ns, None);
        assert_eq!(clock.pass(Some(0), 16, 'f').gap_ns, Some(14));
        assert_eq!(clock.pass(Some(2), 17, 'g').gap_ns, None);
    }

    #[test]
    fn what_goes_on_never_runs_backwards() {
        // Every sequence of five times out of four.
        for code in 0..1024_u32 {
            let times: Vec<u64> = (0..5).map(|n| u64::from(code >> (2 * n) & 3)).collect();
            let out = through(&times);
            assert!(out.is_sorted(), "{times:?} gave {out:?}");
            if times.is_sorted() {
                assert_eq!(out, times);
            }
        }
    }
}
