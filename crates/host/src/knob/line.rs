//! The bytes of the journal: JSON lines, each with a checksum that goes on from the one before.
//!
//! A line is `{"sum":"1c291ca3","entry":{…}}`. The sum is a CRC-32 over the sum of the line before
//! (eight digits, `00000000` for the first line) and the text of the entry, so that a line which is
//! changed, taken out, or moved shows. The only damage that a crash can do is a last line without its
//! end: [`read`] says how long it is and reads on without it. Everything else is an error.

use super::entry::Entry;

const HEAD: &str = "{\"sum\":\"";
const MIDDLE: &str = "\",\"entry\":";
const TAIL: &str = "}";

/// The sum before the first line.
pub(super) const FIRST_SUM: u32 = 0;

/// What a journal's bytes hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reading {
    /// All entries.
    pub(super) entries: Vec<Entry>,
    /// The last line's sum.
    pub(super) sum: u32,
    /// Length of all whole lines.
    pub(super) whole_bytes: u64,
    /// Length of a last line that has no end; 0 if there is none.
    pub(super) torn_bytes: u64,
}

/// A journal that cannot be trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} (at byte {at}) {what}")]
pub struct Damage {
    /// Number of the line, from 1.
    pub line: usize,
    /// Where it begins.
    pub at: usize,
    /// What is wrong with it.
    pub what: String,
}

/// The line of an entry with its end, and its sum.
pub(super) fn write(entry: &Entry, before: u32) -> Result<(String, u32), serde_json::Error> {
    let text = serde_json::to_string(entry)?;
    let sum = sum(before, &text);
    Ok((format!("{HEAD}{sum:08x}{MIDDLE}{text}{TAIL}\n"), sum))
}

/// Reads a journal.
pub(super) fn read(bytes: &[u8]) -> Result<Reading, Damage> {
    let mut reading = Reading {
        entries: Vec::new(),
        sum: FIRST_SUM,
        whole_bytes: 0,
        torn_bytes: 0,
    };
    let mut at = 0;
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let Some((b'\n', line)) = line.split_last().map(|(last, rest)| (*last, rest)) else {
            reading.torn_bytes = line.len() as u64;
            break;
        };
        let damage = |what: String| Damage {
            line: index + 1,
            at,
            what,
        };
        let (entry, sum) = read_line(line, reading.sum).map_err(damage)?;
        let expected = index as u64 + 1;
        if entry.seq != expected {
            return Err(damage(format!("has number {}, not {expected}", entry.seq)));
        }
        reading.sum = sum;
        reading.entries.push(entry);
        at += line.len() + 1;
    }
    reading.whole_bytes = at as u64;
    Ok(reading)
}

fn read_line(line: &[u8], before: u32) -> Result<(Entry, u32), String> {
    let text = str::from_utf8(line).map_err(|_| "is not UTF-8".to_owned())?;
    let shape = || "is not `{\"sum\":…,\"entry\":…}`".to_owned();
    let inner = text.strip_prefix(HEAD).and_then(|t| t.strip_suffix(TAIL));
    let (told, entry) = inner
        .and_then(|inner| inner.split_once(MIDDLE))
        .ok_or_else(shape)?;
    let sum = sum(before, entry);
    if told != format!("{sum:08x}") {
        return Err(format!(
            "has the sum {:.16}, and its text gives {sum:08x}: it, or a line before it, was changed \
             or taken out",
            told.escape_debug().to_string()
        ));
    }
    match serde_json::from_str(entry) {
        Ok(entry) => Ok((entry, sum)),
        Err(error) => Err(format!("is whole, but not understood: {error}")),
    }
}

/// CRC-32 (ISO 3309, as in Ethernet and zlib) over the sum before and the text.
fn sum(before: u32, text: &str) -> u32 {
    let before = format!("{before:08x}");
    let bytes = before.bytes().chain(text.bytes());
    !bytes.fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

#[cfg(test)]
mod test;
