//! Writing a capture while it is recorded.
//!
//! A disk that is full or fails does not end a recording: see [`Recording::record`].
//!
//! Not here: turning streams into Parquet, which is [`crate::convert`], and reading.

mod backlog;
mod last;
#[cfg(test)]
mod simulation;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use haltwise_core::event::{
    Facts, Halt, HaltCounts, HostSample, IdleState, Knob, Lost, WindowChange,
};
use haltwise_core::exit::Exits;
use haltwise_core::ids::{Tid, VcpuId, VmIndex};
use haltwise_core::profile::{Frame, Rows, Sample, Stack, Thread};
use haltwise_core::recording::{Missing, Overhead, Roster};

use self::backlog::{Backlog, Waited, wait};
use crate::convert::{self, Place};
use crate::error::CaptureWriteError;
use crate::files::Directory;
use crate::files::directory::DirectoryId;
use crate::files::disk::Asked;
use crate::info::{self, CaptureInfo, Ended, FILE, SCHEMA, State, TableSize};
use crate::spare::{self, Spare};
use crate::stream::TableStream;
use crate::table::Table;
use crate::tables::Row;

/// A capture that is being written.
///
/// Dropped without [`Recording::finish`], it stays as a capture that was cut: readable as it is.
#[derive(Debug)]
pub struct Recording {
    directory: Directory,
    info: CaptureInfo,
    halts: TableStream,
    windows: TableStream,
    counts: TableStream,
    knobs: TableStream,
    host: TableStream,
    lost: TableStream,
    /// Made with the first row, where there is cpuidle.
    idle_states: Option<TableStream>,
    /// Made with the first exits.
    exits: Option<TableStream>,
    /// Made with the first samples: frames, stacks, threads, samples.
    profile: Option<[TableStream; 4]>,
    order: StartOrder,
    /// Rows that could not be appended, by table.
    refused: BTreeMap<Table, u64>,
    backlog: Backlog,
    /// Whether `capture.json` says less than is known.
    is_behind: bool,
    /// Whether the last flush was not written whole.
    falls_short: bool,
    /// Room for the last word.
    spare: Spare,
}

/// What became of a flush.
#[derive(Debug)]
pub enum Flush {
    /// All of it was written, or was not by an earlier failure that was reported then.
    Same,
    /// From now on not everything is written, for this reason.
    Fails(CaptureWriteError),
    /// Everything is written again, what had waited too. Halts whose rows are not written, in all.
    Recovered { halts: u64 },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Ending {
    pub ended: Ended,
    /// Events lost in all, by place.
    pub lost: BTreeMap<String, u64>,
    /// What the recorder cost.
    pub overhead: Option<Overhead>,
}

/// What a finished capture holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    pub directory: PathBuf,
    /// Which one that is, whatever its path leads to by now.
    pub id: DirectoryId,
    /// Rows and bytes of each table, by its name.
    pub tables: BTreeMap<String, TableSize>,
    /// Halts that stand after a later halt of the same vCPU.
    pub halts_out_of_order: u64,
    /// Events lost in all, by place.
    pub lost: BTreeMap<String, u64>,
}

impl Recording {
    /// Starts a capture in a directory that is empty or does not exist yet.
    pub fn create(directory: &Path, info: CaptureInfo) -> Result<Self, CaptureWriteError> {
        Self::create_on(directory, info, None)
    }

    fn create_on(
        directory: &Path,
        info: CaptureInfo,
        asked: Asked,
    ) -> Result<Self, CaptureWriteError> {
        let ours = Directory::make(directory).map_err(|source| CaptureWriteError::Io {
            act: "create",
            path: directory.to_owned(),
            source,
        })?;
        Self::create_in(ours.asking(asked), info)
    }

