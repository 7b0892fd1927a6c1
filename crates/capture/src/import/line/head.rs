//! Head of a line: who, where and when, before an event's name.
//!
//! A thread's name may hold anything, blanks, dashes, digits and brackets included. So the time is
//! sought first, from the left, and what stands before it is taken apart from its right end.

use haltwise_core::ids::{Pid, Tid};

use super::number;

/// Where a time may begin at the latest. Names are 15 bytes long; tools put little before them.
pub(super) const LATEST: usize = 256;

/// The largest number of a thread (`PID_MAX_LIMIT`, `include/linux/threads.h`).
const LARGEST_TID: u64 = 4 << 20;

/// The longest name of a thread (`TASK_COMM_LEN`, less its end).
const LONGEST_COMM: usize = 15;

/// CPUs beyond any kernel's (`NR_CPUS` is 8192 at most).
const LARGEST_CPU: u64 = 65_535;

/// Fields before an event's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::import) struct Head {
    /// The thread that ran; perf does not know those that have ended.
    pub(in crate::import) tid: Option<Tid>,
    pub(in crate::import) process: Process,
    /// Its name; empty where it is not printed.
    pub(in crate::import) comm: Comm,
    pub(in crate::import) cpu: Option<u32>,
    /// `common_flags`, where printed: `TRACE_FLAG_HARDIRQ` and its like.
    pub(in crate::import) flags: Option<u8>,
    /// When, in nanoseconds of the tracer's clock.
    pub(in crate::import) time_ns: u64,
    /// perf printed it, which names every thread or none, as `comm pid/tid`, and the system of each event; ftrace prints
    /// `comm-pid`, and no system.
    pub(in crate::import) is_perf: bool,
    /// The time was printed to the microsecond only.
    pub(in crate::import) is_rounded: bool,
    /// The line has no column for threads: [`UNNAMED`] stands for it.
    pub(in crate::import) is_threadless: bool,
}

/// The thread of lines that name none; no vCPU runs in the idle thread.
const UNNAMED: Tid = Tid(0);

/// The process of a thread, as a line tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::import) enum Process {
    Is(Pid),
    /// There is a column for it, but the tracer did not know.
    NotKnown,
    /// The tool did not print it.
    NotPrinted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::import) struct Comm([u8; LONGEST_COMM]);

impl Comm {
    fn new(text: &[u8]) -> Self {
        let text = text.trim_ascii();
        // ftrace prints this for a thread whose name it forgot.
        if text == b"<...>" {
            return Self::default();
        }
        let mut comm = [0; LONGEST_COMM];
        let kept = &text[..text.len().min(LONGEST_COMM)];
        comm[..kept.len()].copy_from_slice(kept);
        Self(comm)
    }

    pub(in crate::import) fn is_empty(&self) -> bool {
        self.0[0] == 0
    }

    /// As text; what is not text is replaced.
    pub(in crate::import) fn text(&self) -> String {
        let end = self.0.iter().position(|byte| *byte == 0);
        String::from_utf8_lossy(&self.0[..end.unwrap_or(self.0.len())]).into_owned()
    }
}

#[derive(Debug)]
pub(super) struct Parts<'a> {
    pub(super) head: Head,
    pub(super) rest: &'a [u8],
    /// More stands before it than a thread's name: the beginning of another line.
    pub(super) is_preceded: bool,
}

impl<'a> Parts<'a> {
    /// The event's name, without its system, and its fields; `None` if there is no event, or none
    /// that this tool would print so.
    pub(super) fn event(&self) -> Option<(&'a [u8], &'a [u8])> {
        let mut rest = self.rest.trim_ascii_start();
        if self.head.is_perf {
            // The period, where it was asked for.
            let period = number::digits(rest);
            if period > 0 && rest.get(period) == Some(&b' ') {
                rest = rest[period..].trim_ascii_start();
            }
        }
        let end = rest.iter().position(u8::is_ascii_whitespace);
        let (name, fields) = rest.split_at(end.unwrap_or(rest.len()));
        let name = name.strip_suffix(b":")?;
        let colon = name.iter().position(|byte| *byte == b':');
        let name = match (self.head.is_perf, colon) {
            (false, None) => name,
            (true, Some(colon)) => &name[colon + 1..],
            _ => return None,
        };
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
        let good = !name.is_empty() && name.iter().all(is_name);
        good.then_some((name, fields.trim_ascii()))
    }
}

