//! Puts events of many CPUs in order of time, in rounds.
//!
//! Every CPU has a buffer of its own, and they are read one after the other. An event of CPU 1 may
//! therefore be read before an older one of CPU 0. But whatever happened before a reading round began
//! is in its buffer when the *next* round reads it. So a round hands out what is older than the start of
//! the round before, and keeps the rest.
//!
//! An event that comes later than that (its writer was held up for more than a round) would be out of
//! order. It is refused and counted; the count is data, see [`Order::take_late`].

/// Events that wait at the end of a round, at most: all would wait for a clock that stands still. A million events a
/// second in rounds of 100 ms are fewer.
const MOST_WAITING: usize = 1 << 18;

#[derive(Debug)]
pub struct Order<T> {
    waiting: Vec<(u64, T)>,
    /// Everything before this time was handed out.
    handed_out: u64,
    round_before: u64,
    late: u64,
}

impl<T> Default for Order<T> {
    fn default() -> Self {
        Self {
            waiting: Vec::new(),
            handed_out: 0,
            round_before: 0,
            late: 0,
        }
    }
}

impl<T> Order<T> {
    pub fn push(&mut self, time_ns: u64, event: T) {
        if time_ns < self.handed_out {
            self.late += 1;
        } else {
            self.waiting.push((time_ns, event));
        }
    }

    /// Ends the round that began at `began_ns`: hands out, in order, what is older than the start of
    /// the round before. Events of the same time keep the order in which they were pushed.
    pub fn end_round(&mut self, began_ns: u64) -> Vec<T> {
        let horizon = self.round_before;
        self.round_before = began_ns.max(horizon);
        let mut ready = self.hand_out(horizon);
        if self.waiting.len() > MOST_WAITING {
            let oldest = self.waiting.drain(..MOST_WAITING / 2);
            ready.extend(oldest.map(|(time, event)| {
                self.handed_out = time;
                event
            }));
        }
        ready
    }

    /// Hands out everything, when no more will come.
    pub fn finish(&mut self) -> Vec<T> {
        self.hand_out(u64::MAX)
    }

    /// How many events came too late since the last call.
    pub fn take_late(&mut self) -> u64 {
        std::mem::take(&mut self.late)
    }

    fn hand_out(&mut self, horizon: u64) -> Vec<T> {
        self.waiting.sort_by_key(|(time, _)| *time);
        let ready = self.waiting.partition_point(|(time, _)| *time < horizon);
        self.handed_out = self.handed_out.max(horizon);
        self.waiting
            .drain(..ready)
            .map(|(_, event)| event)
            .collect()
    }
}

#[cfg(test)]
mod test {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_late_event_is_counted_and_never_out_of_order() {
        let mut order = Order::default();
        order.push(5, 5);
        order.end_round(10);
        assert_eq!(order.end_round(20), [5]);
        order.push(9, 9);
        order.push(10, 10);
        assert_eq!(order.end_round(30), [10]);
        assert_eq!((order.take_late(), order.take_late()), (1, 0));
    }

    #[test]
    fn events_of_a_clock_that_stands_still_come_in_order_and_few_wait() {
        let (mut order, mut out) = (Order::default(), Vec::new());
        for event in 0..4 * MOST_WAITING {
            order.push(7, event);
            if event % 4096 == 0 {
                out.extend(order.end_round(7));
                assert!(order.waiting.len() <= MOST_WAITING);
            }
        }
        out.extend(order.finish());
        assert!(out.into_iter().eq(0..4 * MOST_WAITING));
        assert_eq!(order.take_late(), 0);
    }

    proptest! {
        /// Events become readable some time after they happened. If that is less than a round,
        /// all come out, in order.
        #[test]
        fn what_is_held_up_for_less_than_a_round_comes_in_order(
            events in prop::collection::vec((0..10_000_u64, 0..99_u64), 0..200),
        ) {
            const ROUND: u64 = 100;
            let mut order = Order::default();
            let mut out = Vec::new();
            for round in 0..110 {
                let began = round * ROUND;
                for &(time, delay) in &events {
                    let readable = time + delay;
                    if readable < began && readable + ROUND >= began {
                        order.push(time, time);
                    }
                }
                out.extend(order.end_round(began));
            }
            out.extend(order.finish());
            let mut expected: Vec<u64> = events.iter().map(|(time, _)| *time).collect();
            expected.sort_unstable();
            prop_assert_eq!(order.take_late(), 0);
            prop_assert_eq!(out, expected);
        }
    }
}
