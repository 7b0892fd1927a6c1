//! When the timers of this machine are due: `timer:hrtimer_start` says it of each that is armed. Pure.

use std::collections::BTreeMap;

/// Timers that are remembered. One that is cancelled is not reported here, and stays until there is no more room.
const MOST: usize = 1 << 16;

/// A timer that was due for so long will not expire any more.
const OVERDUE_NS: u64 = 1_000_000_000;

/// Clocks that differ by less are the same: `CLOCK_MONOTONIC` read twice.
const SAME_CLOCK_NS: u64 = 100_000_000;

/// Timers by the address of their `struct hrtimer`.
#[derive(Debug, Default)]
pub(super) struct Timers {
    armed: BTreeMap<u64, Armed>,
}

#[derive(Debug, Clone, Copy)]
struct Armed {
    /// On the timer's own clock.
    expires_ns: u64,
    armed_ns: u64,
}

impl Timers {
    pub(super) fn arm(&mut self, timer: u64, expires_ns: u64, now_ns: u64) {
        if self.armed.len() >= MOST {
            self.make_room(now_ns);
        }
        let armed = Armed {
            expires_ns,
            armed_ns: now_ns,
        };
        self.armed.insert(timer, armed);
    }

    /// A timer expires: when it was due, on `CLOCK_MONOTONIC`. `clock_ns` is the time of its own clock.
    pub(super) fn expire(&mut self, timer: u64, clock_ns: u64, now_ns: u64) -> Option<u64> {
        let armed = self.armed.remove(&timer)?;
        if clock_ns.abs_diff(now_ns) < SAME_CLOCK_NS {
            return Some(armed.expires_ns);
        }
        let late_ns = clock_ns.checked_sub(armed.expires_ns)?;
        now_ns.checked_sub(late_ns)
    }

    /// Drops those that will not come, and all others too where that is not enough.
    fn make_room(&mut self, now_ns: u64) {
        let is_alive = |armed: &Armed| {
            armed.expires_ns.saturating_add(OVERDUE_NS) > now_ns
                && armed.armed_ns.saturating_add(60 * OVERDUE_NS) > now_ns
        };
        self.armed.retain(|_, armed| is_alive(armed));
        if self.armed.len() > MOST / 2 {
            self.armed.clear();
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_timer_was_due_when_it_was_armed_for() {
        let mut timers = Timers::default();
        timers.arm(1, 5_000, 1_000);
        assert_eq!(timers.expire(1, 5_300, 5_310), Some(5_000));
        // It is known once.
        assert_eq!(timers.expire(1, 5_300, 5_310), None);
        // CLOCK_REALTIME: it is 200 ns late there, and so it is here.
        let real_ns = 1_700_000_000_000_000_000;
        timers.arm(2, real_ns, 1_000);
        assert_eq!(timers.expire(2, real_ns + 200, 6_000), Some(5_800));
    }

    #[test]
    fn timers_that_were_cancelled_do_not_fill_the_memory() {
        let mut timers = Timers::default();
        for timer in 0..3 * MOST as u64 {
            timers.arm(timer, timer + 10, timer * 1_000_000);
            assert!(timers.armed.len() <= MOST);
        }
        let last = 3 * MOST as u64;
        timers.arm(last, last + 10, last);
        assert_eq!(timers.expire(last, last + 20, last + 20), Some(last + 10));
    }
}
