//! This machine's own idle CPUs through tracepoints, without BPF (`haltwise record --guest --source tracepoints`).
//!
//! The order of events and their meaning is [`haltwise_core::decode::idle`]'s; here they are opened, read and put in
//! order. What cpuidle alone knows (its residency, its limit, when the CPU's next timer is due) comes from what the
//! tracepoints say: the recorder's clock at both ends of a state, the last call of grow or shrink, the timer that the
//! interrupt handles.

mod events;
mod timers;

use haltwise_core::decode::Order;
use haltwise_core::decode::idle::{Did, IdleDecoder, IdleEvent};
use haltwise_core::event::Facts;
use haltwise_core::recording::{Missing, Mode, Roster, Rung};

use self::events::{Events, Seen};
use self::timers::Timers;
use super::ring::{Given, Of, Rings};
use crate::clock;
use crate::collector::{CollectError, CollectOptions, Collector};
use crate::cpus;
use crate::idle::{Machine, polls_in_state_0};
use crate::losses;
use crate::root::Root;
use crate::tracefs::Tracefs;

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
        if options.mode != Mode::Full {
            let what = format!("record this machine's idle CPUs in {} mode", options.mode);
            return Err(CollectError::unsupported(what));
        }
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
        let unaccounted = self.rings.close()?.always;
        let place = "event of an idle CPU counted but not recorded";
        losses::push(&mut facts.lost, now_ns, unaccounted, place);
        Ok(())
    }

    fn roster(&self) -> &Roster {
        self.machine.roster()
    }

    fn missing(&self) -> Vec<Missing> {
        self.missing.clone()
    }
}
