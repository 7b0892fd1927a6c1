//! Writing a capture while it is recorded.
//!
//! A disk that is full or fails does not end a recording: see [`Recording::record`].
//!
//! Not here: turning streams into Parquet, which is [`crate::convert`], and reading.

#[cfg(test)]
mod simulation;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;

use haltwise_core::event::{Facts, Halt, Lost};
use haltwise_core::recording::{Missing, Overhead, Roster};

use crate::convert::{self, Place};
use crate::error::CaptureWriteError;
use crate::files::Directory;
use crate::info::{self, CaptureInfo, Ended, FILE, SCHEMA, State, Summary};
use crate::spare::{self, Spare};
use crate::stream::{TableStream, create};
use crate::table::Table;
use crate::tables::{Row, of_table};

/// A capture that is being written.
///
/// Dropped without [`Recording::finish`], it stays as a capture that was cut: readable as it is.
#[derive(Debug)]
pub struct Recording {
    directory: Directory,
    info: CaptureInfo,
    /// The stream of an optional table is made with its first row.
    streams: BTreeMap<Table, TableStream>,
    /// Rows that the disk did not take, by table.
    refused: BTreeMap<Table, u64>,
    /// Losses that the table of losses does not hold yet, by place.
    unsaid: BTreeMap<String, Lost>,
    /// Whether `capture.json` says less than is known.
    is_behind: bool,
    /// Whether the last flush was not written whole.
    falls_short: bool,
    /// Room for the last word.
    spare: Spare,
    /// VMs and vCPUs that it has room for.
    fitting: Roster,
}

/// Result of a flush.
#[derive(Debug)]
pub enum Flush {
    /// All of it was written, or was not by an earlier failure that was reported then.
    Same,
    /// From now on not everything is written, for this reason.
    Fails(CaptureWriteError),
    /// Everything is written again. Halts that were lost by then, in all.
    Recovered { halts: u64 },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Ending {
    pub ended: Ended,
    /// Events lost in all, by place.
    pub lost: BTreeMap<String, u64>,
    /// Cost of the recorder.
    pub overhead: Option<Overhead>,
}

impl Recording {
    /// Starts a capture in a directory that is empty or does not exist yet.
    pub fn create(directory: &Path, info: CaptureInfo) -> Result<Self, CaptureWriteError> {
        let ours = Directory::make(directory);
        Self::create_in(
            ours.map_err(CaptureWriteError::io("create", directory))?,
            info,
        )
    }

    /// The same, in a directory that is open.
    pub fn create_in(ours: Directory, mut info: CaptureInfo) -> Result<Self, CaptureWriteError> {
        must_be_empty(&ours)?;
        info.schema = SCHEMA;
        info.state = State::Recording;
        let started = start_in(&ours, &info).inspect_err(|_| {
            // Best effort: the first error is the one that matters.
            drop(remove_all(&ours));
        });
        let (streams, spare) = started?;
        Ok(Self {
            directory: ours,
            fitting: info.roster.clone(),
            info,
            streams,
            refused: BTreeMap::new(),
            unsaid: BTreeMap::new(),
            is_behind: false,
            falls_short: false,
            spare,
        })
    }

    /// Fails if the directory or a stream is no longer where it was made: no reader would find what is written.
    /// Where the disk does not say, it goes on.
    fn must_be_there(&self) -> Result<(), CaptureWriteError> {
        if self.is_gone() {
            return Err(CaptureWriteError::Removed {
                path: self.directory.path().to_owned(),
            });
        }
        let mut streams = self.streams.values();
        streams.try_for_each(|stream| stream.must_be_in(&self.directory))
    }

