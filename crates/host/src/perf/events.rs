//! The tracepoints of this source: which they are, where their fields lie, what their bytes say.
//!
//! Offsets come from the running kernel's format files and from nowhere else.

use haltwise_core::decode::What;
use haltwise_core::decode::waker::Waker;
use haltwise_core::ids::{Pid, Tid, VcpuId};
use haltwise_core::recording::Missing;

use super::ring::{Of, Tracepoint};
use crate::collector::CollectError;
use crate::tracefs::{self, EventFormat, Field, Tracefs};

/// An event as the ring gave it, before the waker was looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) time_ns: u64,
    pub(super) pid: Pid,
    pub(super) what: SeenWhat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SeenWhat {
    Whole(What),
    /// `sched:sched_waking`, by a waker that must be looked up.
    Waking {
        tid: Tid,
        waker: Waker,
    },
}

impl SeenWhat {
    pub(super) fn vcpu(self) -> Option<Tid> {
        match self {
            Self::Whole(What::VcpuWakeup { tid, .. } | What::HaltPollNs { tid, .. }) => Some(tid),
            _ => None,
        }
    }

    pub(super) fn of(self) -> Of {
        match self {
            Self::Waking { .. } | Self::Whole(What::Slept { .. }) => Of::Watched,
            Self::Whole(_) => Of::Always,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Wakeup,
    Window,
    Waking,
    Switch,
}

impl Kind for Event {
    fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Wakeup => &["common_pid", "ns", "waited"],
            Self::Window => &["common_pid", "vcpu_id", "grow", "old", "new"],
            Self::Waking => &["common_pid", "pid", "common_flags"],
            Self::Switch => &["prev_pid", "prev_state"],
        }
    }

    fn optional(self) -> &'static [&'static str] {
        match self {
            // From 4.7 on, and where KVM tells the wake-up latency.
            Self::Wakeup => &["valid", "latency_ns"],
            Self::Window | Self::Waking | Self::Switch => &[],
        }
    }
}

#[derive(Debug)]
pub(super) struct Events(Layouts<Event>);

/// `TASK_INTERRUPTIBLE`: how KVM blocks (`kvm_vcpu_block`).
const ASLEEP: u64 = 1;

impl Events {
    /// Reads the layouts. Only `kvm_vcpu_wakeup` is indispensable; what else is absent is told.
    pub(super) fn load(tracefs: &Tracefs) -> Result<(Self, Vec<Missing>), CollectError> {
        let mut missing = Vec::new();
        let wakeup = tracefs.needed("kvm", "kvm_vcpu_wakeup")?;
        if wakeup.number("valid").is_err() {
            missing.push(Missing::new(
                "valid",
                "kvm_vcpu_wakeup has no such field before 4.7",
            ));
        }
        let mut optional = |system: &str, name: &str, fields: &str| {
            let format = tracefs.event(system, name)?;
            if format.is_none() {
                let reason = format!("this kernel has no tracepoint {system}:{name}");
                missing.push(Missing::new(fields, reason));
            }
            Ok::<_, CollectError>(format)
        };
        let window = optional("kvm", "kvm_halt_poll_ns", "window_ns, change, poll_ns")?;
        let of_kvm = tracefs::latency_of_kvm(&wakeup);
        let of_waking = of_kvm.as_ref().map_or("wake_latency_ns, wake", |_| "wake");
        let waking = optional("sched", "sched_waking", of_waking)?;
        let switch = optional("sched", "sched_switch", "poll_ns, poll_cut")?;
        missing.extend(of_kvm);
        let others = [&window, &waking, &switch].map(Option::as_ref);
        Ok((Self::of(&wakeup, others)?, missing))
    }

    /// The layouts out of format files: `kvm_vcpu_wakeup`, and, as far as they are there,
    /// `kvm_halt_poll_ns`, `sched_waking` and `sched_switch`.
    pub(super) fn of(
        wakeup: &EventFormat,
        others: [Option<&EventFormat>; 3],
    ) -> Result<Self, CollectError> {
        let mut layouts = Layouts::new(Event::Wakeup, wakeup)?;
        let kinds = [Event::Window, Event::Waking, Event::Switch];
        for (kind, format) in kinds.into_iter().zip(others) {
            format.map_or(Ok(()), |format| layouts.add(kind, format))?;
        }
        Ok(Self(layouts))
    }

    /// KVM's, which are not filtered: vCPU threads tell themselves.
    pub(super) fn always(&self) -> Vec<Tracepoint<&str>> {
        let all = self.0.all().iter();
        let of_kvm = all.filter(|it| matches!(it.kind, Event::Wakeup | Event::Window));
        of_kvm.map(|it| (it.id, None)).collect()
    }

    /// The sleeps and wake-ups of these threads, and of few others.
    pub(super) fn watching(&self, tids: &[Tid]) -> Vec<Tracepoint> {
        let filter = |event| match event {
            Event::Wakeup | Event::Window => None,
            Event::Waking => Some(threads("pid", tids)),
            // Asleep. One that was preempted (0, or 0x100 and more) tells nothing of a halt.
            Event::Switch => {
                let threads = threads("prev_pid", tids);
                Some(format!("prev_state=={ASLEEP}&&({threads})"))
            }
        };
        let all = self.0.all().iter();
        let watched = all.filter_map(|it| Some((it.id, Some(filter(it.kind)?))));
        watched.collect()
    }

    pub(super) fn sees_sched(&self) -> bool {
        let has = |event| self.0.all().iter().any(|it| it.kind == event);
        has(Event::Waking) && has(Event::Switch)
    }

