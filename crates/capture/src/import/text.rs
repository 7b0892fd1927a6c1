//! Facts about a text as a whole: its host, what the text tells at all, and lines that are not what a tool prints.

use std::collections::{BTreeMap, BTreeSet};

use haltwise_core::ids::VcpuId;

use super::line::fields::What;
use super::line::{self, About, Fault};

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
