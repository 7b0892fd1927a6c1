//! The tracepoints of idle CPUs: which they are, where their fields lie, what their bytes say.

use haltwise_core::decode::idle::LimitChange;
use haltwise_core::event::WakeSource;
use haltwise_core::recording::Missing;

use super::super::events::number;
use super::super::explain::explain_tracefs;
use crate::collector::CollectError;
use crate::tracefs::{EventFormat, Field, Tracefs, TracefsError};

/// An event as the ring gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// `power:cpu_idle`.
    Enter {
        cpu: u32,
        state: u32,
    },
    /// The same with `PWR_EVENT_EXIT`.
    Leave {
        cpu: u32,
    },
    /// `power:guest_halt_poll_ns`.
    Adjust(LimitChange),
    /// An interrupt on this CPU, in its idle task.
    Interrupt(WakeSource),
    /// `timer:hrtimer_start`.
    Arm {
        timer: u64,
        expires_ns: u64,
    },
    /// `timer:hrtimer_expire_entry` in the idle task. `now_ns` is the time of the timer's own clock.
    Expire {
        timer: u64,
        now_ns: u64,
    },
    /// `sched:sched_wake_idle_without_ipi`.
    Store {
        cpu: u32,
    },
    /// `ipi:ipi_send_cpu`.
    Send {
        cpu: u32,
    },
    /// `sched:sched_switch` from the idle task.
    Switch,
    Gap,
}

const PWR_EVENT_EXIT: u32 = u32::MAX;

/// The events of the idle task alone.
const IN_IDLE: &str = "common_pid==0";
/// Switches from the idle task alone.
const FROM_IDLE: &str = "prev_pid==0";

/// Events that a recording can do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Adjust,
    Interrupt(WakeSource),
    Arm,
    Expire,
    Store,
    Send,
    Switch,
}

const INTERRUPTS: &str = "what ended some idle periods is unknown";
const TIMERS: &str = "the wake-up latency of halts that a timer ended is unknown";

/// System, name, kind, the field that is missing without it, and what that means.
const OPTIONAL: [(&str, &str, Kind, &str, &str); 11] = [
    (
        "power",
        "guest_halt_poll_ns",
        Kind::Adjust,
        "change, window_ns",
        "the governor's limits and its calls of grow and shrink are not seen",
    ),
    (
        "irq_vectors",
        "local_timer_entry",
        Kind::Interrupt(WakeSource::Timer),
        "wake",
        INTERRUPTS,
    ),
    (
        "irq_vectors",
        "reschedule_entry",
        Kind::Interrupt(WakeSource::Ipi),
        "wake",
        INTERRUPTS,
    ),
    (
        "irq_vectors",
        "call_function_entry",
        Kind::Interrupt(WakeSource::Ipi),
        "wake",
        INTERRUPTS,
    ),
    (
        "irq_vectors",
        "call_function_single_entry",
        Kind::Interrupt(WakeSource::Ipi),
        "wake",
        INTERRUPTS,
    ),
    (
        "irq",
        "irq_handler_entry",
        Kind::Interrupt(WakeSource::Device),
        "wake",
        INTERRUPTS,
    ),
    (
        "timer",
        "hrtimer_start",
        Kind::Arm,
        "wake_latency_ns",
        TIMERS,
    ),
    (
        "timer",
        "hrtimer_expire_entry",
        Kind::Expire,
        "wake_latency_ns",
        TIMERS,
    ),
    (
        "sched",
        "sched_wake_idle_without_ipi",
        Kind::Store,
        "wake",
        "polls that another CPU ended are not distinguished from others",
    ),
    (
        "ipi",
        "ipi_send_cpu",
        Kind::Send,
        "wake_latency_ns",
        "wake-up latencies of halts that an IPI ended are unknown",
    ),
    (
        "sched",
        "sched_switch",
        Kind::Switch,
        "polled",
        "a halt after a poll that a task ended counts as a part of the same period",
    ),
];

impl Kind {
    fn filter(self) -> Option<&'static str> {
        match self {
            Self::Interrupt(_) | Self::Expire => Some(IN_IDLE),
            Self::Switch => Some(FROM_IDLE),
            Self::Adjust | Self::Arm | Self::Store | Self::Send => None,
        }
    }

    fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Adjust => &["grow", "old", "new"],
            Self::Arm => &["hrtimer", "expires"],
            Self::Expire => &["hrtimer", "now"],
            Self::Store | Self::Send => &["cpu"],
            Self::Interrupt(_) | Self::Switch => &[],
        }
    }
}

#[derive(Debug)]
struct Layout {
    id: u64,
    kind: Kind,
    fields: Vec<Field>,
}

/// The layouts of the events that this kernel has.
#[derive(Debug)]
pub(super) struct Events {
    common_type: Field,
    idle: u64,
    state: Field,
    cpu_id: Field,
    others: Vec<Layout>,
}

impl Events {
    /// Reads the layouts. Only `cpu_idle` is indispensable.
    pub(super) fn load(tracefs: &Tracefs) -> Result<(Self, Vec<Missing>), CollectError> {
        let format = |system, name| tracefs.event(system, name);
        let idle = format("power", "cpu_idle").map_err(explain_tracefs)?;
        let mut events = Self::of(&idle)?;
        let mut missing = Vec::new();
        for (system, name, kind, field, without_it) in OPTIONAL {
            match format(system, name) {
                Ok(format) => events.add(kind, &format)?,
                Err(TracefsError::NoEvent { event }) => missing.push(Missing::new(
                    field,
                    format!("{without_it}: this kernel has no tracepoint {event}"),
                )),
                Err(error) => return Err(explain_tracefs(error)),
            }
        }
        Ok((events, missing))
    }

