//! Contents of an event: KVM's two events of each halt, the scheduler's two, exits and entries, idle states.
//!
//! Each is read in every form in which it is printed: by the kernel's own format (`TP_printk` in
//! `include/trace/events/kvm.h` and `sched.h`), by libtraceevent's plugins (trace-cmd, perf), and as
//! bare fields (`trace-cmd report -R`, ftrace's option `fields`).

use haltwise_core::event::WakeSource;
use haltwise_core::exit::names;
use haltwise_core::ids::{Tid, VcpuId};

use super::number;
use crate::import::counts::Reason;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::import) enum What {
    /// `kvm_vcpu_wakeup`: a halt ended.
    VcpuWakeup {
        ns: u64,
        waited: bool,
        /// KVM counts the wake-up as valid; kernels before 4.7 do not say.
        valid: Option<bool>,
        /// Wake-up latency, 0 where KVM does not know it; `None` in a kernel that does not tell.
        latency_ns: Option<u64>,
    },
    /// `kvm_halt_poll_ns`: the rule of the window was called.
    HaltPollNs {
        vcpu: VcpuId,
        grow: bool,
        old: u32,
        new: u32,
    },
    /// `sched_waking`: the thread that runs wakes another.
    Waking { woken: Tid },
    /// `sched_switch`: a thread gives up its CPU to sleep where a signal may wake it, as halts do.
    Slept { tid: Tid },
    /// `sched_switch` for any other reason.
    Switched,
    /// An interrupt for a vCPU, by what it stands for.
    Injects(WakeSource),
    /// `kvm_exit`: the thread runs this vCPU, where that is named, and left its guest for this reason, where the
    /// name is known.
    Exit(Option<VcpuId>, Reason),
    /// `kvm_entry`: likewise; the guest goes on at this address.
    Entry(Option<VcpuId>, Option<u64>),
    /// `power:cpu_idle`: a CPU enters this idle state, or leaves it.
    Idle { cpu: u32, state: Option<u32> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    Known(What),
    Useless,
    Damaged,
}

pub(super) fn read(name: &[u8], fields: &[u8]) -> Read {
    let what = match name {
        b"kvm_vcpu_wakeup" => wakeup(fields),
        b"kvm_halt_poll_ns" => halt_poll(fields),
        b"sched_waking" => waking(fields),
        b"sched_switch" => switch(fields),
        b"kvm_exit" => Some(What::Exit(vcpu(fields), exit_reason(fields))),
        b"kvm_entry" => Some(What::Entry(vcpu(fields), address(fields))),
        b"cpu_idle" => idle(fields),
        _ => match injects(name, fields) {
            Some(source) => Some(What::Injects(source)),
            None => return Read::Useless,
        },
    };
    what.map_or(Read::Damaged, Read::Known)
}

/// The fields of an event as the kernel prints them, after its name.
pub(super) fn form(name: &[u8]) -> (&'static str, &'static str) {
    match name {
        b"kvm_vcpu_wakeup" => (
            "kvm_vcpu_wakeup:",
            "{wait|poll} time N ns, polling {valid|invalid}",
        ),
        b"kvm_halt_poll_ns" => (
            "kvm_halt_poll_ns:",
            "vcpu N: halt_poll_ns N ({grow|shrink} N)",
        ),
        b"sched_waking" => ("sched_waking:", "comm=NAME pid=N prio=N target_cpu=N"),
        _ => (
            "sched_switch:",
            "prev_comm=NAME prev_pid=N prev_prio=N prev_state=S ==> next_comm=NAME next_pid=N next_prio=N",
        ),
    }
}

/// Wake source that an interrupt stands for, where its event tells. x86: by its vector, as Linux guests number them
/// (`arch/x86/include/asm/irq_vectors.h`); arm64: by its number in the interrupt controller, below 16 another
/// vCPU's, 26 to 30 the timers'.
fn injects(name: &[u8], fields: &[u8]) -> Option<WakeSource> {
    let after = |word: &[u8]| {
        let at = fields.windows(word.len()).position(|piece| piece == word)?;
        let rest = fields[at + word.len()..].trim_ascii_start();
        number::decimal(&rest[..number::digits(rest)])
    };
    match name {
        b"kvm_timer_update_irq" => Some(WakeSource::Timer),
        b"kvm_apic_ipi" => Some(WakeSource::Ipi),
        b"kvm_irq_line" | b"kvm_msi_set_irq" => Some(WakeSource::Device),
        b"vgic_update_irq_pending" => match after(b"IRQ")? {
            0..16 => Some(WakeSource::Ipi),
            26..=30 => Some(WakeSource::Timer),
            32.. => Some(WakeSource::Device),
            _ => None,
        },
        b"kvm_apic_accept_irq" => match after(b"vec")? {
            0xec => Some(WakeSource::Timer),
            0xfb..=0xfd => Some(WakeSource::Ipi),
            _ => None,
        },
        _ => None,
    }
}

const LATENCY: &[u8] = b", latency ";

/// `wait time 12345 ns, polling valid`; before 4.7 only `wait time 12345 ns`; with the latency in a kernel that has the
/// patch of `contrib/kernel`.
fn wakeup(text: &[u8]) -> Option<What> {
    let (waited, rest) = match (text.strip_prefix(b"wait "), text.strip_prefix(b"poll ")) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        _ => return bare_wakeup(text),
    };
    let rest = rest.strip_prefix(b"time ")?;
    let (ns, rest) = rest.split_at(number::digits(rest));
    let told = rest
        .windows(LATENCY.len())
        .position(|piece| piece == LATENCY);
    let (rest, latency_ns) = match told {
        Some(at) => {
            let latency = rest[at + LATENCY.len()..].strip_suffix(b" ns")?;
            (&rest[..at], Some(number::decimal(latency)?))
        }
        None => (rest, None),
    };
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
        latency_ns,
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
        latency_ns: fields.number(b"latency_ns"),
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

/// `reason HLT …`, `TRAP: HSR_EC: 0x0001 (WFx), …`, `IRQ: …`.
fn exit_reason(text: &[u8]) -> Reason {
    let text = std::str::from_utf8(text).ok()?;
    let name = match text.split_once("reason ") {
        Some((_, rest)) => rest.split([' ', ',']).next()?,
        None => match text.strip_prefix("TRAP:") {
            Some(trap) => trap.split_once('(')?.1.split_once(')')?.0,
            None => text.split_once(':')?.0,
        },
    };
    names::by_name(name)
}

/// `… rip 0xffffffff81e0115a …`, or arm64's `PC: 0x…`.
fn address(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let (_, rest) = text
        .split_once("rip 0x")
        .or_else(|| text.split_once("PC: 0x"))?;
    let end = rest.find(|digit: char| !digit.is_ascii_hexdigit());
    u64::from_str_radix(&rest[..end.unwrap_or(rest.len())], 16).ok()
}

/// `state=3 cpu_id=3`; a CPU that leaves its state prints `PWR_EVENT_EXIT`.
fn idle(text: &[u8]) -> Option<What> {
    const PWR_EVENT_EXIT: u64 = u32::MAX as u64;
    let fields = Bare::read(text)?;
    let state = match fields.number(b"state")? {
        PWR_EVENT_EXIT => None,
        state => Some(u32::try_from(state).ok()?),
    };
    let cpu = u32::try_from(fields.number(b"cpu_id")?).ok()?;
    Some(What::Idle { cpu, state })
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

// The scheduler's events. A task's name may hold anything but is 15 bytes long, so that what is longer cannot be part of
// a name: the parser looks for such words from the right.

/// `comm=… pid=4201 prio=120 target_cpu=001`, bare or not, or the plugin's `…:4201 [120] CPU:001`.
fn waking(text: &[u8]) -> Option<What> {
    let woken = if text.starts_with(b"comm=") {
        // No name can hold both of these.
        let tail = after_last(text, b" target_cpu=")?;
        let before = &text[..text.len() - tail.len()];
        is_last_value(tail).then_some(())?;
        tid_at(after_last(before, b" pid=")?)?
    } else {
        let cpu = after_last(text, b" CPU:")?;
        number::decimal(cpu)?;
        let before = &text[..text.len() - cpu.len() - b" CPU:".len()];
        plugin_task(before)?
    };
    Some(What::Waking { woken })
}

/// `prev_comm=… prev_pid=4201 prev_prio=120 prev_state=S ==> next_comm=…`, bare without the arrow, or
/// the plugin's `…:4201 [120] S ==> …:0 [120]`.
fn switch(text: &[u8]) -> Option<What> {
    let (tid, state) = if text.starts_with(b"prev_comm=") {
        is_last_value(after_last(text, b" next_prio=")?).then_some(())?;
        let next = after_last(text, b" next_comm=")?;
        let before = &text[..text.len() - next.len() - b" next_comm=".len()];
        let before = before.strip_suffix(b" ==>").unwrap_or(before);
        let state = after_last(before, b" prev_state=")?;
        (tid_at(after_last(before, b" prev_pid=")?)?, state)
    } else {
        let next = after_last(text, b" ==> ")?;
        plugin_task(next)?;
        let before = &text[..text.len() - next.len() - b" ==> ".len()];
        let blank = before.iter().rposition(|byte| *byte == b' ')?;
        (plugin_task(&before[..blank])?, &before[blank + 1..])
    };
    Some(match state {
        // TASK_INTERRUPTIBLE, in which kvm_vcpu_block sleeps.
        b"S" | b"1" | b"0x1" | b"0x1 (1)" => What::Slept { tid },
        // It could go on, or waits elsewhere.
        _ => What::Switched,
    })
}

/// A task as the plugin prints it, `comm:pid [prio]`, at the end of a text.
fn plugin_task(text: &[u8]) -> Option<Tid> {
    let open = text.iter().rposition(|byte| *byte == b'[')?;
    signed(text[open + 1..].strip_suffix(b"]")?)?;
    let before = text[..open].strip_suffix(b" ")?;
    let colon = before.iter().rposition(|byte| *byte == b':')?;
    tid(&before[colon + 1..])
}

/// A priority: deadline tasks have -1.
fn signed(text: &[u8]) -> Option<u64> {
    number::any(text.strip_prefix(b"-").unwrap_or(text))
}

/// The number at the beginning of a text: `4201 …` or `0x1069 (4201) …`.
fn tid_at(text: &[u8]) -> Option<Tid> {
    let end = text.iter().position(|byte| *byte == b' ');
    tid(&text[..end.unwrap_or(text.len())])
}

fn tid(text: &[u8]) -> Option<Tid> {
    u32::try_from(number::any(text)?).ok().map(Tid)
}

/// Whether a text is one value, and nothing after it.
fn is_last_value(text: &[u8]) -> bool {
    let mut words = text.split(|byte| *byte == b' ');
    let first = words.next().and_then(signed);
    let is_decimal = |word| inner(word).and_then(signed).is_some();
    first.is_some() && words.next().is_none_or(is_decimal) && words.next().is_none()
}

fn after_last<'a>(text: &'a [u8], word: &[u8]) -> Option<&'a [u8]> {
    let at = text.windows(word.len()).rposition(|piece| piece == word)?;
    Some(&text[at + word.len()..])
}

