//! The tracepoints of idle CPUs: which they are, where their fields lie, what their bytes say.

use haltwise_core::decode::idle::Did;
use haltwise_core::event::WakeSource;
use haltwise_core::kvm::Call;
use haltwise_core::recording::Missing;

use super::super::events::{Kind, Layouts};
use super::super::ring::Tracepoint;
use crate::collector::CollectError;
use crate::tracefs::Tracefs;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    Enter {
        cpu: u32,
        state: u32,
    },
    /// Something that another CPU may have recorded.
    Of(u32, Did),
    /// The same of the CPU that recorded it.
    Here(Did),
    Arm {
        timer: u64,
        expires_ns: u64,
    },
    /// `timer:hrtimer_expire_entry` in the idle task. `now_ns` is the time of the timer's own clock.
    Expire {
        timer: u64,
        now_ns: u64,
    },
    Gap,
}

const PWR_EVENT_EXIT: u32 = u32::MAX;

const IN_IDLE: &str = "common_pid==0";
const FROM_IDLE: &str = "prev_pid==0";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Idle,
    Adjust,
    Interrupt(WakeSource),
    Arm,
    Expire,
    Store,
    Send,
    Switch,
}

const OPTIONAL: [(&str, &str, Event); 11] = {
    use Event::{Adjust, Arm, Expire, Interrupt, Send, Store, Switch};
    use WakeSource::{Device, Ipi, Timer};
    [
        ("power", "guest_halt_poll_ns", Adjust),
        ("irq_vectors", "local_timer_entry", Interrupt(Timer)),
        ("irq_vectors", "reschedule_entry", Interrupt(Ipi)),
        ("irq_vectors", "call_function_entry", Interrupt(Ipi)),
        ("irq_vectors", "call_function_single_entry", Interrupt(Ipi)),
        ("irq", "irq_handler_entry", Interrupt(Device)),
        ("timer", "hrtimer_start", Arm),
        ("timer", "hrtimer_expire_entry", Expire),
        ("sched", "sched_wake_idle_without_ipi", Store),
        ("ipi", "ipi_send_cpu", Send),
        ("sched", "sched_switch", Switch),
    ]
};

impl Kind for Event {
    fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Idle => &["state", "cpu_id"],
            Self::Adjust => &["grow", "old", "new"],
            Self::Arm => &["hrtimer", "expires"],
            Self::Expire => &["hrtimer", "now"],
            Self::Store | Self::Send => &["cpu"],
            Self::Interrupt(_) | Self::Switch => &[],
        }
    }
}

impl Event {
    fn filter(self) -> Option<&'static str> {
        match self {
            Self::Interrupt(_) | Self::Expire => Some(IN_IDLE),
            Self::Switch => Some(FROM_IDLE),
            Self::Idle | Self::Adjust | Self::Arm | Self::Store | Self::Send => None,
        }
    }

    fn without(self) -> [&'static str; 2] {
        match self {
            // Nothing can be recorded without it.
            Self::Idle => ["halts", ""],
            Self::Adjust => [
                "change, window_ns",
                "the governor's limits and its calls of grow and shrink are not seen",
            ],
            Self::Interrupt(_) => ["wake", "what ended some idle periods is unknown"],
            Self::Arm | Self::Expire => [
                "wake_latency_ns",
                "the wake-up latency of halts that a timer ended is unknown",
            ],
            Self::Store => [
                "wake",
                "polls that another CPU ended are not distinguished from others",
            ],
            Self::Send => [
                "wake_latency_ns",
                "wake-up latencies of halts that an IPI ended are unknown",
            ],
            Self::Switch => [
                "polled",
                "a halt after a poll that a task ended counts as a part of the same period",
            ],
        }
    }
}

#[derive(Debug)]
pub(super) struct Events(Layouts<Event>);

