//! Messages of tools about a recording, between the events.

use super::number;

/// A line that is no event and yet of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::import) enum Notice<'a> {
    Lost {
        /// How many, where told.
        events: Option<u64>,
    },
    /// Events from before the oldest one were overwritten.
    Overwritten {
        events: u64,
        cpus: Option<u32>,
    },
    Host(About, &'a [u8]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::import) enum About {
    /// `uname -r`.
    Release,
    /// `uname -m`.
    Arch,
    Name,
    Processor,
    Cpus,
}

pub(super) fn read(line: &[u8]) -> Option<Notice<'_>> {
    let text = line.trim_ascii();
    if let Some(comment) = text.strip_prefix(b"#") {
        return of_comment(comment.trim_ascii());
    }
    if let Some(rest) = text.strip_prefix(b"CPU:") {
        let rest = rest[number::digits(rest)..].trim_ascii_start();
        return loss(rest.strip_prefix(b"[")?.strip_suffix(b"]")?);
    }
    let cpus = text.strip_prefix(b"cpus=")?;
    number::decimal(cpus).map(|_| Notice::Host(About::Cpus, cpus))
}

/// ftrace: `[LOST 12 EVENTS]`; trace-cmd: `[12 EVENTS DROPPED]`, or without the number.
fn loss(text: &[u8]) -> Option<Notice<'_>> {
    let known = [&b"LOST "[..], b""]
        .into_iter()
        .zip([&b" EVENTS"[..], b" EVENTS DROPPED"]);
    for (before, after) in known {
        if let Some(middle) = text
            .strip_prefix(before)
            .and_then(|t| t.strip_suffix(after))
        {
            let events = number::decimal(middle)?;
            return Some(Notice::Lost {
                events: Some(events),
            });
        }
    }
    (text == b"EVENTS DROPPED").then_some(Notice::Lost { events: None })
}

fn of_comment(text: &[u8]) -> Option<Notice<'_>> {
    if let Some(counts) = text.strip_prefix(b"entries-in-buffer/entries-written:") {
        let mut words = counts
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        let entries = words.next()?;
        let slash = entries.iter().position(|byte| *byte == b'/')?;
        let kept = number::decimal(&entries[..slash])?;
        let written = number::decimal(&entries[slash + 1..])?;
        let cpus = words.find_map(|word| number::decimal(word.strip_prefix(b"#P:")?));
        return Some(Notice::Overwritten {
            events: written.saturating_sub(kept),
            cpus: cpus.and_then(|cpus| u32::try_from(cpus).ok()),
        });
    }
    let colon = text.iter().position(|byte| *byte == b':')?;
    let about = match text[..colon].trim_ascii() {
        b"os release" => About::Release,
        b"arch" => About::Arch,
        b"hostname" => About::Name,
        b"cpudesc" => About::Processor,
        b"nrcpus online" => About::Cpus,
        _ => return None,
    };
    Some(Notice::Host(about, text[colon + 1..].trim_ascii()))
}

/// perf's records of losses, printed where an event's name would stand.
pub(super) fn of_event(rest: &[u8]) -> Option<Notice<'_>> {
    let text = rest.trim_ascii().strip_prefix(b"PERF_RECORD_LOST")?;
    let text = text.strip_prefix(b"_SAMPLES").unwrap_or(text);
    let count = text.trim_ascii().strip_prefix(b"lost ")?;
    let events = number::decimal(count);
    Some(Notice::Lost { events })
}