    /// Appends what one flush brought. When this returns, the kernel has it.
    ///
    /// Halts are put in order of their start first. Every table is tried, and the first error is
    /// returned: rows that were refused are counted as lost. The next flush may succeed, unless the error is
    /// [`CaptureWriteError::Removed`].
    pub fn append(&mut self, facts: &Facts) -> Result<(), CaptureWriteError> {
        self.must_be_there()?;
        match self.write(facts) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Appends what one flush of a recording brought that goes on whatever the disk does.
    ///
    /// Rows that cannot be written are counted as lost, and writing is tried again with later flushes. The only
    /// errors are those after which no reader would find the capture.
    pub fn record(&mut self, facts: &Facts) -> Result<Flush, CaptureWriteError> {
        self.must_be_there()?;
        let failed = self.write(facts);
        let falls_short = failed.is_some() || self.is_behind || !self.unsaid.is_empty();
        let fell_short = std::mem::replace(&mut self.falls_short, falls_short);
        Ok(match failed {
            Some(error) if !fell_short => Flush::Fails(error),
            None if fell_short && !falls_short => Flush::Recovered {
                halts: self.refused.get(&Table::Halts).copied().unwrap_or(0),
            },
            _ => Flush::Same,
        })
    }

    /// Writes what it can; gives back the first failure.
    fn write(&mut self, facts: &Facts) -> Option<CaptureWriteError> {
        let at_ns = self.latest_ns(facts);
        let profile = &facts.profile;
        let failures = [
            self.write_halts(&facts.halts, at_ns),
            self.write_or_lose(&facts.windows, at_ns),
            self.write_or_lose(&facts.counts, at_ns),
            self.write_or_lose(&facts.knobs, at_ns),
            self.write_or_lose(&facts.host, at_ns),
            self.write_or_lose(&facts.idle_states, at_ns),
            self.write_or_lose(&facts.exits, at_ns),
            // Samples last, so that a capture that was cut holds what its samples point to.
            self.write_or_lose(&profile.frames, at_ns),
            self.write_or_lose(&profile.stacks, at_ns),
            self.write_or_lose(&profile.threads, at_ns),
            self.write_or_lose(&profile.samples, at_ns),
            // After all others, so that it holds what they have lost.
            self.write_lost(&facts.lost),
            (self.is_behind.then(|| self.catch_up())).and_then(Result::err),
        ];
        failures.into_iter().flatten().next()
    }

    /// The latest time that these facts name.
    fn latest_ns(&self, facts: &Facts) -> u64 {
        let halts = facts.halts.iter().map(Halt::end_ns);
        let counts = facts.counts.iter().map(|row| row.time_ns);
        let host = facts.host.iter().map(|row| row.time_ns);
        let start_ns = self.info.clock.start_monotonic_ns;
        halts.chain(counts).chain(host).max().unwrap_or(start_ns)
    }

    fn write_halts(&mut self, halts: &[Halt], at_ns: u64) -> Option<CaptureWriteError> {
        let mut halts = Cow::Borrowed(halts);
        if !halts.is_sorted_by_key(|halt| halt.start_ns) {
            halts.to_mut().sort_by_key(|halt| halt.start_ns);
        }
        self.write_or_lose(&halts, at_ns)
    }

    /// Writes rows of a table, and counts as lost, at this time, those that the disk does not take; gives why it does not.
    fn write_or_lose<R: Row>(&mut self, rows: &[R], time_ns: u64) -> Option<CaptureWriteError> {
        if rows.is_empty() {
            return None;
        }
        let made = make(&mut self.streams, R::TABLE, &self.directory);
        let stream = self.streams.get_mut(&R::TABLE);
        let (written, failed) = stream.map_or((0, None), |stream| stream.append(rows));
        let count = (rows.len() - written) as u64;
        if count > 0 {
            *self.refused.entry(R::TABLE).or_default() += count;
            let place = info::refused(R::TABLE);
            self.keep(Lost {
                time_ns,
                count,
                place,
            });
        }
        made.err().or(failed)
    }

    /// Losses that are not written are so with a later flush.
    fn write_lost(&mut self, rows: &[Lost]) -> Option<CaptureWriteError> {
        let unsaid = std::mem::take(&mut self.unsaid).into_values();
        let mut lost: Vec<_> = unsaid.chain(rows.iter().cloned()).collect();
        let stream = self.streams.get_mut(&Table::Lost)?;
        let (written, failed) = stream.append(&lost);
        lost.drain(written..).for_each(|row| self.keep(row));
        failed
    }

    /// Keeps a loss until the table of losses takes it: one of each place, so that it takes no memory to speak of.
    fn keep(&mut self, row: Lost) {
        let place = row.place.clone();
        let ours = self.unsaid.entry(row.place).or_insert(Lost {
            time_ns: 0,
            count: 0,
            place,
        });
        ours.time_ns = ours.time_ns.max(row.time_ns);
        ours.count = ours.count.saturating_add(row.count);
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
        // The recorder must not wait for a slow disk; the first copy is durable.
        let written = self.directory.replace_at_once(FILE, &text);
        written.map_err(CaptureWriteError::below("write", &self.directory, FILE))?;
        keep(&self.directory, &text, &mut self.spare)?;
        self.fitting.clone_from(&self.info.roster);
        self.is_behind = false;
        Ok(())
    }

    /// Capture information known so far.
    pub fn info(&self) -> &CaptureInfo {
        &self.info
    }

    /// Ends the recording: every stream becomes Parquet.
    ///
    /// On an error, as on a crash, each table is whole in one form or the other, and
    /// [`convert::convert`] may finish the work later. After [`CaptureWriteError::NotConverted`] the capture says
    /// how it ended and what was lost, too.
    pub fn finish(self, ending: Ending) -> Result<Summary, CaptureWriteError> {
        self.finish_placed(ending, None)
    }

    /// The same. With `places`, the VM of a row is an index into `places`: each row gets the VM found there, and the
    /// vCPU if it has none.
    pub(crate) fn finish_placed(
        mut self,
        ending: Ending,
        places: Option<&[Place]>,
    ) -> Result<Summary, CaptureWriteError> {
        self.must_be_there()?;
        self.take_ending(ending);
        // The stream of halts keeps the lock until the end.
        let completed = convert::complete(&self.directory, &mut self.info.clone(), places);
        let source = match completed {
            // It was written, below the descriptor, but no reader finds it where it should be.
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

    fn summary(&self) -> Summary {
        Summary {
            tables: self.streams.values().map(TableStream::size).collect(),
            ..convert::summary(&self.directory, &self.info)
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
        let removed = remove_all(&self.directory);
        removed.map_err(CaptureWriteError::io("remove", self.directory.path()))
    }

    /// Writes `capture.json` in the room that was kept for it. VMs and vCPUs that it has no room for are lost.
    fn write_last(&mut self) -> Result<(), CaptureWriteError> {
        let mut text = text_of(&self.directory, &self.info)?;
        if text.len() as u64 > self.spare.bytes {
            let mut info = self.info.clone();
            let (all, fitting) = (&self.info.roster, &self.fitting);
            for (table, all, fitting) in [
                (Table::Vms, all.vms.len(), fitting.vms.len()),
                (Table::Vcpus, all.vcpus.len(), fitting.vcpus.len()),
            ] {
                let lost = all.saturating_sub(fitting) as u64;
                if lost > 0 {
                    info.lost.insert(info::refused(table), lost);
                }
            }
            info.roster.clone_from(fitting);
            text = text_of(&self.directory, &info)?;
        }
        let spent = self.spare.spend(&self.directory, &text);
        spent.map_err(CaptureWriteError::below("write", &self.directory, FILE))
    }

    fn take_ending(&mut self, ending: Ending) {
        // Losses that the table does not take even now are in the sums below.
        drop(self.write(&Facts::default()));
        self.info.ended = Some(ending.ended);
        self.info.lost = ending.lost;
        for (&table, &rows) in &self.refused {
            *self.info.lost.entry(info::refused(table)).or_default() += rows;
        }
        self.info.overhead = ending.overhead;
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

/// Fails unless nothing was written to a directory yet.
pub(crate) fn must_be_empty(directory: &Directory) -> Result<(), CaptureWriteError> {
    let path = directory.path();
    let is_empty = directory.is_empty();
    if is_empty.map_err(CaptureWriteError::io("list", path))? {
        return Ok(());
    }
    let path = path.to_owned();
    Err(CaptureWriteError::NotEmpty { path })
}

/// Makes the streams that every recording has, room for the last word, and `capture.json`.
fn start_in(
    directory: &Directory,
    info: &CaptureInfo,
) -> Result<(BTreeMap<Table, TableStream>, Spare), CaptureWriteError> {
    let mut streams = BTreeMap::new();
    for table in Table::STREAMED.into_iter().filter(|it| !it.is_optional()) {
        make(&mut streams, table, directory)?;
    }
    if let Some(halts) = streams.get(&Table::Halts) {
        // Readers see by this lock that the recording goes on; the kernel drops it with the process.
        let name = Table::Halts.stream_file();
        let locked = halts.file.try_lock();
        locked.map_err(CaptureWriteError::below("lock", directory, &name))?;
    }
    let mut spare = Spare::default();
    let text = text_of(directory, info)?;
    keep(directory, &text, &mut spare)?;
    // Makes the names of both durable.
    let written = directory.replace(FILE, &text);
    written.map_err(CaptureWriteError::below("write", directory, FILE))?;
    Ok((streams, spare))
}

/// Tables of a profile, which are made together.
const PROFILE: [Table; 4] = [
    Table::SampleFrames,
    Table::SampleStacks,
    Table::SampleThreads,
    Table::Samples,
];

/// Makes the stream of a table, if it has none yet.
fn make(
    streams: &mut BTreeMap<Table, TableStream>,
    table: Table,
    directory: &Directory,
) -> Result<(), CaptureWriteError> {
    let alone = [table];
    let together = if PROFILE.contains(&table) {
        &PROFILE[..]
    } else {
        &alone
    };
    for &table in together {
        if let Entry::Vacant(none) = streams.entry(table) {
            none.insert(of_table!(table, create(directory))?);
        }
    }
    Ok(())
}

/// Writes `capture.json` in one step.
pub(crate) fn write_info(
    directory: &Directory,
    info: &CaptureInfo,
) -> Result<(), CaptureWriteError> {
    let text = text_of(directory, info)?;
    let written = directory.replace(FILE, &text);
    written.map_err(CaptureWriteError::below("write", directory, FILE))
}

/// Keeps room to write it once more.
fn keep(directory: &Directory, text: &[u8], spare: &mut Spare) -> Result<(), CaptureWriteError> {
    let kept = spare.keep(directory, text);
    kept.map_err(CaptureWriteError::io("keep room in", directory.path()))
}

pub(crate) fn text_of(
    directory: &Directory,
    info: &CaptureInfo,
) -> Result<Vec<u8>, CaptureWriteError> {
    info::text(info).map_err(CaptureWriteError::below("write", directory, FILE))
}
