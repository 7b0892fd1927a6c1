//! `capture.json`: who recorded what, where and how.
//!
//! It is small, written whole each time it changes, and replaced in one step. Fields that a newer
//! writer of the same schema adds are ignored; a newer schema is refused.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use arrow_array::temporal_conversions::timestamp_ms_to_datetime;
use haltwise_core::event::Knob;
use haltwise_core::exit::Recorded;
use haltwise_core::profile;
use haltwise_core::recording::{Missing, Mode, Overhead, Roster, Rung, Side};
use haltwise_core::replay::calibration::written::Written;
use haltwise_core::verify::carried::Carried;
use serde::{Deserialize, Deserializer, Serialize};

use crate::files::directory::DirectoryId;
use crate::sums::Sums;
use crate::table::Table;

/// The schema that this code writes, and the newest that it reads.
pub const SCHEMA: u32 = 1;

pub(crate) const FILE: &str = "capture.json";

/// The largest `capture.json` that is read, in bytes: 100,000 VMs of one vCPU take 45 MB.
pub(crate) const MAX_BYTES: u64 = 256 << 20;

/// Contents of `capture.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaptureInfo {
    /// Schema of the whole capture.
    pub schema: u32,
    /// Whether the recording has ended.
    pub state: State,
    pub tool: Tool,
    pub host: Host,
    /// When, and how the tables' clock relates to the calendar.
    pub clock: Clock,
    /// Where the facts came from.
    pub rung: Rung,
    /// Side of the halts: those of a host's VMs, or this machine's own idle CPUs.
    #[serde(default, skip_serializing_if = "Side::is_host")]
    pub side: Side,
    pub mode: Mode,
    /// The recorder's command line.
    #[serde(default)]
    pub command: Vec<String>,
    /// Data that this recording cannot hold, and why.
    #[serde(default)]
    pub missing: Vec<Missing>,
    /// Settings in force at the start; later ones are in the table `knobs`.
    #[serde(default)]
    pub knobs: Vec<Knob>,
    /// Cost of a sleep and a wake-up on this host, where the cost was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Box<Written>>,
    /// VMs and vCPUs seen so far.
    #[serde(default)]
    pub roster: Roster,
    /// Events lost in all, by place; known when the recording has ended.
    #[serde(default)]
    pub lost: BTreeMap<String, u64>,
    /// Cost of the recorder; known when the recording has ended.
    #[serde(default)]
    pub overhead: Option<Overhead>,
    #[serde(default)]
    pub ended: Option<Ended>,
    /// Outcome of a recording that its recorder did not end.
    #[serde(default)]
    pub cut: Option<Cut>,
    /// Rows and bytes of each Parquet table; known when the recording has ended.
    #[serde(default)]
    pub tables: BTreeMap<String, TableSize>,
    /// Checksums of the Parquet tables; known when the recording has ended. Older captures have none.
    #[serde(default)]
    pub checksums: BTreeMap<String, Sums>,
    /// Data that was damaged and is missing, by table, when the capture was made of another by `repair`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub repaired: BTreeMap<String, Repaired>,
    /// How exits were recorded; `None` if they were not.
    #[serde(default)]
    pub exits: Option<Recorded>,
    /// How samples were recorded; `None` if they were not.
    #[serde(default)]
    pub profile: Option<profile::Recorded>,
    /// Which changes of later kernels the recorded one carries, found out from its halts when the recording
    /// had ended. `None` where its number leaves nothing open, where no program looked, and where a newer writer
    /// found some that are not known here.
    #[serde(
        default,
        deserialize_with = "if_known",
        skip_serializing_if = "Option::is_none"
    )]
    pub carried: Option<Carried>,
}

fn if_known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Carried>, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).ok())
}