    /// Reads an event's bytes; `None` if they are none of ours or too few.
    pub(super) fn parse(&self, raw: &[u8]) -> Option<SeenWhat> {
        let event = self.0.of(raw)?;
        let tid = Tid(event.read_u32(0)?);
        Some(match event.kind() {
            Event::Wakeup => SeenWhat::Whole(What::VcpuWakeup {
                tid,
                ns: event.read(1)?,
                waited: event.is_set(2)?,
                valid: !event.has(3) || event.is_set(3)?,
                latency_ns: if event.has(4) {
                    Some(event.read(4)?)
                } else {
                    None
                },
            }),
            Event::Window => SeenWhat::Whole(What::HaltPollNs {
                tid,
                vcpu: VcpuId(event.read_u32(1)?),
                grow: event.is_set(2)?,
                old: event.read_u32(3)?,
                new: event.read_u32(4)?,
            }),
            Event::Waking => SeenWhat::Waking {
                tid: Tid(event.read_u32(1)?),
                waker: Waker {
                    tid,
                    flags: u8::try_from(event.read(2)?).ok()?,
                },
            },
            Event::Switch if event.read(1)? == ASLEEP => SeenWhat::Whole(What::Slept { tid }),
            Event::Switch => return None,
        })
    }
}

pub(super) trait Kind: Copy {
    fn fields(self) -> &'static [&'static str];

    /// Fields that not all kernels have, which come after the others.
    fn optional(self) -> &'static [&'static str] {
        &[]
    }
}

/// The tracepoints that this kernel has, the one that is indispensable first.
#[derive(Debug)]
pub(super) struct Layouts<K> {
    common_type: Field,
    all: Vec<Layout<K>>,
}

#[derive(Debug)]
pub(super) struct Layout<K> {
    pub(super) id: u64,
    pub(super) kind: K,
    fields: Vec<Option<Field>>,
}

pub(super) struct Values<'a, K> {
    raw: &'a [u8],
    layout: &'a Layout<K>,
}

impl<K: Kind> Layouts<K> {
    pub(super) fn new(first: K, format: &EventFormat) -> Result<Self, CollectError> {
        let mut layouts = Self {
            common_type: number(format, "common_type")?,
            all: Vec::new(),
        };
        layouts.add(first, format)?;
        Ok(layouts)
    }

    pub(super) fn add(&mut self, kind: K, format: &EventFormat) -> Result<(), CollectError> {
        let needed = kind.fields().iter();
        let needed = needed.map(|field| number(format, field).map(Some));
        let optional = kind.optional().iter();
        let optional = optional.map(|field| Ok(format.number(field).ok()));
        self.all.push(Layout {
            id: format.id,
            kind,
            fields: needed.chain(optional).collect::<Result<_, _>>()?,
        });
        Ok(())
    }

    pub(super) fn all(&self) -> &[Layout<K>] {
        &self.all
    }

    pub(super) fn of<'a>(&'a self, raw: &'a [u8]) -> Option<Values<'a, K>> {
        let id = self.common_type.read(raw)?;
        let layout = self.all.iter().find(|layout| layout.id == id)?;
        Some(Values { raw, layout })
    }
}

impl<K: Kind> Values<'_, K> {
    pub(super) fn kind(&self) -> K {
        self.layout.kind
    }

    fn field(&self, at: usize) -> Option<&Field> {
        self.layout.fields.get(at)?.as_ref()
    }

    pub(super) fn has(&self, at: usize) -> bool {
        self.field(at).is_some()
    }

    /// A field by its place among those of its kind; `None` where the bytes end before.
    pub(super) fn read(&self, at: usize) -> Option<u64> {
        self.field(at)?.read(self.raw)
    }

    pub(super) fn read_u32(&self, at: usize) -> Option<u32> {
        self.field(at)?.read_u32(self.raw)
    }

    pub(super) fn is_set(&self, at: usize) -> Option<bool> {
        Some(self.read(at)? != 0)
    }
}

fn number(format: &EventFormat, field: &str) -> Result<Field, CollectError> {
    format.number(field).map_err(CollectError::unsupported)
}

/// Longest filter, in bytes: the kernel takes less than one page (`ftrace_profile_set_filter`).
const LONGEST: usize = 4000;

/// A filter that lets through every thread in `tids` by the field `field`, and few others.
pub(super) fn threads(field: &str, tids: &[Tid]) -> String {
    let mut ranges: Vec<(u32, u32)> = tids.iter().map(|tid| (tid.0, tid.0)).collect();
    ranges.sort_unstable();
    ranges.dedup();
    if ranges.is_empty() {
        return format!("{field}==-1");
    }
    // Join what lies closest until the text fits.
    let mut gap = 1;
    loop {
        ranges = join(&ranges, gap);
        let text = text(field, &ranges);
        if text.len() <= LONGEST {
            return text;
        }
        gap *= 2;
    }
}

/// Joins ranges with at most `gap` from one's end to the next one's start.
fn join(ranges: &[(u32, u32)], gap: u32) -> Vec<(u32, u32)> {
    let mut joined: Vec<(u32, u32)> = Vec::new();
    for &(low, high) in ranges {
        match joined.last_mut() {
            Some(last) if low.saturating_sub(last.1) <= gap => last.1 = last.1.max(high),
            _ => joined.push((low, high)),
        }
    }
    joined
}

fn text(field: &str, ranges: &[(u32, u32)]) -> String {
    let parts: Vec<String> = ranges
        .iter()
        .map(|&(low, high)| {
            if low == high {
                format!("{field}=={low}")
            } else {
                format!("({field}>={low}&&{field}<={high})")
            }
        })
        .collect();
    parts.join("||")
}

#[cfg(test)]
mod test;
