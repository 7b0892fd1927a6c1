//! This machine's own idle CPUs through tracepoints, without BPF (`haltwise record --guest --source tracepoints`).
//!
//! The order of events and their meaning is [`haltwise_core::decode::idle`]'s; here they are opened, read and put in
//! order. What cpuidle alone knows (its residency, its limit, when the CPU's next timer is due) comes from what the
//! tracepoints say: the recorder's clock at both ends of a state, the last call of grow or shrink, the timer that the
//! interrupt handles.

mod events;

use std::collections::BTreeMap;

use haltwise_core::decode::Order;
use haltwise_core::decode::idle::{Did, IdleDecoder, IdleEvent};
use haltwise_core::event::Facts;
use haltwise_core::recording::{Missing, Roster, Rung};

use self::events::{Events, Seen};
use super::ring::{Given, Of, Rings};
use crate::collector::{CollectError, CollectOptions, Collector, push_lost};
use crate::cpuidle::{Machine, polls_in_state_0};
use crate::root::Root;
use crate::tracefs::Tracefs;
use crate::{clock, cpus};

#[derive(Debug)]
pub struct IdlePerfCollector {
    events: Events,
    rings: Rings,
    order: Order<(u32, u64, Seen)>,
    timers: Timers,
    decoder: IdleDecoder,
    polls_in_state_0: bool,
    machine: Machine,
    missing: Vec<Missing>,
}

impl IdlePerfCollector {
    pub fn start(options: &CollectOptions, root: Root) -> Result<Self, CollectError> {
        let tracefs = Tracefs::find(&root)?;
        let (events, mut missing) = Events::load(&tracefs)?;
        let cpus = cpus::online(&root)?;
        let mut rings = Rings::default();
        rings.open_online(&root, options.buffer_bytes, &events.to_open(), &[])?;
        let polls_in_state_0 = polls_in_state_0(&root);
        let machine = Machine::new(root, &cpus);
        missing.extend(of_every_kernel(machine.is_haltpoll));
        Ok(Self {
            events,
            rings,
            order: Order::default(),
            timers: Timers::default(),
            decoder: IdleDecoder::default(),
            polls_in_state_0,
            machine,
            missing,
        })
    }

    fn read_rings(&mut self) {
        let (events, order) = (&self.events, &mut self.order);
        self.rings.read(|cpu, time_ns, given| {
            let seen = match given {
                Given::Event { raw, .. } => events.parse(raw)?,
                Given::Gap => Seen::Gap,
            };
            order.push(time_ns, (cpu, time_ns, seen));
            Some(Of::Always)
        });
    }

    fn fold(&mut self, ready: Vec<(u32, u64, Seen)>, facts: &mut Facts) {
        let ceiling_ns = self.machine.ceiling_ns();
        for (cpu, time_ns, seen) in ready {
            let Some((cpu, what)) = self.meaning(cpu, time_ns, seen) else {
                continue;
            };
            let event = IdleEvent { time_ns, cpu, what };
            if let Some(period) = self.decoder.push(&event) {
                self.machine.take(&period, ceiling_ns, facts);
            }
        }
    }

    /// CPU of an event, and what it says; `None` if it says nothing of a CPU.
    fn meaning(&mut self, on: u32, time_ns: u64, seen: Seen) -> Option<(u32, Did)> {
        Some(match seen {
            Seen::Enter { cpu, state } => {
                let polls = self.polls_in_state_0 && state == 0;
                (cpu, Did::Enter { polls })
            }
            Seen::Of(cpu, what) => (cpu, what),
            Seen::Here(what) => (on, what),
            Seen::Arm { timer, expires_ns } => {
                self.timers.arm(timer, expires_ns, time_ns);
                return None;
            }
            Seen::Expire { timer, now_ns } => {
                let due_ns = self.timers.expire(timer, now_ns, time_ns)?;
                (on, Did::Expire { due_ns })
            }
            Seen::Gap => {
                // A timer that was armed anew meanwhile would seem to expire late.
                self.timers = Timers::default();
                self.decoder.forget();
                return None;
            }
        })
    }
}

/// Fields that no kernel lets this source see.
fn of_every_kernel(is_haltpoll: bool) -> Vec<Missing> {
    let mut all = vec![
        (
            "halt_ns, poll_ns",
            "without BPF cpuidle's own residencies are not visible: these are times between tracepoints, longer by \
             what recording an event takes",
        ),
        (
            "wake_latency_ns",
            "a guest does not see when a device's interrupt reached its host: the wake-up latency of halts that \
             devices ended is unknown; so is that of a timer that was armed before the recording began",
        ),
    ];
    if is_haltpoll {
        all.push((
            "window_ns",
            "without BPF a CPU's limit is known from its first guest_halt_poll_ns on",
        ));
    } else {
        all.push((
            "polled",
            "without BPF a poll that ended by its limit is known only under the governor haltpoll: here a state that \
             follows a poll, with no task between, counts as the same period",
        ));
    }
    let all = all.into_iter();
    all.map(|(field, reason)| Missing::new(field, reason))
        .collect()
}

impl Collector for IdlePerfCollector {
    fn rung(&self) -> Rung {
        Rung::Tracepoints
    }

    fn drain(&mut self, facts: &mut Facts) -> Result<(), CollectError> {
        let began_ns = clock::monotonic_ns();
        self.read_rings();
        let ready = self.order.end_round(began_ns);
        self.fold(ready, facts);
        self.rings.report(&mut self.order, facts, began_ns);
        Ok(())
    }

    fn begin(&mut self) -> Result<u64, CollectError> {
        let now_ns = clock::monotonic_ns();
        self.machine.begin(now_ns);
        Ok(now_ns)
    }

    fn end(&mut self, _: &mut Facts) -> Result<u64, CollectError> {
        let counting = &mut self.machine.counting;
        Ok(*counting.ended_ns.get_or_insert_with(clock::monotonic_ns))
    }

    fn stop(&mut self, facts: &mut Facts) -> Result<(), CollectError> {
        self.end(facts)?;
        self.rings.disable()?;
        let now_ns = clock::monotonic_ns();
        self.read_rings();
        let ready = self.order.finish();
        self.fold(ready, facts);
        self.rings.report(&mut self.order, facts, now_ns);
        let [unaccounted, _] = self.rings.close()?;
        let place = "event of an idle CPU counted but not recorded";
        push_lost(&mut facts.lost, now_ns, unaccounted, place);
        Ok(())
    }

    fn roster(&self) -> &Roster {
        self.machine.roster()
    }

    fn missing(&self) -> Vec<Missing> {
        self.missing.clone()
    }
}

/// Timers that are remembered. One that is cancelled is not reported here, and stays until there is no more room.
const MOST: usize = 1 << 16;

/// A timer that was due for so long will not expire any more.
const OVERDUE_NS: u64 = 1_000_000_000;

/// Clocks that differ by less are the same: `CLOCK_MONOTONIC` read twice.
const SAME_CLOCK_NS: u64 = 100_000_000;

#[derive(Debug, Default)]
pub(super) struct Timers {
    armed: BTreeMap<u64, Armed>,
}

#[derive(Debug, Clone, Copy)]
struct Armed {
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
