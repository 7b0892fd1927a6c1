//! Facts about a text as a whole: its host, what the text tells at all, lines that are not what a tool prints, and what
//! its capture cannot hold.

use std::collections::{BTreeMap, BTreeSet};

use haltwise_core::ids::VcpuId;
use haltwise_core::recording::Missing;

use super::line::fields::What;
use super::line::{self, About, Fault};
use super::places::Doubt;
use super::reading::Reading;
use super::told::GivenSettings;

/// The longest part of a line that another may continue.
const LONGEST_WRAPPED: usize = 512;

#[derive(Debug, Default)]
pub(super) struct TextFacts {
    pub(super) first_ns: Option<u64>,
    /// The last time that went into the capture.
    pub(super) last_ns: u64,
    pub(super) host: BTreeMap<About, String>,
    pub(super) halts: u64,
    pub(super) window_calls: u64,
    /// The smallest and the largest window of `kvm_halt_poll_ns`, with or without a time.
    pub(super) windows: Option<(u32, u32)>,
    pub(super) timeless_halts: u64,
    /// The vCPU of lines that name no thread, and one more if there are several.
    pub(super) threadless: (Option<VcpuId>, Option<VcpuId>),
    /// The first line that is no tool's, as far as it can be told.
    pub(super) damaged: Option<Damaged>,
    /// The last damaged line and its number, for the next one, which may continue it.
    wrapped: Option<(u64, Vec<u8>)>,
    pub(super) continued: u64,
    pub(super) lines: u64,
    signs: BTreeSet<Sign>,
}

/// Something seen once at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sign {
    Rounded,
    Names,
    /// KVM's word on whether a wake-up was valid.
    ValidTold,
    /// A wake-up without it, which is taken for valid.
    ValidAssumed,
    /// KVM's own wake-up latency.
    LatencyTold,
    Wakings,
    Switches,
    /// A waker without its context.
    NoFlags,
    /// Older events of some CPUs were overwritten.
    Overwritten,
    Threadless,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Damaged {
    pub(super) line: u64,
    pub(super) text: String,
    pub(super) fault: Fault,
}

const SHOWN: usize = 72;

impl Damaged {
    /// Fault of the line, as the end of a sentence; `damaged` lines of the text are damaged, and `continued` lines
    /// continue others.
    pub(super) fn in_words(&self, damaged: u64, continued: u64) -> String {
        let Self { line, text, fault } = self;
        let wrong = match fault {
            Fault::Fields(_, form) => format!("is not what a kernel prints (`{form}`)"),
            Fault::NoThread => {
                "names no thread (`NAME-TID [CPU]` or `NAME PID/TID [CPU]`)".to_owned()
            }
            Fault::NoTime => "has no time (`SECONDS.MICROSECONDS:`)".to_owned(),
        };
        let lines = match damaged {
            0 | 1 => String::new(),
            damaged => format!("; {damaged} lines are damaged"),
        };
        let wrapped = match continued {
            0 => "",
            _ => ", and some continue others: the text was wrapped",
        };
        format!("; line {line}, `{text}`, {wrong}{lines}{wrapped}")
    }
}

impl TextFacts {
    pub(super) fn see(&mut self, sign: Sign) {
        if !self.saw(sign) {
            self.signs.insert(sign);
        }
    }

    pub(super) fn saw(&self, sign: Sign) -> bool {
        self.signs.contains(&sign)
    }

    /// Notes a window, or an end of a halt without a time.
    pub(super) fn note(&mut self, what: What, timeless: bool) {
        match what {
            What::HaltPollNs { old, new, .. } => {
                let (low, high) = self.windows.unwrap_or((old, old));
                self.windows = Some((low.min(old).min(new), high.max(old).max(new)));
            }
            What::VcpuWakeup { .. } => self.timeless_halts += u64::from(timeless),
            _ => {}
        }
    }

    /// Notes a line without a thread: of which vCPU it is, where it tells.
    pub(super) fn threadless(&mut self, what: What) {
        self.see(Sign::Threadless);
        let (What::HaltPollNs { vcpu, .. }
        | What::Exit(Some(vcpu), _)
        | What::Entry(Some(vcpu), _)) = what
        else {
            return;
        };
        match self.threadless {
            (None, _) => self.threadless.0 = Some(vcpu),
            (Some(one), None) if one != vcpu => self.threadless.1 = Some(vcpu),
            _ => {}
        }
    }

    pub(super) fn note_arch(&mut self, line: &[u8]) {
        let any = |names: &[&[u8]]| {
            let mut names = names.iter();
            names.any(|name| line.windows(name.len()).any(|piece| piece == *name))
        };
        let arch = if any(&[
            b"VGIC",
            b"vgic_",
            b"kvm_timer_update_irq",
            b"HSR_EC",
            b"ESR_EC",
        ]) {
            "aarch64"
        } else if any(&[b"kvm_apic_", b"kvm_msr:", b"kvm_pio:", b" info1 "]) {
            "x86_64"
        } else {
            return;
        };
        self.host.insert(About::Arch, arch.to_owned());
    }

