//! A recording that may go on for ever: segments, each a capture, of which the oldest are dropped.

use std::collections::VecDeque;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, anyhow};
use haltwise_capture::capture::Capture;
use haltwise_capture::error::CaptureWriteError;
use haltwise_capture::files::Directory;
use haltwise_capture::info::{CaptureInfo, Dropped, Summary};
use haltwise_capture::note::Note;
use haltwise_capture::recording::{Ending, Recording};
use haltwise_capture::ring::{Kept, RingInfo, Segment, all_segments};
use haltwise_host::clock;
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::terminal;

/// Number of segments of a full ring: at most one segment more, or less, than requested is kept.
const PARTS: u64 = 12;

/// No segment is shorter, so that a ring of seconds is no ring of moments.
const SHORTEST: Duration = Duration::from_secs(1);

/// So much is left free on the file system: a twentieth of it, and no more than this.
const FREE_BYTES: u64 = 1 << 30;
const FREE_SHARE: u64 = 20;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) keep: Duration,
    pub(crate) most_bytes: u64,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct RingSummary {
    pub(crate) segments: usize,
    pub(crate) bytes: u64,
    /// Data dropped since the ring was made.
    pub(crate) dropped: Dropped,
    /// VMs that this recorder saw, that ended, and of which nothing is kept: captures do not list them.
    pub(crate) vms_dropped: usize,
}

#[derive(Debug)]
pub(crate) struct Ring {
    directory: Directory,
    limits: Limits,
    info: RingInfo,
    pub(super) current: Segment,
    began_ns: u64,
    /// Segments that count and have ended, the oldest first: each is read once.
    kept: VecDeque<Kept>,
    /// Segments of which tables are still being made, the oldest first.
    ending: VecDeque<(u64, JoinHandle<Result<Summary, CaptureWriteError>>)>,
}

impl Ring {
    pub(super) fn open(path: &Path, limits: Limits) -> Result<Self, Failure> {
        let context = || format!("write {}", path.display());
        let directory = Directory::make(path).with_context(context)?;
        let info = RingInfo::read(path);
        if info.is_none() && !directory.is_empty().with_context(context)? {
            let error = anyhow!("{}: it is neither empty nor a ring of captures", context());
            return Err(Failure::new(Exit::Failed, error).hint(
                "name a directory that does not exist yet, or that an earlier --keep has made",
            ));
        }
        let mut info = info.unwrap_or_default();
        let segments = all_segments(path).with_context(context)?;
        if let Some(newest) = segments.last() {
            let is_live = |capture: &Capture| capture.notes().contains(&Note::StillRecording);
            if Capture::open(&newest.path).is_ok_and(|capture| is_live(&capture)) {
                let error = anyhow!("{}: a recorder is writing to it", context());
                return Err(
                    Failure::new(Exit::Failed, error).hint("end it, or name another directory")
                );
            }
        }
        info.first = segments
            .last()
            .map_or(1, |newest| newest.number.saturating_add(1))
            .max(info.oldest);
        let mut kept = VecDeque::new();
        for segment in segments {
            if segment.number < info.oldest {
                directory
                    .remove_directory(&segment.name())
                    .with_context(context)?;
            } else {
                kept.push_back(Kept::read(segment));
            }
        }
        info.write(&directory).with_context(context)?;
        Ok(Self {
            current: Segment::of(path, info.first),
            directory,
            limits,
            info,
            began_ns: clock::monotonic_ns(),
            kept,
            ending: VecDeque::new(),
        })
    }

    /// By the ring's descriptor: its name may lead elsewhere by now.
    pub(super) fn create(
        &self,
        segment: &Segment,
        info: CaptureInfo,
    ) -> Result<Recording, CaptureWriteError> {
        let made = self.directory.make_in(&segment.name());
        let made = made.map_err(|source| CaptureWriteError::Io {
            act: "create",
            path: segment.path.clone(),
            source,
        })?;
        Recording::create_in(made, info)
    }

