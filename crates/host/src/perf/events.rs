//! The tracepoints of this source: which they are, where their fields lie, what their bytes say.
//!
//! Offsets come from the running kernel's format files and from nowhere else.

use haltwise_core::decode::What;
use haltwise_core::decode::waker::Waker;
use haltwise_core::ids::{Pid, Tid, VcpuId};
use haltwise_core::recording::Missing;

use super::explain::explain_tracefs;
use crate::collector::CollectError;
use crate::tracefs::{EventFormat, Field, FormatError, Tracefs, TracefsError};

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
    /// The thread of a vCPU, of KVM's own events.
    pub(super) fn vcpu(self) -> Option<Tid> {
        match self {
            Self::Whole(What::VcpuWakeup { tid, .. } | What::HaltPollNs { tid, .. }) => Some(tid),
            _ => None,
        }
    }
}

/// The layouts of the events that this kernel has.
#[derive(Debug)]
pub(super) struct Events {
    wakeup: Wakeup,
    window: Option<Window>,
    waking: Option<Waking>,
    switch: Option<Switch>,
    common_type: Field,
    common_pid: Field,
}

#[derive(Debug)]
struct Wakeup {
    id: u64,
    ns: Field,
    waited: Field,
    valid: Option<Field>,
}

#[derive(Debug)]
struct Window {
    id: u64,
    vcpu_id: Field,
    grow: Field,
    old: Field,
    new: Field,
}

#[derive(Debug)]
struct Waking {
    id: u64,
    pid: Field,
    flags: Field,
}

#[derive(Debug)]
struct Switch {
    id: u64,
    prev_pid: Field,
    prev_state: Field,
}

/// `TASK_INTERRUPTIBLE`: how KVM blocks (`kvm_vcpu_block`).
const ASLEEP: u64 = 1;

/// The state with which a switch says something here, as a filter of `sched_switch`: asleep. One that was
/// preempted (0, or 0x100 and more) tells nothing of a halt.
pub(super) fn telling_state() -> String {
    format!("prev_state=={ASLEEP}")
}

/// Which field a filter by thread goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filter {
    /// Every event is wanted: vCPU threads tell themselves.
    None,
    Waking,
    Switch,
}

impl Events {
    /// Reads the layouts. Only `kvm_vcpu_wakeup` is indispensable; what else is absent is told.
    pub(super) fn load(tracefs: &Tracefs) -> Result<(Self, Vec<Missing>), CollectError> {
        let mut missing = Vec::new();
        let wakeup = tracefs
            .event("kvm", "kvm_vcpu_wakeup")
            .map_err(explain_tracefs)?;
        if wakeup.number("valid").is_err() {
            missing.push(Missing::new(
                "valid",
                "kvm_vcpu_wakeup has no such field before 4.7",
            ));
        }
        let mut optional =
            |system: &str, name: &str, fields: &str| match tracefs.event(system, name) {
                Ok(format) => Ok(Some(format)),
                Err(TracefsError::NoEvent { event }) => {
                    missing.push(Missing::new(
                        fields,
                        format!("this kernel has no tracepoint {event}"),
                    ));
                    Ok(None)
                }
                Err(error) => Err(explain_tracefs(error)),
            };
        let window = optional("kvm", "kvm_halt_poll_ns", "window_ns, change, poll_ns")?;
        let waking = optional("sched", "sched_waking", "wake_latency_ns, wake")?;
        let switch = optional("sched", "sched_switch", "poll_ns, poll_cut")?;
        let others = [&window, &waking, &switch].map(Option::as_ref);
        Ok((Self::of(&wakeup, others)?, missing))
    }

    /// The layouts out of format files: `kvm_vcpu_wakeup`, and, as far as they are there,
    /// `kvm_halt_poll_ns`, `sched_waking` and `sched_switch`.
    pub(super) fn of(
        wakeup: &EventFormat,
        [window, waking, switch]: [Option<&EventFormat>; 3],
    ) -> Result<Self, CollectError> {
        Ok(Self {
            wakeup: Wakeup::of(wakeup)?,
            window: window.map(Window::of).transpose()?,
            waking: waking.map(Waking::of).transpose()?,
            switch: switch.map(Switch::of).transpose()?,
            common_type: number(wakeup, "common_type")?,
            common_pid: number(wakeup, "common_pid")?,
        })
    }

