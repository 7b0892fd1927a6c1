//! Events over time, in a bounded number of slots.
//!
//! A slot is 2^n nanoseconds wide and begins at a multiple of its width. When the times seen no
//! longer fit into [`SLOTS`] slots, all slots double. The width thus depends on the first and the
//! last time alone, not on the order in between, and two series add up exactly.

use super::sums::folds;
use crate::event::{Halt, HaltCounts, WindowChange};
use crate::hist::LogHist;
use crate::stats::{Fold, total};

pub const SLOTS: u64 = 64;

/// The narrowest slot, as a power of two of nanoseconds: about 1 ms.
const NARROWEST: u32 = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    shift: u32,
    ends_ns: Option<(u64, u64)>,
    /// By time: few, most of them added at the end, and there is a series for each vCPU. `None` in an outline.
    slots: Option<Vec<(u64, Slot)>>,
}

impl Default for Series {
    fn default() -> Self {
        Self {
            shift: NARROWEST,
            ends_ns: None,
            slots: Some(Vec::new()),
        }
    }
}

/// Totals of the events that ended in one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slot {
    pub halts: u64,
    pub waits: u64,
    pub poll_ns: u64,
    /// Windows in force at entry, one for each halt that knows its window.
    pub window: Levels,
    /// Windows that grow and shrink left behind.
    pub change: Levels,
}

impl Slot {
    pub(super) fn halt(&mut self, halt: &Halt) {
        self.halts.fold(&1);
        self.waits.fold(&u64::from(halt.waited));
        self.poll_ns.fold(&halt.poll_ns.unwrap_or(0));
        if let Some(window) = halt.window_ns {
            self.window.record(window);
        }
    }

    pub(super) fn window(&mut self, change: &WindowChange) {
        self.change.record(change.new_ns);
    }

    pub(super) fn counts(&mut self, counts: &HaltCounts) {
        let polled_ns = [&counts.poll_success_ns, &counts.poll_fail_ns].map(LogHist::sum);
        self.halts.fold(&counts.halts);
        self.waits.fold(&counts.waited);
        self.poll_ns = total([self.poll_ns, polled_ns[0], polled_ns[1]]);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Levels {
    pub count: u64,
    pub sum: u64,
    pub max: u32,
}

impl Levels {
    pub fn record(&mut self, value: u32) {
        self.count.fold(&1);
        self.sum.fold(&u64::from(value));
        self.max = self.max.max(value);
    }

    pub fn mean(&self) -> Option<u64> {
        self.sum.checked_div(self.count)
    }
}

impl Fold for Levels {
    fn fold(&mut self, other: &Self) {
        self.count.fold(&other.count);
        self.sum.fold(&other.sum);
        self.max = self.max.max(other.max);
    }
}

folds! {
    Slot { halts, waits, poll_ns, window, change }
}

impl Series {
    /// One that has the width of its slots, and none of them: of many vCPUs they would be most of the memory.
    pub fn outline() -> Self {
        Self {
            slots: None,
            ..Self::default()
        }
    }

    /// Adds to the slot of a time; the series widens if it has to.
    pub fn add(&mut self, time_ns: u64, add: impl FnOnce(&mut Slot)) {
        self.reach(time_ns);
        let index = time_ns >> self.shift;
        let Some(slots) = &mut self.slots else { return };
        // Times rise, so that it is the last one but for a few.
        let is_last = slots.last().is_some_and(|(slot, _)| *slot == index);
        let place = if is_last {
            slots.len() - 1
        } else {
            slots.partition_point(|(slot, _)| *slot < index)
        };
        if slots.get(place).is_none_or(|(slot, _)| *slot != index) {
            slots.insert(place, (index, Slot::default()));
        }
        add(&mut slots[place].1);
    }

    fn reach(&mut self, time_ns: u64) {
        let (first_ns, last_ns) = self.ends_ns.unwrap_or((time_ns, time_ns));
        let (first_ns, last_ns) = (first_ns.min(time_ns), last_ns.max(time_ns));
        self.ends_ns = Some((first_ns, last_ns));
        let mut shift = self.shift;
        while (last_ns >> shift) - (first_ns >> shift) >= SLOTS {
            shift += 1;
        }
        self.widen(shift);
    }

    fn widen(&mut self, shift: u32) {
        if shift <= self.shift {
            return;
        }
        let by = shift - self.shift;
        self.shift = shift;
        let Some(slots) = &mut self.slots else { return };
        for (index, _) in slots.iter_mut() {
            *index >>= by;
        }
        slots.dedup_by(|(index, slot), (kept, sum)| {
            let is_same = index == kept;
            if is_same {
                sum.fold(slot);
            }
            is_same
        });
    }

    pub fn width_ns(&self) -> u64 {
        1 << self.shift
    }

    /// The slots in which something ended, with the time at which each begins.
    pub fn slots(&self) -> impl DoubleEndedIterator<Item = (u64, &Slot)> {
        let slots = self.slots.iter().flatten();
        slots.map(|(n, slot)| (n << self.shift, slot))
    }
}

impl Fold for Series {
    fn fold(&mut self, other: &Self) {
        let Some((first_ns, last_ns)) = other.ends_ns else {
            return;
        };
        self.reach(first_ns);
        self.reach(last_ns);
        for (time_ns, slot) in other.slots() {
            // A slot of the other begins before its first time, and lies in one of these all the same.
            self.add(time_ns.max(first_ns), |own| own.fold(slot));
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn slots_double_when_they_run_out_and_lose_nothing() {
        let mut one = Series::default();
        (0..1000).for_each(|n| one.add(n * 10_000_000, |slot| slot.halts += 1));
        assert_eq!(one.width_ns(), 1 << 28, "10 s in at most 64 slots");
        assert_eq!(one.slots().map(|(_, s)| s.halts).sum::<u64>(), 1000);
    }
}
