//! A threshold on its way up, with the sums of what it has passed.

use super::super::cost::Cost;
use super::super::grid::Tally;
use super::super::latency::{CLASSES, class_end, class_of};
use super::{Halt, Sorted, Threshold, Thresholds};

/// A halt whose poll is cut: what changes at a threshold.
#[derive(Debug, Clone, Copy)]
struct Event {
    at_ns: u64,
    latency_ns: i64,
    /// Its polls do not become longer from here on.
    stops: bool,
}

/// How far the threshold has come among halts with the same overrun. They reach a class in the order of
/// their gaps, so one position for each class says it.
#[derive(Debug)]
struct Progress<'a> {
    of: &'a Sorted,
    /// The class of the shortest sleep after a poll.
    shortest: usize,
    /// By class: the first halt that sleeps for longer than it.
    positions: [usize; CLASSES],
    /// The first halt that the threshold has not reached.
    reached: usize,
}

impl<'a> Progress<'a> {
    /// Below the first threshold.
    fn new(of: &'a Sorted) -> Self {
        let position = |class| {
            let end_ns = class_end(class);
            of.halts.partition_point(|halt| halt.gap_ns <= end_ns)
        };
        Self {
            of,
            shortest: class_of(of.overrun.of_window_ns(1) + 1),
            positions: std::array::from_fn(position),
            reached: 0,
        }
    }

    /// The threshold from which a halt does not sleep.
    fn reached_at_ns(&self, halt: &Halt) -> u64 {
        let overrun = self.of.overrun;
        if halt.gap_ns <= overrun.of_window_ns(0) {
            return 0;
        }
        halt.gap_ns.saturating_sub(overrun.of_window_ns(1)).max(1)
    }

    /// The next halt whose sleep is short enough for a class from `at_ns` on.
    fn shorten(&mut self, class: usize, at_ns: u64) -> Option<&'a Halt> {
        let halt = self.of.halts.get(self.positions[class])?;
        let is_shorter = halt.gap_ns - class_end(class) <= at_ns;
        self.positions[class] += usize::from(is_shorter);
        is_shorter.then_some(halt)
    }

    /// The next halt that does not sleep from `at_ns` on.
    fn reach(&mut self, at_ns: u64) -> Option<&'a Halt> {
        let halt = self.of.halts.get(self.reached)?;
        let is_reached = self.reached_at_ns(halt) <= at_ns;
        self.reached += usize::from(is_reached);
        is_reached.then_some(halt)
    }

    /// The next threshold at which anything happens but longer polls.
    fn next_ns(&self) -> Option<u64> {
        let shorter = (self.shortest..CLASSES - 1).filter_map(|class| {
            let halt = self.of.halts.get(self.positions[class])?;
            Some(halt.gap_ns - class_end(class))
        });
        let reached = self.of.halts.get(self.reached);
        let reached = reached.map(|halt| self.reached_at_ns(halt));
        shorter.chain(reached).min()
    }
}

#[derive(Debug)]
pub(super) struct Sweep<'a> {
    of: &'a Thresholds<'a>,
    at_ns: u64,
    progress: Vec<Progress<'a>>,
    events: Vec<Event>,
    /// The first of the events that is ahead.
    event: usize,
    gaps_ns: u64,
    won_ns: u64,
    /// Halts whose polls stopped at their cut, and how long they polled.
    stopped: u64,
    stopped_ns: u64,
    latency_ns: u64,
}

impl<'a> Sweep<'a> {
    /// Below the first threshold: everybody sleeps for all of the gap.
    pub(super) fn new(of: &'a Thresholds<'a>) -> Self {
        let mut sweep = Self {
            of,
            at_ns: 0,
            progress: of.sorted.iter().map(Progress::new).collect(),
            events: Vec::new(),
            event: 0,
            gaps_ns: 0,
            won_ns: 0,
            stopped: 0,
            stopped_ns: 0,
            latency_ns: 0,
        };
        let sorted = of.sorted.iter().flat_map(|sorted| &sorted.halts);
        for halt in sorted.chain(of.cut.iter().map(|(halt, _)| halt)) {
            sweep.gaps_ns = sweep.gaps_ns.saturating_add(halt.gap_ns);
            let latency_ns = halt.latency_ns(class_of(halt.gap_ns), of.table);
            sweep.latency_ns = sweep.latency_ns.saturating_add(latency_ns);
        }
        for (halt, cut_ns) in &of.cut {
            sweep.put_events(halt, *cut_ns);
        }
        sweep.events.sort_unstable_by_key(|event| event.at_ns);
        sweep
    }

