//! One line of text, whichever tool printed it: an event of use, something known, or damage.
//!
//! ```text
//!  ftrace      CPU 0/KVM-4201    (   4190) [001] d..1.  12.345678: kvm_vcpu_wakeup: wait time …
//!  trace-cmd   CPU 0/KVM-4201  [001]  12.345678: kvm_vcpu_wakeup:      wait time …
//!  perf        CPU 0/KVM  4190/4201 [001]  12.345678:  1  kvm:kvm_vcpu_wakeup: wait time …
//!              ╰─────────── head ───────────╯ ╰ time ╯     ╰── event ──╯  ╰ fields ╯
//! ```
//!
//! All are told apart line by line, so that it does not matter which tool, version or option printed
//! them, nor whether a file holds several. Pure, and without memory of other lines.

pub(super) mod fields;
mod head;
mod notice;
mod number;

use self::fields::What;
pub(super) use self::head::{Comm, Head, Process};
pub(super) use self::notice::{About, Notice};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said<'a> {
    Event(Head, What),
    /// An event of no use, by its name.
    OtherEvent(&'a [u8]),
    Notice(Notice<'a>),
    /// Nothing: a blank line, a comment, a stack.
    Nothing,
    /// It was an event, but its time is in ticks of a clock of unknown speed; what it says, if that is of KVM's
    /// halts.
    Ticks(Option<What>),
    /// More than one event on a line.
    RunTogether,
    /// Not what any tool prints. With the head of an event of KVM only its thread is concerned.
    Damaged(Option<Head>, Fault),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// An event of this name, whose fields are not those that a kernel prints: these are.
    Fields(&'static str, &'static str),
    /// A time, and before it no thread that could be told.
    NoThread,
    NoTime,
}

impl Fault {
    /// The less, the more it tells of why a text holds no halts.
    pub(super) fn rank(self) -> u8 {
        match self {
            Self::Fields("kvm_vcpu_wakeup:", _) => 0,
            Self::Fields(..) => 1,
            Self::NoThread => 2,
            Self::NoTime => 3,
        }
    }
}

pub(super) fn read(line: &[u8]) -> Said<'_> {
    if let Some(notice) = notice::read(line) {
        return Said::Notice(notice);
    }
    if is_nothing(line) {
        return Said::Nothing;
    }
    let Some(parts) = head::split(line) else {
        return if let Some(rest) = head::after_ticks(line) {
            Said::Ticks(of_halts(rest))
        } else if head::has_time(&line[..line.len().min(head::LATEST)]) {
            Said::Damaged(None, Fault::NoThread)
        } else {
            Said::Damaged(None, Fault::NoTime)
        };
    };
    if parts.is_preceded {
        return Said::RunTogether;
    }
    if let Some(notice) = notice::of_event(parts.rest) {
        return Said::Notice(notice);
    }
    let Some((name, fields)) = parts.event() else {
        // A line of the function tracer, or a stack. One that holds another time is two: the first, cut in
        // its event's name, may have been of KVM.
        return if mentions_kvm(parts.rest) || head::has_time(parts.rest) {
            Said::RunTogether
        } else {
            Said::Nothing
        };
    };
    let head = parts.head;
    match fields::read(name, fields) {
        fields::Read::Known(what) if !head::has_time(fields) => Said::Event(head, what),
        fields::Read::Useless if !mentions_kvm(fields) => Said::OtherEvent(name),
        fields::Read::Known(_) | fields::Read::Useless => Said::RunTogether,
        fields::Read::Damaged if head::has_time(fields) => Said::RunTogether,
        fields::Read::Damaged => {
            let (name, form) = fields::form(name);
            let whose = name.starts_with("kvm_").then_some(head);
            Said::Damaged(whose, Fault::Fields(name, form))
        }
    }
}

fn of_halts(rest: &[u8]) -> Option<What> {
    let rest = rest.strip_prefix(b"kvm:").unwrap_or(rest);
    let colon = rest.iter().position(|byte| *byte == b':')?;
    match fields::read(&rest[..colon], rest[colon + 1..].trim_ascii()) {
        fields::Read::Known(what) => Some(what),
        fields::Read::Useless | fields::Read::Damaged => None,
    }
}

/// Whether a line continues another that was wrapped on its way.
pub(super) fn continues(first: &[u8], second: &[u8]) -> bool {
    let joined = [first.trim_ascii_end(), b" ", second.trim_ascii()].concat();
    matches!(read(&joined), Said::Event(..))
}

fn is_nothing(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    if text.is_empty() || text.starts_with(b"#") || text.starts_with(b"=>") {
        return true;
    }
    // perf: `ffffffff810a kvm_vcpu_halt+0x1a ([kvm])`; at least eight digits tell it from a word.
    let address = text.split(u8::is_ascii_whitespace).next().unwrap_or(text);
    let indented = line.first().is_some_and(u8::is_ascii_whitespace);
    indented && address.len() >= 8 && address.iter().all(u8::is_ascii_hexdigit)
}

fn mentions_kvm(text: &[u8]) -> bool {
    ["kvm_vcpu_wakeup:", "kvm_halt_poll_ns:"]
        .iter()
        .any(|name| {
            text.windows(name.len())
                .any(|piece| piece == name.as_bytes())
        })
}

#[cfg(test)]
mod test;