/// Fields printed one by one: `ns=423016 waited=1`, or `ns=0x67468 (423016) waited=(1)`.
#[derive(Debug)]
struct Bare<'a>(&'a [u8]);

impl<'a> Bare<'a> {
    /// `None` if a part of the text is neither a field nor the decimal value of the field before it.
    fn read(text: &'a [u8]) -> Option<Self> {
        let is_field = |word: &[u8]| word.contains(&b'=');
        let mut words = words(text);
        let is_whole =
            is_field(words.next()?) && words.all(|it| is_field(it) || inner(it).is_some());
        is_whole.then_some(Self(text))
    }

    fn value(&self, name: &[u8]) -> Option<&'a [u8]> {
        let mut words = words(self.0);
        let value = words.find_map(|word| word.strip_prefix(name)?.strip_prefix(b"="))?;
        // The same in decimal may follow.
        let decimal = words.next().and_then(inner);
        Some(decimal.or(inner(value)).unwrap_or(value))
    }

    fn number(&self, name: &[u8]) -> Option<u64> {
        number::any(self.value(name)?)
    }

    fn flag(&self, name: &[u8]) -> Option<bool> {
        match self.number(name)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let words = text.split(u8::is_ascii_whitespace);
    words.filter(|word| !word.is_empty())
}

fn inner(text: &[u8]) -> Option<&[u8]> {
    text.strip_prefix(b"(")?.strip_suffix(b")")
}