    pub(super) fn to_open(&self) -> Vec<(u64, Filter)> {
        let mut ids = vec![(self.wakeup.id, Filter::None)];
        ids.extend(self.window.as_ref().map(|e| (e.id, Filter::None)));
        ids.extend(self.waking.as_ref().map(|e| (e.id, Filter::Waking)));
        ids.extend(self.switch.as_ref().map(|e| (e.id, Filter::Switch)));
        ids
    }

    /// Whether sleeps and wake-ups can be seen at all.
    pub(super) fn sees_sched(&self) -> bool {
        self.waking.is_some() && self.switch.is_some()
    }

    /// Reads an event's bytes; `None` if they are none of ours or too few.
    pub(super) fn parse(&self, raw: &[u8]) -> Option<SeenWhat> {
        let id = self.common_type.read(raw)?;
        let tid = Tid(self.common_pid.read_u32(raw)?);
        if id == self.wakeup.id {
            let event = &self.wakeup;
            return Some(SeenWhat::Whole(What::VcpuWakeup {
                tid,
                ns: event.ns.read(raw)?,
                waited: event.waited.read(raw)? != 0,
                valid: event.valid.as_ref().map_or(Some(1), |f| f.read(raw))? != 0,
            }));
        }
        if let Some(event) = self.window.as_ref().filter(|event| event.id == id) {
            return Some(SeenWhat::Whole(What::HaltPollNs {
                tid,
                vcpu: VcpuId(event.vcpu_id.read_u32(raw)?),
                grow: event.grow.read(raw)? != 0,
                old: event.old.read_u32(raw)?,
                new: event.new.read_u32(raw)?,
            }));
        }
        if let Some(event) = self.waking.as_ref().filter(|event| event.id == id) {
            let flags = event.flags.read(raw)?;
            return Some(SeenWhat::Waking {
                tid: Tid(event.pid.read_u32(raw)?),
                waker: Waker {
                    tid,
                    flags: u8::try_from(flags).ok()?,
                },
            });
        }
        let event = self.switch.as_ref().filter(|event| event.id == id)?;
        let tid = Tid(event.prev_pid.read_u32(raw)?);
        (event.prev_state.read(raw)? == ASLEEP).then_some(SeenWhat::Whole(What::Slept { tid }))
    }
}

impl Wakeup {
    fn of(format: &EventFormat) -> Result<Self, CollectError> {
        Ok(Self {
            id: format.id,
            ns: number(format, "ns")?,
            waited: number(format, "waited")?,
            valid: format.number("valid").ok(),
        })
    }
}

impl Window {
    fn of(format: &EventFormat) -> Result<Self, CollectError> {
        Ok(Self {
            id: format.id,
            vcpu_id: number(format, "vcpu_id")?,
            grow: number(format, "grow")?,
            old: number(format, "old")?,
            new: number(format, "new")?,
        })
    }
}

impl Waking {
    fn of(format: &EventFormat) -> Result<Self, CollectError> {
        Ok(Self {
            id: format.id,
            pid: number(format, "pid")?,
            flags: number(format, "common_flags")?,
        })
    }
}

impl Switch {
    fn of(format: &EventFormat) -> Result<Self, CollectError> {
        Ok(Self {
            id: format.id,
            prev_pid: number(format, "prev_pid")?,
            prev_state: number(format, "prev_state")?,
        })
    }
}

pub(super) fn number(format: &EventFormat, field: &str) -> Result<Field, CollectError> {
    format.number(field).map_err(|error| unsupported(&error))
}

fn unsupported(error: &FormatError) -> CollectError {
    CollectError::Unsupported {
        what: error.to_string(),
        source: None,
    }
}

#[cfg(test)]
mod test;