    fn put_events(&mut self, halt: &Halt, cut_ns: u64) {
        let class = class_of(halt.gap_ns);
        for shorter in (0..class).rev() {
            let at_ns = halt.gap_ns - class_end(shorter);
            if at_ns > cut_ns {
                break;
            }
            self.events.push(Event {
                at_ns,
                latency_ns: self.change_ns(halt, shorter),
                stops: false,
            });
        }
        self.events.push(Event {
            at_ns: cut_ns,
            latency_ns: 0,
            stops: true,
        });
    }

    /// By how much the latency changes when a sleep falls into a class from the one above it.
    fn change_ns(&self, halt: &Halt, class: usize) -> i64 {
        let before_ns = halt.latency_ns(class + 1, self.of.table);
        let after_ns = halt.latency_ns(class, self.of.table);
        after_ns.wrapping_sub(before_ns).cast_signed()
    }

    /// Goes up to a threshold. One that lies below changes nothing.
    pub(super) fn advance(&mut self, threshold_ns: u64) {
        self.at_ns = self.at_ns.max(threshold_ns);
        for number in 0..self.progress.len() {
            self.advance_among(number);
        }
        while let Some(event) = self.events.get(self.event)
            && event.at_ns <= self.at_ns
        {
            self.latency_ns = self.latency_ns.wrapping_add_signed(event.latency_ns);
            if event.stops {
                self.stopped += 1;
                self.stopped_ns = self.stopped_ns.saturating_add(event.at_ns);
            }
            self.event += 1;
        }
    }

    fn advance_among(&mut self, number: usize) {
        let at_ns = self.at_ns;
        let shortest = self.progress[number].shortest;
        for class in (shortest..CLASSES - 1).rev() {
            while let Some(halt) = self.progress[number].shorten(class, at_ns) {
                let change_ns = self.change_ns(halt, class);
                self.latency_ns = self.latency_ns.wrapping_add_signed(change_ns);
            }
        }
        while let Some(halt) = self.progress[number].reach(at_ns) {
            let class = class_of(halt.gap_ns).min(shortest);
            let latency_ns = halt.latency_ns(class, self.of.table);
            self.latency_ns = self.latency_ns.wrapping_sub(latency_ns);
            self.won_ns = self.won_ns.saturating_add(halt.gap_ns);
        }
    }

    /// The next threshold at which anything happens but longer polls.
    pub(super) fn next_ns(&self) -> Option<u64> {
        let sorted = self.progress.iter().filter_map(Progress::next_ns);
        let event = self.events.get(self.event).map(|event| event.at_ns);
        sorted.chain(event).min()
    }

    fn asleep(&self) -> u64 {
        let of = |progress: &Progress<'_>| (progress.of.halts.len() - progress.reached) as u64;
        self.progress.iter().map(of).sum()
    }

    fn blocks(&self) -> u64 {
        self.asleep() + self.of.cut.len() as u64
    }

    /// All that sleep have polled, but for those whose polls are cut at once.
    fn failed_polls(&self) -> u64 {
        let at_once = self.of.cut.iter().filter(|(_, cut_ns)| *cut_ns == 0);
        if self.at_ns == 0 {
            return 0;
        }
        self.blocks() - at_once.count() as u64
    }

    fn poll_fail_ns(&self) -> u64 {
        let polling = self.blocks() - self.stopped;
        self.stopped_ns
            .saturating_add(polling.saturating_mul(self.at_ns))
    }

    fn poll_ns(&self) -> u64 {
        if self.at_ns == 0 {
            return 0;
        }
        self.won_ns.saturating_add(self.poll_fail_ns())
    }

    /// What the threshold costs, in thousandths of a nanosecond of CPU.
    pub(super) fn milli(&self, cost: &Cost) -> u128 {
        cost.milli(self.poll_ns(), self.blocks(), self.latency_ns)
    }

    /// Of it, polling, which no higher threshold does less of.
    pub(super) fn polled_milli(&self, cost: &Cost) -> u128 {
        cost.milli(self.poll_ns(), 0, 0)
    }

    pub(super) fn point(&self) -> Threshold {
        let sorted = self.of.sorted.iter().map(|sorted| sorted.halts.len());
        let halts = (sorted.sum::<usize>() + self.of.cut.len()) as u64;
        let tally = Tally {
            halts: halts + self.of.over_at_once,
            blocks: self.blocks(),
            failed_polls: self.failed_polls(),
            poll_ns: self.poll_ns(),
            latency_ns: self.latency_ns,
            halt_ns: self.gaps_ns.wrapping_add(self.latency_ns),
        };
        Threshold {
            threshold_ns: self.at_ns,
            tally,
        }
    }
}