impl Events {
    /// Reads the layouts. Only `cpu_idle` is indispensable.
    pub(super) fn load(tracefs: &Tracefs) -> Result<(Self, Vec<Missing>), CollectError> {
        let mut layouts = Layouts::new(Event::Idle, &tracefs.needed("power", "cpu_idle")?)?;
        let mut missing = Vec::new();
        for (system, name, kind) in OPTIONAL {
            if let Some(format) = tracefs.event(system, name)? {
                layouts.add(kind, &format)?;
            } else {
                let [field, without_it] = kind.without();
                let why = format!("{without_it}: this kernel has no tracepoint {system}:{name}");
                missing.push(Missing::new(field, why));
            }
        }
        Ok((Self(layouts), missing))
    }

    pub(super) fn to_open(&self) -> Vec<Tracepoint<&str>> {
        let all = self.0.all().iter();
        all.map(|it| (it.id, it.kind.filter())).collect()
    }

    /// Reads an event's bytes; `None` if they are none of ours or too few.
    pub(super) fn parse(&self, raw: &[u8]) -> Option<Seen> {
        let event = self.0.of(raw)?;
        let read = |at| event.read(at);
        let read_u32 = |at| event.read_u32(at);
        Some(match event.kind() {
            Event::Idle => {
                let cpu = read_u32(1)?;
                match read_u32(0)? {
                    PWR_EVENT_EXIT => Seen::Of(cpu, Did::Leave),
                    state => Seen::Enter { cpu, state },
                }
            }
            Event::Adjust => Seen::Here(Did::Adjust(Call {
                grow: event.is_set(0)?,
                old: read_u32(1)?,
                new: read_u32(2)?,
            })),
            Event::Interrupt(wake) => Seen::Here(Did::Interrupt(wake)),
            Event::Arm => Seen::Arm {
                timer: read(0)?,
                expires_ns: read(1)?,
            },
            Event::Expire => Seen::Expire {
                timer: read(0)?,
                now_ns: read(1)?,
            },
            Event::Store => Seen::Of(read_u32(0)?, Did::Store),
            Event::Send => Seen::Of(read_u32(0)?, Did::Send),
            Event::Switch => Seen::Here(Did::Switch),
        })
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::tracefs::EventFormat;

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
        let mut layouts = Layouts::new(Event::Idle, &idle).unwrap();
        let adjust = [("grow", 4), ("new", 4), ("old", 4)];
        let adjust = format("guest_halt_poll_ns", 2, &adjust);
        layouts.add(Event::Adjust, &adjust).unwrap();
        let arm = format("hrtimer_start", 3, &[("hrtimer", 8), ("expires", 8)]);
        layouts.add(Event::Arm, &arm).unwrap();
        let store = format("sched_wake_idle_without_ipi", 4, &[("cpu", 4)]);
        layouts.add(Event::Store, &store).unwrap();
        let events = Events(layouts);
        let entered = raw(1, &[&0_u32.to_ne_bytes(), &5_u32.to_ne_bytes()]);
        assert_eq!(
            events.parse(&entered),
            Some(Seen::Enter { cpu: 5, state: 0 })
        );
        let left = raw(1, &[&u32::MAX.to_ne_bytes(), &5_u32.to_ne_bytes()]);
        assert_eq!(events.parse(&left), Some(Seen::Of(5, Did::Leave)));
        let grown = [1_u32, 100, 50].map(u32::to_ne_bytes);
        let grown = raw(2, &[&grown[0], &grown[1], &grown[2]]);
        let change = Call {
            grow: true,
            old: 50,
            new: 100,
        };
        assert_eq!(events.parse(&grown), Some(Seen::Here(Did::Adjust(change))));
        let armed = raw(3, &[&7_u64.to_ne_bytes(), &9_u64.to_ne_bytes()]);
        let expected = Seen::Arm {
            timer: 7,
            expires_ns: 9,
        };
        assert_eq!(events.parse(&armed), Some(expected));
        let stored = raw(4, &[&7_u32.to_ne_bytes()]);
        assert_eq!(events.parse(&stored), Some(Seen::Of(7, Did::Store)));
        for bad in [&armed[..20], &raw(4, &[]), &raw(9, &[]), &[]] {
            assert_eq!(events.parse(bad), None);
        }
        assert_eq!(events.to_open(), [1, 2, 3, 4].map(|id| (id, None)));
    }
}
