//! A ring: a directory of captures, the segments, of which the oldest are dropped while a recorder goes on.
//!
//! A segment is a capture like any other. Its name ends in its number. [`FILE`] says which segments count: what is
//! older than its `oldest` has been dropped, whether its files are gone yet or not, so that a recorder may be killed at
//! any moment. Segments of one recorder follow each other without a gap, and number their VMs alike: from its `first`
//! on, they are read together as one capture ([`crate::capture::Capture::open`]). Those of earlier recorders are
//! read by their own names.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::capture::Capture;
use crate::files::directory::list;
use crate::files::{self, Directory};
use crate::info::{CaptureInfo, Clock, Dropped, FILE as CAPTURE_FILE};
use crate::table::Table;

/// The file that makes a directory a ring.
pub const FILE: &str = "ring.json";

const SCHEMA: u32 = 1;

const SEGMENT: &str = "segment-";

/// The largest [`FILE`] that is read, in bytes.
const MAX_BYTES: u64 = 1 << 16;

/// Contents of [`FILE`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RingInfo {
    pub schema: u32,
    /// The oldest segment that counts.
    pub oldest: u64,
    /// The first segment of the last recorder.
    pub first: u64,
    /// Segments, halts and bytes dropped so far.
    pub dropped: Dropped,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    pub number: u64,
    pub path: PathBuf,
}

/// A segment that has ended, and what its ring has to know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub segment: Segment,
    pub bytes: u64,
    /// Its halts, as far as they are known.
    pub halts: u64,
    /// When it began; `None` where it cannot be read.
    pub clock: Option<Clock>,
    /// When it ended, in nanoseconds since 1970; when it began, where its recorder was killed.
    pub until_unix_ns: Option<u64>,
}

impl Kept {
    pub fn read(segment: Segment) -> Self {
        let capture = Capture::open(&segment.path).ok();
        let info = capture.as_ref().map(Capture::info);
        let halts = info.and_then(|info| info.tables.get(Table::Halts.as_str()));
        let until = |info: &CaptureInfo| {
            let ended = info.ended.as_ref();
            let ended = ended.and_then(|ended| info.clock.unix_ns(ended.time_ns));
            ended.unwrap_or(info.clock.start_unix_ns)
        };
        Self {
            bytes: segment.bytes(),
            halts: halts.map_or(0, |table| table.rows),
            clock: info.map(|info| info.clock.clone()),
            until_unix_ns: info.map(until),
            segment,
        }
    }
}

impl Segment {
    /// The segment of a number, whether it is there or not.
    pub fn of(ring: &Path, number: u64) -> Self {
        Self {
            number,
            path: ring.join(name(number)),
        }
    }

    /// Name of the segment's directory.
    pub fn name(&self) -> String {
        name(self.number)
    }

    pub fn bytes(&self) -> u64 {
        let files = list(&self.path).unwrap_or_default();
        files.iter().map(|(_, bytes)| bytes).sum()
    }
}

fn name(number: u64) -> String {
    format!("{SEGMENT}{number:06}")
}

impl RingInfo {
    /// Reads it; `None` where the directory is no ring, or its file cannot be read.
    pub fn read(ring: &Path) -> Option<Self> {
        let file = files::open_member(&ring.join(FILE)).ok()?;
        let mut text = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut text).ok()?;
        let info: Self = serde_json::from_slice(&text).ok()?;
        (info.schema == SCHEMA).then_some(info)
    }

    /// Writes it in one step.
    pub fn write(&self, ring: &Directory) -> std::io::Result<()> {
        let info = Self {
            schema: SCHEMA,
            ..self.clone()
        };
        let text = serde_json::to_vec_pretty(&info).map_err(std::io::Error::other)?;
        ring.replace(FILE, &text)
    }

    /// The same with another segment dropped.
    #[must_use]
    pub fn without(&self, kept: &Kept) -> Self {
        let mut info = self.clone();
        info.oldest = kept.segment.number.saturating_add(1);
        let began = kept.clock.as_ref().map_or(0, |clock| clock.start_unix_ns);
        let dropped = &mut info.dropped;
        dropped.segments = dropped.segments.saturating_add(1);
        dropped.halts = dropped.halts.saturating_add(kept.halts);
        dropped.bytes = dropped.bytes.saturating_add(kept.bytes);
        dropped.until_unix_ns = dropped.until_unix_ns.max(began);
        info
    }
}

/// All segments that are there by number, those that were dropped too.
pub fn all_segments(ring: &Path) -> std::io::Result<Vec<Segment>> {
    let mut found = Vec::new();
    for (name, _) in list(ring)? {
        let number = name.to_str().and_then(|name| name.strip_prefix(SEGMENT));
        let number = number.and_then(|number| number.parse().ok());
        found.extend(number.map(|number| Segment::of(ring, number)));
    }
    found.sort_by_key(|segment| segment.number);
    Ok(found)
}

/// The segments of the last recorder, and what is known of the ring; `None` where the directory is no ring. The newest
/// may be one that has not got its `capture.json` yet: it is left out.
pub fn last_recording(ring: &Path) -> Option<(RingInfo, Vec<Segment>)> {
    let info = RingInfo::read(ring)?;
    let mut segments = all_segments(ring).ok()?;
    let from = info.first.max(info.oldest);
    segments.retain(|it| it.number >= from && it.path.join(CAPTURE_FILE).is_file());
    Some((info, segments))
}