/// Takes a line apart; `None` if it is no event's.
pub(super) fn split(line: &[u8]) -> Option<Parts<'_>> {
    let time = find_time(&line[..line.len().min(LATEST)])?;
    let (cpu, flags, who) = place(line[..time.start].trim_ascii_end())?;
    let rest = &line[time.end..];
    let (is_perf, comm, tid, process) = if who.is_empty() {
        // perf names the system of an event, ftrace does not.
        let name = rest
            .trim_ascii_start()
            .split(u8::is_ascii_whitespace)
            .next()?;
        let name = name.strip_suffix(b":").unwrap_or(name);
        let is_perf = name.contains(&b':');
        (is_perf, &b"vcpu"[..], Some(UNNAMED), Process::NotPrinted)
    } else {
        thread(who)?
    };
    Some(Parts {
        head: Head {
            tid,
            process,
            comm: Comm::new(comm),
            cpu,
            flags,
            time_ns: time.ns,
            is_perf,
            is_rounded: time.is_rounded,
            is_threadless: who.is_empty(),
        },
        rest,
        is_preceded: comm.trim_ascii().len() > LONGEST_COMM,
    })
}

/// Whether a text holds the time of an event: after another event, two lines were run together.
pub(super) fn has_time(text: &[u8]) -> bool {
    find_time(text).is_some()
}

/// Text after the time of a line that has the form of an event, but whose time is a whole number: ticks of a
/// processor's clock, or of another of unknown speed.
pub(super) fn after_ticks(line: &[u8]) -> Option<&[u8]> {
    let text = &line[..line.len().min(LATEST)];
    let colons = (1..text.len().saturating_sub(1)).filter(|&at| text[at..].starts_with(b": "));
    colons.into_iter().find_map(|at| {
        let start = text[..at].iter().rposition(|byte| !byte.is_ascii_digit());
        let start = start.map_or(0, |before| before + 1);
        let is_number = at - start >= 6 && (start == 0 || text[start - 1] == b' ');
        let (_, _, who) = place(text[..start].trim_ascii_end()).filter(|_| is_number)?;
        let rest = line[at + 1..].trim_ascii_start();
        let is_event = thread(who).is_some() || (who.is_empty() && rest.starts_with(b"kvm"));
        is_event.then_some(rest)
    })
}

struct Time {
    ns: u64,
    is_rounded: bool,
    /// The bytes that it takes, with its colon.
    start: usize,
    end: usize,
}

/// The first time in a text: ` 12.345678:`, with six digits or nine.
fn find_time(text: &[u8]) -> Option<Time> {
    let mut from = 0;
    while let Some(found) = text[from..].iter().position(|byte| *byte == b'.') {
        let point = from + found;
        from = point + 1;
        let digits = number::digits(&text[from..]);
        let end = from + digits;
        let is_rounded = digits == 6;
        if !(is_rounded || digits == 9) || text.get(end) != Some(&b':') {
            continue;
        }
        let start = text[..point]
            .iter()
            .rposition(|byte| !byte.is_ascii_digit())
            .map_or(0, |before| before + 1);
        if start > 0 && !text[start - 1].is_ascii_whitespace() {
            continue;
        }
        let whole = number::decimal(&text[start..point]);
        let part = number::decimal(&text[from..end]);
        let scale = if is_rounded { 1000 } else { 1 };
        let ns = whole
            .zip(part)
            .and_then(|(whole, part)| whole.checked_mul(1_000_000_000)?.checked_add(part * scale));
        if let Some(ns) = ns {
            let end = end + 1;
            return Some(Time {
                ns,
                is_rounded,
                start,
                end,
            });
        }
    }
    None
}

