//! This machine's own idle CPUs through tracepoints, without BPF (`haltwise record --guest --source tracepoints`).
//!
//! The order of events and their meaning is [`haltwise_core::decode::idle`]'s; here they are opened, read and put in
//! order. What cpuidle alone knows (its residency, its limit, when the CPU's next timer is due) comes from what the
//! tracepoints say: the recorder's clock at both ends of a state, the last call of grow or shrink, the timer that the
//! interrupt handles.

mod events;
mod timers;

use std::collections::BTreeMap;

use haltwise_core::decode::Order;
use haltwise_core::decode::idle::{Did, IdleDecoder, IdleEvent};
use haltwise_core::event::Facts;
use haltwise_core::recording::{Missing, Mode, Roster, Rung};

use self::events::{Events, Seen};
use self::timers::Timers;
use super::buffer::{Buffer, Given};
use super::collector::{report_losses, ring_bytes};
use super::explain::{explain, is_gone};
use crate::clock;
use crate::collector::{CollectError, CollectOptions, Collector};
use crate::cpus;
use crate::idle::{Machine, polls_in_state_0};
use crate::losses::{self, Losses, RingLosses};
use crate::root::Root;
use crate::tracefs::Tracefs;

#[derive(Debug)]
pub struct IdlePerfCollector {
    events: Events,
    rings: BTreeMap<u32, Buffer>,
    order: Order<(u32, u64, Seen)>,
    timers: Timers,
    decoder: IdleDecoder,
    polls_in_state_0: bool,
    machine: Machine,
    missing: Vec<Missing>,
    losses: Losses,
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
        let bytes = ring_bytes(options.buffer_bytes, cpus.len());
        let mut rings = BTreeMap::new();
        for &cpu in &cpus {
            match Buffer::open(&events.to_open(), cpu, bytes) {
                Ok(mut buffer) => {
                    buffer.enable().map_err(explain(cpu))?;
                    rings.insert(cpu, buffer);
                }
                // It went offline in between.
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(explain(cpu)(error)),
            }
        }
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
            losses: Losses::default(),
        })
    }

    fn read_rings(&mut self) {
        let (events, order) = (&self.events, &mut self.order);
        for (&cpu, buffer) in &mut self.rings {
            buffer.read(|time_ns, given| {
                let seen = match given {
                    Given::Event { raw, .. } => events.parse(raw),
                    Given::Gap => Some(Seen::Gap),
                };
                let Some(seen) = seen else { return false };
                order.push(time_ns, (cpu, time_ns, seen));
                true
            });
        }
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
            Seen::Leave { cpu } => (cpu, Did::Leave),
            Seen::Adjust(change) => (on, Did::Adjust(change)),
            Seen::Interrupt(wake) => (on, Did::Interrupt(wake)),
            Seen::Arm { timer, expires_ns } => {
                self.timers.arm(timer, expires_ns, time_ns);
                return None;
            }
            Seen::Expire { timer, now_ns } => {
                let due_ns = self.timers.expire(timer, now_ns, time_ns)?;
                (on, Did::Expire { due_ns })
            }
            Seen::Store { cpu } => (cpu, Did::Store),
            Seen::Send { cpu } => (cpu, Did::Send),
            Seen::Switch => (on, Did::Switch),
            Seen::Gap => {
                // A timer that was armed anew meanwhile would seem to expire late.
                self.timers = Timers::default();
                self.decoder.forget();
                return None;
            }
        })
    }

    fn report_losses(&mut self, facts: &mut Facts, now_ns: u64) {
        let of_rings = self.rings.values().map(|buffer| buffer.losses);
        report_losses(&mut self.losses, of_rings, &mut self.order, facts, now_ns);
    }

    /// The kernel counted every event: what it neither recorded nor reported as lost shows at the end.
    fn report_uncounted(&mut self, facts: &mut Facts, now_ns: u64) -> Result<(), CollectError> {
        let mut unaccounted = 0;
        for (&cpu, buffer) in &mut self.rings {
            let counted = buffer.counted().map_err(explain(cpu))?;
            let RingLosses { lost, unreadable } = buffer.losses;
            let known = buffer.read.saturating_add(lost).saturating_add(unreadable);
            unaccounted += counted.saturating_sub(known);
        }
        let place = "event of an idle CPU counted but not recorded";
        losses::push(&mut facts.lost, now_ns, unaccounted, place);
        Ok(())
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
        self.report_losses(facts, began_ns);
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
        for (&cpu, buffer) in &mut self.rings {
            buffer.disable().map_err(explain(cpu))?;
        }
        let now_ns = clock::monotonic_ns();
        self.read_rings();
        let ready = self.order.finish();
        self.fold(ready, facts);
        self.report_losses(facts, now_ns);
        let reported = self.report_uncounted(facts, now_ns);
        self.rings.clear();
        reported
    }

    fn roster(&self) -> &Roster {
        self.machine.roster()
    }

    fn missing(&self) -> Vec<Missing> {
        self.missing.clone()
    }
}