    pub(super) fn next(&self) -> Segment {
        Segment::of(self.directory.path(), self.current.number.saturating_add(1))
    }

    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        let elapsed = Duration::from_nanos(now_ns.saturating_sub(self.began_ns));
        let longest = self.limits.keep / u32::try_from(PARTS).unwrap_or(1);
        elapsed >= longest.max(SHORTEST)
            || elapsed >= SHORTEST && self.current.bytes() >= self.limits.most_bytes / PARTS
    }

    pub(super) fn put_off(&mut self, now_ns: u64) {
        self.began_ns = now_ns;
    }

    /// Goes on with the next segment, and makes tables of the last one meanwhile: that may take seconds, in which
    /// halts come.
    pub(super) fn turn(&mut self, last: Recording, ending: Ending, now_ns: u64) {
        let thread = std::thread::spawn(move || last.finish(ending));
        self.ending.push_back((self.current.number, thread));
        self.current = self.next();
        self.began_ns = now_ns;
    }

    /// Takes note of tables that are made; of all of them, and waits for that, at the end.
    pub(super) fn settle(&mut self, is_over: bool) {
        while let Some((number, thread)) = self.ending.pop_front() {
            if !is_over && !thread.is_finished() {
                self.ending.push_front((number, thread));
                return;
            }
            let segment = Segment::of(self.directory.path(), number);
            let error = match thread.join() {
                Ok(Ok(_)) => None,
                Ok(Err(error)) => Some(anyhow!(error)),
                Err(_) => Some(anyhow!("the thread ended early")),
            };
            if let Some(error) = error {
                terminal::say(&format!(
                    "note: {} stays as it was recorded: {error:#}",
                    segment.path.display()
                ));
            }
            self.kept.push_back(Kept::read(segment));
        }
    }

    /// From when on this recorder's halts are kept, by its clock; `None` where all of them are.
    pub(super) fn kept_since_ns(&self) -> Option<u64> {
        let first = self.info.first;
        if self.info.oldest <= first {
            return None;
        }
        let ours = self.kept.iter().find(|kept| kept.segment.number >= first);
        ours.and_then(|kept| Some(kept.clock.as_ref()?.start_monotonic_ns))
    }

    /// Drops the oldest segments until what is left is within all limits.
    pub(super) fn prune(&mut self) -> std::io::Result<()> {
        self.settle(false);
        let path = self.directory.path().to_owned();
        let ending = self.ending.iter();
        let written: u64 = ending
            .map(|(number, _)| Segment::of(&path, *number).bytes())
            .chain([self.current.bytes()])
            .sum();
        let mut kept_bytes: u64 = self.kept.iter().map(|kept| kept.bytes).sum();
        while let Some(oldest) = self.kept.front() {
            let age = |end| Duration::from_nanos(clock::wall_ns().saturating_sub(end));
            let is_old = oldest
                .until_unix_ns
                .is_none_or(|end| age(end) > self.limits.keep);
            let is_within = kept_bytes.saturating_add(written) <= self.limits.most_bytes;
            if !is_old && is_within && has_room(&path) {
                break;
            }
            // First the description, then the files: a recorder killed in between has dropped the segment all the same.
            let info = self.info.without(oldest);
            info.write(&self.directory)?;
            self.info = info;
            kept_bytes = kept_bytes.saturating_sub(oldest.bytes);
            let gone = oldest.segment.name();
            self.kept.pop_front();
            self.directory.remove_directory(&gone)?;
        }
        Ok(())
    }

    pub(super) fn summary(&self, vms_dropped: usize) -> RingSummary {
        let mut segments = all_segments(self.directory.path()).unwrap_or_default();
        segments.retain(|it| it.number >= self.info.oldest);
        RingSummary {
            segments: segments.len(),
            bytes: segments.iter().map(Segment::bytes).sum(),
            dropped: self.info.dropped,
            vms_dropped,
        }
    }
}

impl RingSummary {
    pub(super) fn text(&self) -> String {
        let kept = format!(
            "Kept {} segments ({:.1} MB)",
            self.segments,
            self.bytes as f64 / 1e6
        );
        match self.dropped.segments {
            0 => format!("{kept}; none was dropped"),
            dropped => format!(
                "{kept}; {dropped} older ones with {} halts were dropped since the ring was made{}",
                self.dropped.halts,
                match self.vms_dropped {
                    0 => String::new(),
                    vms => format!(", and {vms} VMs that had ended with them"),
                }
            ),
        }
    }
}

/// Whether the file system has room; where it does not say, it has.
fn has_room(path: &Path) -> bool {
    rustix::fs::statvfs(path).map_or(true, |found| {
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        is_enough(bytes(found.f_bavail), bytes(found.f_blocks))
    })
}

fn is_enough(free_bytes: u64, all_bytes: u64) -> bool {
    free_bytes >= FREE_BYTES.min(all_bytes / FREE_SHARE)
}

/// `2G`, `500M`, `1048576`: bytes, in powers of 1024.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit {
        "" => 0,
        "K" | "k" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err("expected a size like 500M or 2G".to_owned()),
    };
    let number: u64 = number
        .parse()
        .map_err(|_| "expected a size like 500M or 2G".to_owned())?;
    let bytes = number
        .checked_mul(1 << shift)
        .ok_or("the size is too large")?;
    if bytes < 1 << 20 {
        return Err("must be at least 1M".to_owned());
    }
    Ok(bytes)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_twentieth_is_left_free_and_a_gibibyte_is_enough() {
        let (gib, tib) = (1 << 30, 1 << 40);
        for (free, all, is_room) in [
            (gib, tib, true),
            (gib - 1, tib, false),
            (gib, 20 * gib, true),
            (gib / 2, 10 * gib, true),
            (gib / 2 - 1, 10 * gib, false),
            (0, 0, true),
        ] {
            assert_eq!(is_enough(free, all), is_room, "{free} of {all}");
        }
    }

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(bytes("2G"), Ok(2 << 30));
        assert_eq!(bytes("500M"), Ok(500 << 20));
        assert_eq!(bytes("1048576"), Ok(1 << 20));
        for wrong in ["", "G", "2X", "2.5G", "1023K", "99999999999999T", "-1M"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