    /// The same, in a directory that is open.
    pub fn create_in(ours: Directory, info: CaptureInfo) -> Result<Self, CaptureWriteError> {
        let is_empty = ours.is_empty().map_err(|source| CaptureWriteError::Io {
            act: "list",
            path: ours.path().to_owned(),
            source,
        })?;
        if !is_empty {
            return Err(CaptureWriteError::NotEmpty {
                path: ours.path().to_owned(),
            });
        }
        let started = Self::start_in(&ours, info);
        if started.is_err() {
            // Best effort: the first error is the one that matters.
            drop(remove_all(&ours));
        }
        started.map(|recording| recording(ours))
    }

    fn start_in(
        directory: &Directory,
        mut info: CaptureInfo,
    ) -> Result<impl FnOnce(Directory) -> Self + use<>, CaptureWriteError> {
        info.schema = SCHEMA;
        info.state = State::Recording;
        let halts = TableStream::create::<Halt>(directory)?;
        // Readers see by this lock that somebody is writing; the kernel drops it with the process.
        let locked = halts.file().try_lock();
        locked.map_err(|source| CaptureWriteError::Io {
            act: "lock",
            path: directory.path().join(Table::Halts.stream_file()),
            source,
        })?;
        let windows = TableStream::create::<WindowChange>(directory)?;
        let counts = TableStream::create::<HaltCounts>(directory)?;
        let knobs = TableStream::create::<Knob>(directory)?;
        let host = TableStream::create::<HostSample>(directory)?;
        let lost = TableStream::create::<Lost>(directory)?;
        let mut spare = Spare::default();
        let text = text_of(directory, &info)?;
        keep(directory, &text, &mut spare)?;
        // Makes the names of both durable.
        replace(directory, &text)?;
        Ok(|directory| Self {
            windows,
            counts,
            knobs,
            host,
            lost,
            idle_states: None,
            exits: None,
            profile: None,
            directory,
            info,
            halts,
            order: StartOrder::default(),
            refused: BTreeMap::new(),
            backlog: Backlog::default(),
            is_behind: false,
            falls_short: false,
            spare,
        })
    }

    /// Fails if the directory or a stream is no longer where it was made: nobody would find what is written.
    /// Where the disk does not say, it goes on.
    fn must_be_there(&self) -> Result<(), CaptureWriteError> {
        if self.is_gone() {
            return Err(CaptureWriteError::Removed {
                path: self.directory.path().to_owned(),
            });
        }
        self.streams()
            .try_for_each(|stream| stream.must_be_in(&self.directory))
    }

