//! What happened over time, in a bounded number of slots.
//!
//! A slot is 2^n nanoseconds wide and begins at a multiple of its width. When the times seen no
//! longer fit into [`SLOTS`] slots, all slots double. The width thus depends on the first and the
//! last time alone, not on the order in between, and two series add up exactly.

use super::seen::Fold;

/// The most slots that a series holds.
pub const SLOTS: u64 = 64;

/// The narrowest slot, as a power of two of nanoseconds: about 1 ms.
const NARROWEST: u32 = 20;

/// Slots over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    shift: u32,
    /// By time: few, most of them added at the end, and there is a series for each vCPU.
    slots: Vec<(u64, Slot)>,
}

impl Default for Series {
    fn default() -> Self {
        Self {
            shift: NARROWEST,
            slots: Vec::new(),
        }
    }
}

/// What ended in one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slot {
    /// Halts.
    pub halts: u64,
    /// Halts that were scheduled out.
    pub waits: u64,
    /// Time polled.
    pub poll_ns: u64,
    /// Windows in force at entry, one for each halt that knows its window.
    pub window: Levels,
    /// Windows that grow and shrink left behind.
    pub change: Levels,
}

/// Count, sum and largest of some windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Levels {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// The largest.
    pub max: u32,
}

impl Levels {
    /// Adds one.
    pub fn record(&mut self, value: u32) {
        self.count = self.count.saturating_add(1);
        self.sum = self.sum.saturating_add(u64::from(value));
        self.max = self.max.max(value);
    }

    /// Their mean.
    pub fn mean(&self) -> Option<u64> {
        self.sum.checked_div(self.count)
    }
}

impl Fold for Levels {
    fn fold(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }
}

impl Fold for Slot {
    fn fold(&mut self, other: &Self) {
        self.halts = self.halts.saturating_add(other.halts);
        self.waits = self.waits.saturating_add(other.waits);
        self.poll_ns = self.poll_ns.saturating_add(other.poll_ns);
        self.window.fold(&other.window);
        self.change.fold(&other.change);
    }
}

impl Series {
    /// The slot of a time; the series widens if it has to.
    pub fn slot(&mut self, time_ns: u64) -> &mut Slot {
        if let (Some(&(first, _)), Some(&(last, _))) = (self.slots.first(), self.slots.last()) {
            let mut shift = self.shift;
            let at = |index: u64, shift: u32| index >> (shift - self.shift);
            loop {
                let here = time_ns >> shift;
                let low = at(first, shift).min(here);
                if at(last, shift).max(here) - low < SLOTS {
                    break;
                }
                shift += 1;
            }
            self.widen(shift);
        }
        let index = time_ns >> self.shift;
        let place = self.slots.partition_point(|(slot, _)| *slot < index);
        if self.slots.get(place).is_none_or(|(slot, _)| *slot != index) {
            self.slots.insert(place, (index, Slot::default()));
        }
        &mut self.slots[place].1
    }

    fn widen(&mut self, shift: u32) {
        if shift <= self.shift {
            return;
        }
        let by = shift - self.shift;
        for (index, _) in &mut self.slots {
            *index >>= by;
        }
        self.slots.dedup_by(|(index, slot), (kept, sum)| {
            let is_same = index == kept;
            if is_same {
                sum.fold(slot);
            }
            is_same
        });
        self.shift = shift;
    }

    /// Width of a slot.
    pub fn width_ns(&self) -> u64 {
        1 << self.shift
    }

    /// The slots in which something ended, with the time at which each begins.
    pub fn slots(&self) -> impl DoubleEndedIterator<Item = (u64, &Slot)> {
        self.slots.iter().map(|(n, slot)| (n << self.shift, slot))
    }
}

impl Fold for Series {
    fn fold(&mut self, other: &Self) {
        self.widen(other.shift);
        for (time_ns, slot) in other.slots() {
            self.slot(time_ns).fold(slot);
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn series(times: &[u64]) -> Series {
        let mut series = Series::default();
        for &time in times {
            series.slot(time).halts += 1;
        }
        series
    }

    #[test]
    fn slots_double_when_they_run_out_and_lose_nothing() {
        let all: Vec<u64> = (0..1000).map(|n| n * 10_000_000).collect();
        let one = series(&all);
        assert!(one.slots().count() <= 64);
        assert_eq!(one.width_ns(), 1 << 28, "10 s in at most 64 slots");
        assert_eq!(one.slots().map(|(_, s)| s.halts).sum::<u64>(), 1000);
    }

    #[test]
    fn order_and_splits_do_not_matter() {
        let all: Vec<u64> = (0..1000)
            .map(|n| (n * 7_919_000_003) % 5_000_000_000)
            .collect();
        let mut backwards = all.clone();
        backwards.reverse();
        let whole = series(&all);
        assert_eq!(series(&backwards), whole);
        let (left, right) = all.split_at(300);
        let mut sum = series(left);
        sum.fold(&series(right));
        assert_eq!(sum, whole);
    }

    #[test]
    fn the_ends_of_time_fit() {
        let ends = series(&[0, u64::MAX]);
        assert_eq!(ends.slots().count(), 2);
    }
}