    fn of(idle: &EventFormat) -> Result<Self, CollectError> {
        Ok(Self {
            common_type: number(idle, "common_type")?,
            idle: idle.id,
            state: number(idle, "state")?,
            cpu_id: number(idle, "cpu_id")?,
            others: Vec::new(),
        })
    }

    fn add(&mut self, kind: Kind, format: &EventFormat) -> Result<(), CollectError> {
        let fields = kind.fields().iter().map(|field| number(format, field));
        self.others.push(Layout {
            id: format.id,
            kind,
            fields: fields.collect::<Result<_, _>>()?,
        });
        Ok(())
    }

    pub(super) fn to_open(&self) -> Vec<(u64, Option<&'static str>)> {
        let others = self.others.iter();
        let others = others.map(|layout| (layout.id, layout.kind.filter()));
        std::iter::once((self.idle, None)).chain(others).collect()
    }

    /// Reads an event's bytes; `None` if they are none of ours or too few.
    pub(super) fn parse(&self, raw: &[u8]) -> Option<Seen> {
        let id = self.common_type.read(raw)?;
        if id == self.idle {
            let cpu = self.cpu_id.read_u32(raw)?;
            return Some(match self.state.read_u32(raw)? {
                PWR_EVENT_EXIT => Seen::Leave { cpu },
                state => Seen::Enter { cpu, state },
            });
        }
        let layout = self.others.iter().find(|layout| layout.id == id)?;
        let read = |at: usize| layout.fields.get(at)?.read(raw);
        let read_u32 = |at: usize| layout.fields.get(at)?.read_u32(raw);
        Some(match layout.kind {
            Kind::Adjust => Seen::Adjust(LimitChange {
                grow: read(0)? != 0,
                old_ns: read_u32(1)?,
                new_ns: read_u32(2)?,
            }),
            Kind::Interrupt(wake) => Seen::Interrupt(wake),
            Kind::Arm => Seen::Arm {
                timer: read(0)?,
                expires_ns: read(1)?,
            },
            Kind::Expire => Seen::Expire {
                timer: read(0)?,
                now_ns: read(1)?,
            },
            Kind::Store => Seen::Store { cpu: read_u32(0)? },
            Kind::Send => Seen::Send { cpu: read_u32(0)? },
            Kind::Switch => Seen::Switch,
        })
    }
}

#[cfg(test)]
mod test {
    use super::*;

    /// A format file of these fields of 4 or 8 bytes.
    fn format(name: &str, id: u16, fields: &[(&str, usize)]) -> EventFormat {
        let mut lines = vec![
            format!("name: {name}\nID: {id}\nformat:"),
            "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;".to_owned(),
        ];
        let mut offset = 8;
        for (field, size) in fields {
            lines.push(format!(
                "\tfield:int {field};\toffset:{offset};\tsize:{size};\tsigned:0;"
            ));
            offset += size;
        }
        EventFormat::parse(&lines.join("\n")).unwrap()
    }

    fn raw(id: u16, words: &[&[u8]]) -> Vec<u8> {
        let mut bytes = id.to_ne_bytes().to_vec();
        bytes.resize(8, 0);
        for word in words {
            bytes.extend(*word);
        }
        bytes
    }

    #[test]
    fn bytes_are_read_where_the_kernel_says_that_they_are() {
        let idle = format("cpu_idle", 1, &[("state", 4), ("cpu_id", 4)]);
        let mut events = Events::of(&idle).unwrap();
        let adjust = [("grow", 4), ("new", 4), ("old", 4)];
        let adjust = format("guest_halt_poll_ns", 2, &adjust);
        events.add(Kind::Adjust, &adjust).unwrap();
        let arm = format("hrtimer_start", 3, &[("hrtimer", 8), ("expires", 8)]);
        events.add(Kind::Arm, &arm).unwrap();
        let entered = raw(1, &[&0_u32.to_ne_bytes(), &5_u32.to_ne_bytes()]);
        assert_eq!(
            events.parse(&entered),
            Some(Seen::Enter { cpu: 5, state: 0 })
        );
        let left = raw(1, &[&u32::MAX.to_ne_bytes(), &5_u32.to_ne_bytes()]);
        assert_eq!(events.parse(&left), Some(Seen::Leave { cpu: 5 }));
        let grown = [1_u32, 100, 50].map(u32::to_ne_bytes);
        let grown = raw(2, &[&grown[0], &grown[1], &grown[2]]);
        let change = LimitChange {
            grow: true,
            old_ns: 50,
            new_ns: 100,
        };
        assert_eq!(events.parse(&grown), Some(Seen::Adjust(change)));
        let armed = raw(3, &[&7_u64.to_ne_bytes(), &9_u64.to_ne_bytes()]);
        let expected = Seen::Arm {
            timer: 7,
            expires_ns: 9,
        };
        assert_eq!(events.parse(&armed), Some(expected));
        for bad in [&armed[..20], &raw(4, &[]), &[]] {
            assert_eq!(events.parse(bad), None);
        }
        assert_eq!(events.to_open(), [(1, None), (2, None), (3, None)]);
    }

    #[test]
    fn what_happens_outside_the_idle_task_is_left_to_the_kernel_to_drop() {
        for (.., kind, _, _) in OPTIONAL {
            let is_filtered = kind.filter().is_some();
            let in_idle = matches!(kind, Kind::Interrupt(_) | Kind::Expire | Kind::Switch);
            assert_eq!(is_filtered, in_idle, "{kind:?}");
        }
    }
}