impl CaptureInfo {
    /// Information at the start of a recording. The other fields are public: fill in the known fields.
    pub fn new(tool: Tool, host: Host, clock: Clock, rung: Rung, mode: Mode) -> Self {
        Self {
            schema: SCHEMA,
            state: State::Recording,
            tool,
            host,
            clock,
            rung,
            side: Side::Host,
            mode,
            command: Vec::new(),
            missing: Vec::new(),
            knobs: Vec::new(),
            price: None,
            roster: Roster::default(),
            lost: BTreeMap::new(),
            overhead: None,
            ended: None,
            cut: None,
            tables: BTreeMap::new(),
            checksums: BTreeMap::new(),
            repaired: BTreeMap::new(),
            exits: None,
            profile: None,
            carried: None,
        }
    }
}

/// The place of rows of a table that the disk did not take.
pub(crate) fn refused(table: Table) -> String {
    format!("disk refused rows of table {table}")
}

/// Whether a recording has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Not ended: streams grow, or were cut.
    Recording,
    /// Ended: every table is Parquet.
    Complete,
}

/// A program and its version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    pub name: String,
    pub version: String,
}

/// The machine that was watched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// `uname -r`.
    pub kernel_release: String,
    /// `uname -m`.
    pub arch: String,
    /// The CPU's name, where known.
    #[serde(default)]
    pub cpu_model: Option<String>,
    pub cpus: u32,
    /// Its name, where it may be kept.
    #[serde(default)]
    pub hostname: Option<String>,
}

/// One moment on both clocks: every `…_ns` time of the tables is `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// Start of the recording on `CLOCK_MONOTONIC`.
    pub start_monotonic_ns: u64,
    /// The same moment, in nanoseconds since 1970 (UTC).
    pub start_unix_ns: u64,
    /// The same once more, for people (RFC 3339). Not read back.
    #[serde(default)]
    pub start_utc: String,
}

impl Clock {
    /// A moment read from both clocks.
    pub fn new(start_monotonic_ns: u64, start_unix_ns: u64) -> Self {
        Self {
            start_monotonic_ns,
            start_unix_ns,
            start_utc: rfc3339(start_unix_ns),
        }
    }

    /// A time of a table in nanoseconds since 1970, if it lies in the range of that scale.
    pub fn unix_ns(&self, monotonic_ns: u64) -> Option<u64> {
        let unix = i128::from(monotonic_ns) - i128::from(self.start_monotonic_ns)
            + i128::from(self.start_unix_ns);
        u64::try_from(unix).ok()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// When, on the tables' clock.
    pub time_ns: u64,
    /// By what, for example `SIGINT`, `duration`, `command ended`.
    pub by: String,
}

/// Outcome of a recording that its recorder did not end.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cut {
    /// Bytes at the end of each stream that were no whole batch.
    #[serde(default)]
    pub torn_bytes: BTreeMap<String, u64>,
}

/// Data missing from a table because of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Repaired {
    /// Rows, as far as they could be counted.
    #[serde(default)]
    pub rows: u64,
    /// Bytes of streams.
    #[serde(default)]
    pub bytes: u64,
}

/// How large a table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TableSize {
    pub rows: u64,
    /// Bytes of its file.
    pub bytes: u64,
}

/// Segments that a ring no longer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Dropped {
    pub segments: u64,
    /// Their halts, as far as they are known.
    pub halts: u64,
    pub bytes: u64,
    /// When the last of them began, in nanoseconds since 1970.
    pub until_unix_ns: u64,
}

/// Contents of a finished capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    pub directory: PathBuf,
    /// Which one that is, whatever its path leads to by now.
    pub id: DirectoryId,
    /// Rows and bytes of each table, by its name.
    pub tables: BTreeMap<String, TableSize>,
    /// Events lost in all, by place.
    pub lost: BTreeMap<String, u64>,
}

/// Text before the checksum of `capture.json` itself, its last field.
const SEAL: &[u8] = b",\n  \"crc32\": \"";
const END: &[u8] = b"\"\n}\n";

