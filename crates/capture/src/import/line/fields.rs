//! What an event says: KVM's two of each halt, the scheduler's two, and those that name a vCPU.
//!
//! Each is read in every form in which it is printed: by the kernel's own format (`TP_printk` in
//! `include/trace/events/kvm.h` and `sched.h`), by libtraceevent's plugins (trace-cmd, perf), and as
//! bare fields (`trace-cmd report -R`, ftrace's option `fields`).

mod bare;
mod sched;

use haltwise_core::ids::{Tid, VcpuId};

use self::bare::Bare;
use super::number;

/// An event of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::import) enum What {
    /// `kvm_vcpu_wakeup`: a halt ended.
    VcpuWakeup {
        /// The whole halt.
        ns: u64,
        /// It was scheduled out.
        waited: bool,
        /// KVM counts the wake-up as valid; kernels before 4.7 do not say.
        valid: Option<bool>,
    },
    /// `kvm_halt_poll_ns`: the rule of the window was called.
    HaltPollNs {
        /// Whose.
        vcpu: VcpuId,
        /// Grow or shrink.
        grow: bool,
        /// Window before.
        old: u32,
        /// Window after.
        new: u32,
    },
    /// `sched_waking`: the thread that runs wakes another.
    Waking {
        /// That one.
        woken: Tid,
    },
    /// `sched_switch`: a thread gives up its CPU to sleep where a signal may wake it, as halts do.
    Slept {
        /// That thread.
        tid: Tid,
    },
    /// `sched_switch` for any other reason.
    Switched,
    /// `kvm_exit` or `kvm_entry`: the thread runs this vCPU, where they name it.
    Runs(Option<VcpuId>),
}

/// What became of an event's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    Known(What),
    /// An event that is of no use here.
    Useless,
    /// Not what anybody prints.
    Damaged,
}

/// Reads the fields of an event by its name.
pub(super) fn read(name: &[u8], fields: &[u8]) -> Read {
    let what = match name {
        b"kvm_vcpu_wakeup" => wakeup(fields),
        b"kvm_halt_poll_ns" => halt_poll(fields),
        b"sched_waking" => sched::waking(fields),
        b"sched_switch" => sched::switch(fields),
        b"kvm_exit" | b"kvm_entry" => Some(What::Runs(vcpu(fields))),
        _ => return Read::Useless,
    };
    what.map_or(Read::Damaged, Read::Known)
}

/// `wait time 12345 ns, polling valid`; before 4.7 only `wait time 12345 ns`.
fn wakeup(text: &[u8]) -> Option<What> {
    let (waited, rest) = match (text.strip_prefix(b"wait "), text.strip_prefix(b"poll ")) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        _ => return bare_wakeup(text),
    };
    let rest = rest.strip_prefix(b"time ")?;
    let (ns, rest) = rest.split_at(number::digits(rest));
    let valid = match rest {
        b" ns" => None,
        b" ns, polling valid" => Some(true),
        b" ns, polling invalid" => Some(false),
        _ => return None,
    };
    Some(What::VcpuWakeup {
        ns: number::decimal(ns)?,
        waited,
        valid,
    })
}

fn bare_wakeup(text: &[u8]) -> Option<What> {
    let fields = Bare::read(text)?;
    Some(What::VcpuWakeup {
        ns: fields.number(b"ns")?,
        waited: fields.flag(b"waited")?,
        valid: match fields.value(b"valid") {
            Some(_) => Some(fields.flag(b"valid")?),
            None => None,
        },
    })
}

/// `vcpu 0: halt_poll_ns 20000 (grow 10000)`.
fn halt_poll(text: &[u8]) -> Option<What> {
    let Some(rest) = text.strip_prefix(b"vcpu ") else {
        return bare_halt_poll(text);
    };
    let (id, rest) = rest.split_at(number::digits(rest));
    let rest = rest.strip_prefix(b": halt_poll_ns ")?.strip_suffix(b")")?;
    let blank = rest.iter().position(|byte| *byte == b' ')?;
    let (new, rest) = rest.split_at(blank);
    let (grow, old) = match (
        rest.strip_prefix(b" (grow "),
        rest.strip_prefix(b" (shrink "),
    ) {
        (Some(old), _) => (true, old),
        (_, Some(old)) => (false, old),
        _ => return None,
    };
    Some(What::HaltPollNs {
        vcpu: VcpuId(u32::try_from(number::decimal(id)?).ok()?),
        grow,
        old: number::window(old)?,
        new: number::window(new)?,
    })
}

fn bare_halt_poll(text: &[u8]) -> Option<What> {
    let fields = Bare::read(text)?;
    Some(What::HaltPollNs {
        vcpu: VcpuId(u32::try_from(fields.number(b"vcpu_id")?).ok()?),
        grow: fields.flag(b"grow")?,
        old: number::window(fields.value(b"old")?)?,
        new: number::window(fields.value(b"new")?)?,
    })
}

/// x86 prints `vcpu 0, …` or `vcpu 0 …` first, or a field `vcpu_id`; other ports may not name it.
fn vcpu(text: &[u8]) -> Option<VcpuId> {
    let digits = match text.strip_prefix(b"vcpu ") {
        Some(rest) => &rest[..number::digits(rest)],
        None => Bare::read(text)?.value(b"vcpu_id")?,
    };
    let id = number::any(digits)?;
    u32::try_from(id).ok().map(VcpuId)
}
