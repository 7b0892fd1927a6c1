//! Values that change while a run lasts: one of several values after the other, each for a set time, again and again.

use haltwise_core::units::Nanos;

#[derive(Debug)]
pub(crate) struct Turns {
    count: usize,
    every_ns: u64,
    at: usize,
    next_ns: u64,
}

impl Turns {
    /// Turns of `count` values, each for `every`; the first value from now on.
    pub(crate) fn new(count: usize, every: Nanos) -> Self {
        Self {
            count,
            // If two changes came at once, only the second could be seen.
            every_ns: every.0.max(1),
            at: 0,
            next_ns: if count == 0 { u64::MAX } else { 0 },
        }
    }

    pub(crate) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// The number of the value that is due, if one is. A turn lasts as long as it should, however late it was noticed.
    pub(crate) fn due(&mut self, now_ns: u64) -> Option<usize> {
        if now_ns < self.next_ns {
            return None;
        }
        let was_due_ns = if self.next_ns == 0 {
            now_ns
        } else {
            self.next_ns
        };
        self.next_ns = was_due_ns.saturating_add(self.every_ns).max(now_ns + 1);
        let at = self.at;
        self.at = (at + 1) % self.count;
        Some(at)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn each_has_its_turn_for_as_long_and_the_first_comes_again() {
        let mut turns = Turns::new(2, Nanos(100));
        assert_eq!(turns.due(1_000), Some(0));
        assert_eq!(turns.next_ns(), 1_100);
        assert_eq!(turns.due(1_099), None);
        assert_eq!(turns.due(1_130), Some(1), "noticed late");
        assert_eq!(turns.due(1_200), Some(0));
    }

    #[test]
    fn nothing_is_due_where_nothing_changes() {
        let mut turns = Turns::new(0, Nanos(100));
        assert_eq!((turns.due(1_000), turns.next_ns()), (None, u64::MAX));
    }
}