/// The text of `capture.json`: its last field is the checksum of all before it.
pub(crate) fn text(info: &CaptureInfo) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(info)?;
    // The end of the object, which the last field puts off.
    text.truncate(text.len().saturating_sub(2));
    let sum = crc32fast::hash(&text);
    text.extend(SEAL);
    text.extend(format!("{sum:08x}").as_bytes());
    text.extend(END);
    Ok(text)
}

/// Whether a `capture.json` is as it was written, by its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intact {
    Yes,
    No,
    /// It has no checksum.
    Unknown,
}

/// Holds the bytes of a `capture.json` against its checksum.
pub(crate) fn intact(bytes: &[u8]) -> Intact {
    #[derive(Deserialize)]
    struct OnlySum {
        crc32: Option<serde::de::IgnoredAny>,
    }
    let found = bytes.strip_suffix(END).and_then(|rest| {
        let (rest, sum) = rest.split_last_chunk::<8>()?;
        Some((rest.strip_suffix(SEAL)?, sum))
    });
    match found {
        Some((before, sum)) if format!("{:08x}", crc32fast::hash(before)).as_bytes() == sum => {
            Intact::Yes
        }
        Some(_) => Intact::No,
        None => match serde_json::from_slice::<OnlySum>(bytes) {
            Ok(OnlySum { crc32: None }) => Intact::Unknown,
            _ => Intact::No,
        },
    }
}

/// A time as RFC 3339 in UTC, to the millisecond.
pub fn rfc3339(unix_ns: u64) -> String {
    timestamp_ms_to_datetime((unix_ns / 1_000_000).cast_signed())
        // 64 bits of nanoseconds end in the year 2554.
        .unwrap_or_default()
        .format("%Y-%m-%dT%H:%M:%S%.3fZ")
        .to_string()
}

#[cfg(test)]
pub(crate) fn example(clock: Clock, rung: Rung) -> CaptureInfo {
    let tool = Tool {
        name: "haltwise".into(),
        version: "0".into(),
    };
    let host = Host {
        kernel_release: "6.12".into(),
        arch: "x86_64".into(),
        cpu_model: None,
        cpus: 2,
        hostname: None,
    };
    CaptureInfo::new(tool, host, clock, rung, Mode::Full)
}

#[cfg(test)]
mod test {
    use std::path::Path;

    use super::*;
    use crate::capture::parse;

    #[test]
    fn calendar_times_as_date_prints_them() {
        // date -u -d @N +%FT%T
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (951_868_800, "2000-03-01T00:00:00.000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000Z"),
            (1_735_689_600, "2025-01-01T00:00:00.000Z"),
            (4_107_542_399, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(seconds * 1_000_000_000), text);
        }
        assert_eq!(rfc3339(1_999_999_999), "1970-01-01T00:00:01.999Z");
    }

    #[test]
    fn a_changed_capture_json_is_noticed_whatever_was_changed() {
        let (info, path) = (example(Clock::new(5, 7), Rung::Bpf), Path::new(FILE));
        let whole = text(&info).unwrap();
        assert_eq!(intact(&whole), Intact::Yes);
        assert_eq!(parse(&whole, path).unwrap(), info);
        for bit in 0..whole.len() * 8 {
            let mut other = whole.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            // A checksum under another name is none; nothing else changed then.
            let noticed = parse(&other, path).is_err() || intact(&other) == Intact::No;
            assert!(noticed || parse(&other, path).unwrap() == info, "bit {bit}");
        }
        let value: serde_json::Value = serde_json::from_slice(&whole).unwrap();
        let elsewhere = serde_json::to_vec(&value).unwrap();
        assert_eq!(intact(&elsewhere), Intact::No, "rewritten");
        let without = serde_json::to_vec_pretty(&info).unwrap();
        assert_eq!(intact(&without), Intact::Unknown);
    }

    #[test]
    fn both_clocks_meet() {
        let clock = Clock::new(5_000, 1_000_000);
        assert_eq!(clock.unix_ns(5_001), Some(1_000_001));
        assert_eq!(clock.unix_ns(0), Some(995_000));
        assert_eq!(Clock::new(10, 5).unix_ns(0), None);
    }
}