    pub(super) fn damage(&mut self, line: &[u8], fault: Fault) {
        if let Some((number, first)) = self.wrapped.take()
            && number + 1 == self.lines
        {
            self.continued += u64::from(line::continues(&first, line));
        }
        let part = line[..line.len().min(LONGEST_WRAPPED)].to_vec();
        self.wrapped = Some((self.lines, part));
        if self
            .damaged
            .as_ref()
            .is_none_or(|known| fault.rank() < known.fault.rank())
        {
            let name = match fault {
                Fault::Fields(name, _) => name.as_bytes(),
                Fault::NoThread | Fault::NoTime => b"",
            };
            let at = line
                .windows(name.len().max(1))
                .position(|piece| piece == name);
            let text = line[at.unwrap_or(0)..].trim_ascii();
            let shown = String::from_utf8_lossy(&text[..text.len().min(SHOWN)]);
            let dots = if text.len() > SHOWN { "..." } else { "" };
            self.damaged = Some(Damaged {
                line: self.lines,
                text: format!("{shown}{dots}"),
                fault,
            });
        }
    }
}

pub(super) fn missing(reading: &Reading, doubts: &BTreeSet<Doubt>) -> Vec<Missing> {
    let text = &reading.text;
    let mut missing = Vec::new();
    let mut say = |field: &str, reason: &str| missing.push(Missing::new(field, reason));
    windows(text, &reading.told, &mut say);
    sched(text, &mut say);
    for doubt in doubts {
        let (field, reason) = place(*doubt);
        say(field, reason);
    }
    if let Some(vcpu) = text.threadless.0 {
        let reason = format!(
            "the lines name no thread, and all that name a vCPU name vCPU {vcpu}: one vCPU is assumed"
        );
        say("vm, vcpu, tid", &reason);
    }
    if text.saw(Sign::ValidAssumed) {
        say(
            "valid",
            "kvm_vcpu_wakeup has no `valid` before 4.7: every wake-up is assumed valid",
        );
    }
    if text.saw(Sign::Rounded) {
        say(
            "start_ns, wake_latency_ns, poll_ns",
            "the text has timestamps in microseconds: differences of two are off by up to 1 \
             us (`perf script --ns` and `trace-cmd report -t` print all)",
        );
    }
    say(
        "clock, start_ticks",
        "the text contains neither the time of day nor start times of processes; times are those of \
         the tracer's clock",
    );
    if !text.host.contains_key(&About::Cpus) {
        say("host.cpus", "not in the text");
    }
    let others = reading.tally.other_events;
    if others > 0 {
        let names = names(reading);
        let reason = format!("{others} events of other kinds were not used ({names})");
        say("other events", &reason);
    }
    missing
}

/// The names of the events that were of no use.
pub(super) fn names(reading: &Reading) -> String {
    let names = reading.tally.other_names.iter();
    let names: Vec<_> = names.map(|name| String::from_utf8_lossy(name)).collect();
    names.join(", ")
}

fn windows(text: &TextFacts, told: &GivenSettings, mut say: impl FnMut(&str, &str)) {
    if text.window_calls == 0 {
        say("window_ns, change", "the text contains no kvm_halt_poll_ns");
        if !text.saw(Sign::Switches) {
            say(
                "poll_ns",
                "the text contains neither kvm_halt_poll_ns nor sched_switch: only polls of halts that did not \
                 sleep are known, by kvm_vcpu_wakeup",
            );
        }
    } else {
        say(
            "window_ns",
            "a vCPU's window is known from its first kvm_halt_poll_ns on, and after lost events from \
             the next one on",
        );
    }
    if told.ceiling().is_none() {
        say(
            "ceiling_ns",
            "the text contains no ceilings; they are known from --max or --cap, and from clamped windows",
        );
    }
    if told.kernel_release.is_none() {
        say(
            "host.kernel_release",
            "the kernel is not named; 6.1 assumed: import again with --kernel RELEASE",
        );
    }
}

fn sched(text: &TextFacts, mut say: impl FnMut(&str, &str)) {
    if !text.saw(Sign::Wakings) {
        let is_told = text.saw(Sign::LatencyTold);
        say(
            if is_told {
                "wake"
            } else {
                "wake_latency_ns, wake"
            },
            "the text contains no sched_waking of these threads",
        );
    } else if text.saw(Sign::NoFlags) {
        say(
            "wake",
            "the text does not contain the context of a waker (ftrace's flags): an interrupt is taken \
             for the thread that it interrupted, if that is a VMM's or injects interrupts",
        );
    } else {
        say(
            "wake",
            "in text a timer's interrupt looks like that of a device passed through",
        );
    }
    if text.saw(Sign::Switches) {
        say(
            "poll_ns",
            "KVM's own count is not visible: a preempted poll is counted until the vCPU left its CPU, \
             about 1 us too long",
        );
    } else if text.window_calls > 0 {
        say(
            "poll_ns, poll_cut",
            "the text contains no sched_switch: a failed poll counts with its whole window, although it may have been \
             preempted",
        );
    }
}

fn place(doubt: Doubt) -> (&'static str, &'static str) {
    match doubt {
        Doubt::Neighbours => (
            "vm",
            "the text does not name processes: threads of one name, whose own numbers lie close to \
             each other, are assumed to be those of one VM",
        ),
        Doubt::LoneThread => (
            "vm",
            "the text does not name processes: a thread that halts and has no neighbour of its name \
             stands for a VM of its own, under its own number",
        ),
        Doubt::UnknownProcess => (
            "vm",
            "ftrace did not know the process of some threads: their halts belong to no VM",
        ),
        Doubt::SharedProcess => (
            "vm",
            "a process runs vCPUs of the same number, and so several VMs: which of its threads \
             belong together is assumed by their names and their order",
        ),
        Doubt::Numbered => (
            "vcpu",
            "vCPUs without any call of grow or shrink have their numbers by the names of their \
             threads, or by their order",
        ),
    }
}