/// CPU and flags at the end of a text, and what stands before them.
fn place(text: &[u8]) -> Option<(Option<u32>, Option<u8>, &[u8])> {
    if text.ends_with(b"]") {
        let (cpu, who) = bracketed(text)?;
        return Some((Some(cpu), None, who));
    }
    let (before, last) = last_word(text);
    if before.ends_with(b"]")
        && let Some(flags) = flags(last)
    {
        let (cpu, who) = bracketed(before)?;
        return Some((Some(cpu), Some(flags), who));
    }
    // The latency format glues the CPU to the flags: `0d.h2.`.
    let (cpu, glued) = last.split_at(number::digits(last));
    if !cpu.is_empty()
        && !before.is_empty()
        && let Some(flags) = flags(glued)
    {
        return Some((Some(cpu_of(cpu)?), Some(flags), before));
    }
    Some((None, None, text))
}

fn bracketed(text: &[u8]) -> Option<(u32, &[u8])> {
    let open = text.iter().rposition(|byte| *byte == b'[')?;
    let cpu = cpu_of(&text[open + 1..text.len() - 1])?;
    Some((cpu, text[..open].trim_ascii_end()))
}

fn cpu_of(text: &[u8]) -> Option<u32> {
    let cpu = number::decimal(text).filter(|cpu| *cpu <= LARGEST_CPU)?;
    u32::try_from(cpu).ok()
}

/// `TRACE_FLAG_HARDIRQ`, `TRACE_FLAG_SOFTIRQ` and `TRACE_FLAG_NMI` out of the third letter of the
/// latency columns (`trace_print_lat_fmt`, `kernel/trace/trace_output.c`).
fn flags(text: &[u8]) -> Option<u8> {
    use haltwise_core::decode::waker::{HARDIRQ, NMI, SOFTIRQ};

    let is_flag = |byte: &u8| byte.is_ascii_alphanumeric() || b".#+-!*@$".contains(byte);
    let good = (3..=8).contains(&text.len()) && !text[0].is_ascii_digit();
    if !good || !text.iter().all(is_flag) {
        return None;
    }
    Some(match text[2] {
        b'Z' => NMI | HARDIRQ,
        b'z' => NMI,
        b'H' => HARDIRQ | SOFTIRQ,
        b'h' => HARDIRQ,
        b's' => SOFTIRQ,
        _ => 0,
    })
}

/// Whether perf printed the thread at the end of a text, its name, number and process.
fn thread(text: &[u8]) -> Option<(bool, &[u8], Option<Tid>, Process)> {
    // ftrace with record-tgid: `comm-pid (   tgid)`.
    if text.ends_with(b")") {
        let open = text.iter().rposition(|byte| *byte == b'(')?;
        let inner = text[open + 1..text.len() - 1].trim_ascii();
        let process = if !inner.is_empty() && inner.iter().all(|byte| *byte == b'-') {
            Process::NotKnown
        } else {
            Process::Is(Pid(tid_of(inner)?.0))
        };
        let (comm, tid) = dashed(text[..open].trim_ascii_end())?;
        return Some((false, comm, Some(tid), process));
    }
    let (before, last) = last_word(text);
    if let Some(slash) = last.iter().position(|byte| *byte == b'/')
        && let (Some(pid), Some(tid)) = (tid_of(&last[..slash]), tid_of(&last[slash + 1..]))
    {
        return Some((true, before, Some(tid), Process::Is(Pid(pid.0))));
    }
    if let Some(tid) = tid_of(last) {
        return Some((true, before, Some(tid), Process::NotPrinted));
    }
    if before.ends_with(b":-1") && (last == b"-1" || last == b"-1/-1") {
        return Some((true, before, None, Process::NotKnown));
    }
    let (comm, tid) = dashed(text)?;
    Some((false, comm, Some(tid), Process::NotPrinted))
}

fn dashed(text: &[u8]) -> Option<(&[u8], Tid)> {
    let dash = text.iter().rposition(|byte| *byte == b'-')?;
    Some((&text[..dash], tid_of(&text[dash + 1..])?))
}

fn tid_of(text: &[u8]) -> Option<Tid> {
    let tid = number::decimal(text).filter(|tid| *tid <= LARGEST_TID)?;
    u32::try_from(tid).ok().map(Tid)
}

/// Text before the last word, and the last word.
fn last_word(text: &[u8]) -> (&[u8], &[u8]) {
    let blank = text.iter().rposition(u8::is_ascii_whitespace);
    let (before, last) = text.split_at(blank.map_or(0, |at| at + 1));
    (before.trim_ascii_end(), last)
}