    /// Appends what one flush brought. When this returns, the kernel has it.
    ///
    /// Halts are put in order of their start first. Every table is tried, and the first error is
    /// returned: of rows that were refused, halts are kept as counts, and others are tried again or counted
    /// as lost. The next flush may succeed, unless the error is [`CaptureWriteError::Removed`].
    pub fn append(&mut self, facts: &Facts) -> Result<(), CaptureWriteError> {
        self.must_be_there()?;
        match self.write(facts, true) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Appends what one flush of a recording brought that goes on whatever the disk does.
    ///
    /// Where rows cannot be written, halts go on as counts of each vCPU and second, which are written before
    /// the first rows that can be again; what else can wait does, and the rest is counted as lost. Writing is
    /// tried again with later flushes. The only errors are those after which nobody would find the capture.
    pub fn record(&mut self, facts: &Facts) -> Result<Flush, CaptureWriteError> {
        self.must_be_there()?;
        let failed = self.write(facts, false);
        let fell_short = self.falls_short;
        self.falls_short = failed.is_some() || fell_short && self.waits();
        Ok(match failed {
            Some(error) if !fell_short => Flush::Fails(error),
            None if fell_short && !self.falls_short => Flush::Recovered {
                halts: self.refused.get(&Table::Halts).copied().unwrap_or(0),
            },
            _ => Flush::Same,
        })
    }

    /// Writes what it can; gives back the first failure. `now`: also where it failed just before.
    fn write(&mut self, facts: &Facts, now: bool) -> Option<CaptureWriteError> {
        self.backlog.begin();
        let mut halts = Cow::Borrowed(&facts.halts);
        if !halts.is_sorted_by_key(|halt| halt.start_ns) {
            halts.to_mut().sort_by_key(|halt| halt.start_ns);
        }
        let (written, failed) = self.halts.offer(&halts, now);
        let (written, refused) = halts.split_at(written);
        for halt in written {
            self.order.see(halt);
        }
        for halt in refused {
            self.backlog.count(halt);
            self.backlog.lose(Table::Halts, 1, halt.end_ns());
        }
        self.refuse(Table::Halts, refused.len());
        let mut failures = vec![failed];
        let (written, failed) = self.windows.offer(&facts.windows, now);
        for change in &facts.windows[written..] {
            self.backlog.lose(Table::WindowChanges, 1, change.time_ns);
        }
        self.refuse(Table::WindowChanges, facts.windows.len() - written);
        failures.push(failed);
        failures.push(self.write_counts(&facts.counts, now));
        let waiting = &mut self.backlog.waiting;
        let waits = [
            wait(Some(&mut self.knobs), &mut waiting.knobs, &facts.knobs, now),
            wait(Some(&mut self.host), &mut waiting.host, &facts.host, now),
        ];
        self.take_waits(waits, &mut failures);
        failures.push(self.write_idle_states(&facts.idle_states, now));
        failures.push(self.write_exits(&facts.exits, now));
        failures.push(self.write_profile(&facts.profile, now));
        // Last, so that it holds what the tables before have lost.
        failures.push(self.write_lost(&facts.lost, now));
        if self.is_behind {
            failures.push(self.catch_up().err());
        }
        failures.into_iter().flatten().next()
    }

    /// Counts rows that are not written and not tried again.
    fn refuse(&mut self, table: Table, rows: usize) {
        if rows > 0 {
            *self.refused.entry(table).or_default() += rows as u64;
        }
    }

    fn take_waits(
        &mut self,
        waits: impl IntoIterator<Item = Waited>,
        failures: &mut Vec<Option<CaptureWriteError>>,
    ) {
        for Waited {
            table,
            dropped,
            failed,
        } in waits
        {
            self.refuse(table, dropped);
            failures.push(failed);
        }
    }

    /// Whether something was not written that can be later.
    fn waits(&self) -> bool {
        self.is_behind || self.backlog.waits()
    }

    /// Counts of intervals that are over go first.
    fn write_counts(&mut self, rows: &[HaltCounts], now: bool) -> Option<CaptureWriteError> {
        let mut counts = self.backlog.take_counts(now);
        counts.extend_from_slice(rows);
        let (written, failed) = self.counts.offer(&counts, now);
        for row in &counts[written..] {
            self.backlog.keep(row);
        }
        failed
    }

    /// Losses of intervals that are over go with those of this flush.
    fn write_lost(&mut self, rows: &[Lost], now: bool) -> Option<CaptureWriteError> {
        let mut lost = self.backlog.take_losses(now);
        lost.extend_from_slice(rows);
        let waiting = &mut self.backlog.waiting.lost;
        // Where too many wait nothing is lost with them: they are in the sums of `capture.json` too.
        wait(Some(&mut self.lost), waiting, &lost, now).failed
    }

    /// Not every machine has cpuidle: a recording without these rows has no table of them either.
    fn write_idle_states(&mut self, rows: &[IdleState], now: bool) -> Option<CaptureWriteError> {
        let waiting = &mut self.backlog.waiting.idle_states;
        let has_rows = !(rows.is_empty() && waiting.is_empty());
        let made = make::<IdleState>(&mut self.idle_states, has_rows, &self.directory);
        let waited = wait(self.idle_states.as_mut(), waiting, rows, now);
        self.refuse(Table::IdleStates, waited.dropped);
        made.err().or(waited.failed)
    }

    /// Few recordings hold exits: those that do not have no table of them either.
    fn write_exits(&mut self, rows: &[Exits], now: bool) -> Option<CaptureWriteError> {
        let waiting = &mut self.backlog.waiting.exits;
        let has_rows = !(rows.is_empty() && waiting.is_empty());
        let made = make::<Exits>(&mut self.exits, has_rows, &self.directory);
        let waited = wait(self.exits.as_mut(), waiting, rows, now);
        self.refuse(Table::Exits, waited.dropped);
        made.err().or(waited.failed)
    }

    /// What samples point to goes first, so that a capture that was cut holds it too.
    fn write_profile(&mut self, rows: &Rows, now: bool) -> Option<CaptureWriteError> {
        let mut failures = Vec::new();
        if self.profile.is_none() && !(rows.is_empty() && self.backlog.waiting.profile.is_empty()) {
            match create_profile(&self.directory) {
                Ok(streams) => self.profile = Some(streams),
                Err(error) => failures.push(Some(error)),
            }
        }
        let streams = self.profile.as_mut().map(<[TableStream; 4]>::each_mut);
        let [frames, stacks, threads, samples] = match streams {
            Some(streams) => streams.map(Some),
            None => [const { None }; 4],
        };
        let waiting = &mut self.backlog.waiting.profile;
        let waits = [
            wait(frames, &mut waiting.frames, &rows.frames, now),
            wait(stacks, &mut waiting.stacks, &rows.stacks, now),
            wait(threads, &mut waiting.threads, &rows.threads, now),
        ];
        let (written, failed) =
            samples.map_or((0, None), |samples| samples.offer(&rows.samples, now));
        for sample in &rows.samples[written..] {
            self.backlog.lose(Table::Samples, 1, sample.time_ns);
        }
        self.refuse(Table::Samples, rows.samples.len() - written);
        self.take_waits(waits, &mut failures);
        failures.push(failed);
        failures.into_iter().flatten().next()
    }

    /// Writes who was seen, if that has changed.
    pub fn set_roster(&mut self, roster: &Roster) -> Result<(), CaptureWriteError> {
        if self.info.roster == *roster {
            return Ok(());
        }
        self.must_be_there()?;
        self.info.roster.clone_from(roster);
        self.update()
    }

    /// Writes what is missing from the recording, if that has changed.
    pub fn set_missing(&mut self, missing: &[Missing]) -> Result<(), CaptureWriteError> {
        if self.info.missing == missing {
            return Ok(());
        }
        self.must_be_there()?;
        missing.clone_into(&mut self.info.missing);
        self.update()
    }

    /// Writes `capture.json`; where the disk does not take it, the next flush tries again.
    fn update(&mut self) -> Result<(), CaptureWriteError> {
        match self.catch_up() {
            Err(CaptureWriteError::Io { .. }) => Ok(()),
            other => other,
        }
    }

    fn catch_up(&mut self) -> Result<(), CaptureWriteError> {
        self.is_behind = true;
        let text = text_of(&self.directory, &self.info)?;
        // Who records must not wait for a disk that is slow; the first copy is durable.
        let written = self.directory.replace_at_once(FILE, &text);
        written.map_err(not_written(&self.directory))?;
        keep(&self.directory, &text, &mut self.spare)?;
        self.is_behind = false;
        Ok(())
    }

    /// What is known so far.
    pub fn info(&self) -> &CaptureInfo {
        &self.info
    }

    /// Ends the recording: every stream becomes Parquet.
    ///
    /// On an error, as on a crash, each table is whole in one form or the other, and
    /// [`convert::convert`] may finish the work later. After [`CaptureWriteError::NotConverted`] the capture says
    /// how it ended and what was lost, too.
    pub fn finish(self, ending: Ending) -> Result<Summary, CaptureWriteError> {
        self.finish_with(ending, None)
    }

    /// The same, of a recording whose rows name threads where VMs will stand, by their places in this
    /// list: each gets its VM, and its vCPU where it lacks one.
    pub(crate) fn finish_placed(
        self,
        ending: Ending,
        places: &[Place],
    ) -> Result<Summary, CaptureWriteError> {
        self.finish_with(ending, Some(places))
    }

    fn finish_with(
        mut self,
        ending: Ending,
        places: Option<&[Place]>,
    ) -> Result<Summary, CaptureWriteError> {
        self.must_be_there()?;
        self.take_ending(ending);
        // `self.halts` keeps the lock until the end.
        let completed = convert::complete(&self.directory, &mut self.info.clone(), places);
        let source = match completed {
            // It was written, below the descriptor, but nobody finds it where it should be.
            Ok(_) if self.is_gone() => {
                let path = self.directory.path().to_owned();
                return Err(CaptureWriteError::Removed { path });
            }
            Ok(summary) => return Ok(summary),
            Err(source) if self.is_gone() => return Err(source),
            Err(source) => source,
        };
        // The first error is the one that matters. Where the capture is complete, no room is kept any more.
        match self.write_last() {
            Ok(()) => Err(CaptureWriteError::NotConverted {
                summary: Box::new(self.summary()),
                source: Box::new(source),
            }),
            Err(_) => Err(source),
        }
    }

    fn is_gone(&self) -> bool {
        self.directory.is_there().is_ok_and(|there| !there)
    }

    fn streams(&self) -> impl Iterator<Item = &TableStream> {
        let always = [
            &self.halts,
            &self.windows,
            &self.counts,
            &self.knobs,
            &self.host,
            &self.lost,
        ];
        let optional = self.idle_states.iter().chain(&self.exits);
        let streams = always.into_iter().chain(optional);
        streams.chain(self.profile.iter().flatten())
    }

    fn summary(&self) -> Summary {
        Summary {
            directory: self.directory.path().to_owned(),
            id: self.directory.id(),
            tables: self.streams().map(TableStream::size).collect(),
            halts_out_of_order: self.info.halts_out_of_order,
            lost: self.info.lost.clone(),
        }
    }

    /// Ends a recording that cannot go on, because its collector failed or otherwise: what was written stays
    /// as it is, and what was not is noted as lost, in the room that was kept for it.
    pub fn abandon(mut self, ending: Ending) -> Result<(), CaptureWriteError> {
        self.must_be_there()?;
        self.take_ending(ending);
        match self.write_last() {
            Ok(()) => Ok(()),
            // No room was kept: there may be some all the same.
            Err(_) => write_info(&self.directory, &self.info),
        }
    }

    /// Removes all of a recording that was begun for nothing, and its directory if it was made for it.
    pub fn discard(self) -> Result<(), CaptureWriteError> {
        remove_all(&self.directory).map_err(|source| CaptureWriteError::Io {
            act: "remove",
            path: self.directory.path().to_owned(),
            source,
        })
    }

    /// Writes `capture.json` in the room that was kept for it, with as much as fits.
    fn write_last(&mut self) -> Result<(), CaptureWriteError> {
        let text = last::fitted(self.info.clone(), self.spare.bytes());
        let text = text.map_err(json_error(&self.directory))?;
        let spent = self.spare.spend(&self.directory, &text);
        spent.map_err(|source| CaptureWriteError::Io {
            act: "write",
            path: self.directory.path().join(FILE),
            source,
        })
    }

    fn take_ending(&mut self, ending: Ending) {
        // What fails now is counted below.
        drop(self.write(&Facts::default(), true));
        let waiting = std::mem::take(&mut self.backlog.waiting);
        self.refuse(Table::Knobs, waiting.knobs.len());
        self.refuse(Table::HostSamples, waiting.host.len());
        self.refuse(Table::IdleStates, waiting.idle_states.len());
        self.refuse(Table::Exits, waiting.exits.len());
        self.refuse(Table::SampleFrames, waiting.profile.frames.len());
        self.refuse(Table::SampleStacks, waiting.profile.stacks.len());
        self.refuse(Table::SampleThreads, waiting.profile.threads.len());
        self.info.unwritten = self.backlog.take_counts(true);
        self.info.ended = Some(ending.ended);
        self.info.lost = ending.lost;
        for (&table, &rows) in &self.refused {
            *self.info.lost.entry(info::not_written(table)).or_default() += rows;
        }
        self.info.overhead = ending.overhead;
        self.info.halts_out_of_order = self.order.violations;
    }
}

/// Removes what a recording makes before it ends.
fn remove_all(directory: &Directory) -> std::io::Result<()> {
    for table in Table::ALL {
        directory.remove(&table.stream_file())?;
    }
    directory.remove(spare::NAME)?;
    directory.remove(FILE)?;
    directory.unmake()
}

/// Makes a table's stream if it has rows and there is none yet.
fn make<R: Row>(
    stream: &mut Option<TableStream>,
    has_rows: bool,
    directory: &Directory,
) -> Result<(), CaptureWriteError> {
    if stream.is_none() && has_rows {
        *stream = Some(TableStream::create::<R>(directory)?);
    }
    Ok(())
}

/// All or none: what is made of them is removed again.
fn create_profile(directory: &Directory) -> Result<[TableStream; 4], CaptureWriteError> {
    let create = || {
        Ok([
            TableStream::create::<Frame>(directory)?,
            TableStream::create::<Stack>(directory)?,
            TableStream::create::<Thread>(directory)?,
            TableStream::create::<Sample>(directory)?,
        ])
    };
    let created = create();
    if created.is_err() {
        for table in [
            Table::SampleFrames,
            Table::SampleStacks,
            Table::SampleThreads,
            Table::Samples,
        ] {
            // Best effort: the first error is the one that matters.
            drop(directory.remove(&table.stream_file()));
        }
    }
    created
}

/// Writes `capture.json` in one step.
pub(crate) fn write_info(
    directory: &Directory,
    info: &CaptureInfo,
) -> Result<(), CaptureWriteError> {
    let text = text_of(directory, info)?;
    replace(directory, &text)
}

/// Keeps room to write it once more.
fn keep(directory: &Directory, text: &[u8], spare: &mut Spare) -> Result<(), CaptureWriteError> {
    let kept = spare.keep(directory, text);
    kept.map_err(|source| CaptureWriteError::Io {
        act: "keep room in",
        path: directory.path().to_owned(),
        source,
    })
}

fn replace(directory: &Directory, text: &[u8]) -> Result<(), CaptureWriteError> {
    let written = directory.replace(FILE, text);
    written.map_err(not_written(directory))
}

fn not_written(directory: &Directory) -> impl Fn(std::io::Error) -> CaptureWriteError {
    let path = directory.path().join(FILE);
    move |source| CaptureWriteError::Io {
        act: "write",
        path: path.clone(),
        source,
    }
}

pub(crate) fn text_of(
    directory: &Directory,
    info: &CaptureInfo,
) -> Result<Vec<u8>, CaptureWriteError> {
    info::text(info).map_err(json_error(directory))
}

fn json_error(directory: &Directory) -> impl Fn(serde_json::Error) -> CaptureWriteError {
    let path = directory.path().join(FILE);
    move |source| CaptureWriteError::Json {
        path: path.clone(),
        source,
    }
}

/// Counts halts that come after a later one of the same vCPU.
#[derive(Debug, Default)]
pub(crate) struct StartOrder {
    latest: BTreeMap<(Option<VmIndex>, Option<VcpuId>, Tid), u64>,
    violations: u64,
}

impl StartOrder {
    pub(crate) fn see(&mut self, halt: &Halt) {
        let latest = self
            .latest
            .entry((halt.vm, halt.vcpu, halt.tid))
            .or_default();
        if halt.start_ns < *latest {
            self.violations += 1;
        }
        *latest = (*latest).max(halt.start_ns);
    }

    pub(crate) fn violations(&self) -> u64 {
        self.violations
    }
}
