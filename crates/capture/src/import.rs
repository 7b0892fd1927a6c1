//! Recordings of other tools as captures: text of ftrace, `perf script` and `trace-cmd report`.
//!
//! The text must hold `kvm_vcpu_wakeup`; with `kvm_halt_poll_ns` windows are known, with
//! `sched_waking` and `sched_switch` also who woke a vCPU, how late, and how long it polled. Threads
//! and CPUs may be interleaved as they like. What is damaged is passed over and counted; and what it
//! may have said is not assumed: after it, windows are unknown until they are told again.

mod clock;
mod counts;
mod error;
pub(crate) mod fuzz;
mod line;
mod lines;
mod places;
mod reading;
mod tables;
mod text;
mod told;

use std::collections::BTreeMap;
use std::io::BufRead;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use haltwise_core::event::Facts;
use haltwise_core::exit::Recorded;
use haltwise_core::ids::Tid;
use haltwise_core::recording::{Missing, Mode, Roster, Rung};
use haltwise_core::units::Nanos;
use serde::{Serialize, Serializer};

pub use self::counts::Spinning;
pub use self::error::{ImportError, Skipped};
pub use self::told::GivenSettings;

use self::line::{About, Fault};
use self::lines::{Line, Lines, TELLING, binary};
use self::places::Settled;
use self::reading::Reading;
use self::text::Sign;
use crate::convert::Place;
use crate::error::CaptureWriteError;
use crate::files::directory::{self, DirectoryId};
use crate::info::{CaptureInfo, Clock, Ended, Host, Tool};
use crate::recording::{Ending, Recording};

const FLUSH: usize = 1 << 14;

/// Lines between two looks at whether to go on.
const STEP: u64 = 1 << 14;

/// A text without any event for so long is none of a tracer.
const HOPELESS_BYTES: u64 = 64 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Imported {
    #[serde(rename = "output")]
    pub directory: PathBuf,
    #[serde(skip)]
    pub id: DirectoryId,
    pub bytes_read: u64,
    pub lines: u64,
    /// How many of them were events.
    pub events: u64,
    pub halts: u64,
    pub exits: u64,
    /// Calls of grow and shrink written.
    pub window_changes: u64,
    /// vCPUs that do nothing but run at one address.
    pub spinning: Vec<Spinning>,
    pub vms: usize,
    /// vCPUs seen, as far as their numbers were told.
    pub vcpus: usize,
    /// From the first to the last event, in nanoseconds.
    pub span_ns: u64,
    /// Bytes of all tables.
    pub bytes_written: u64,
    /// Counts of data that was passed over or lost.
    #[serde(serialize_with = "by_name")]
    pub skipped: BTreeMap<Skipped, u64>,
    /// Data that the capture cannot hold.
    pub missing: Vec<Missing>,
}

fn by_name<S: Serializer>(skipped: &BTreeMap<Skipped, u64>, to: S) -> Result<S::Ok, S::Error> {
    let names = skipped.iter().map(|(why, count)| (why.as_str(), count));
    to.collect_map(names.collect::<BTreeMap<_, _>>())
}

/// How far an import is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub bytes: u64,
    pub halts: u64,
}

/// Reads a text to its end and writes a capture, which appears at `output` whole or not at all.
///
/// `tool` and `command` are what the capture says of its maker. `go_on` is asked now and then.
pub fn import(
    mut input: impl BufRead,
    output: &Path,
    told: GivenSettings,
    (tool, command): (Tool, Vec<String>),
    mut go_on: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Imported, ImportError> {
    let directory = Directory::find(output)?;
    let start = input
        .fill_buf()
        .map_err(|source| ImportError::Read { bytes: 0, source })?;
    if let Some((what, remedy)) = binary(&start[..start.len().min(TELLING)]) {
        return Err(ImportError::Binary { what, remedy });
    }
    let mut writing = Writing {
        reading: Reading::new(told),
        facts: Facts::default(),
        recording: None,
        directory,
        maker: (tool, command),
    };
    let mut lines = Lines::new(input);
    let mut count = 0;
    loop {
        let bytes = lines.bytes;
        match lines
            .next()
            .map_err(|source| ImportError::Read { bytes, source })?
        {
            None => break,
            Some(Line::TooLong) => writing.reading.too_long(),
            Some(Line::Text(line)) => writing.reading.line(line, &mut writing.facts),
        }
        count += 1;
        if let (Some(one), Some(other)) = writing.reading.text.threadless {
            let vcpus = format!(" and several vCPUs ({one} and {other})");
            return Err(ImportError::Threadless { vcpus });
        }
        writing.flush(FLUSH)?;
        let hopeless = writing.reading.tally.events == 0 && bytes > HOPELESS_BYTES;
        if hopeless {
            break;
        }
        if count % STEP == 0 {
            let halts = writing.reading.text.halts;
            if go_on(Progress { bytes, halts }).is_break() {
                return Err(ImportError::Interrupted { bytes });
            }
        }
    }
    let bytes_read = lines.bytes;
    writing.reading.finish(&mut writing.facts);
    writing.must_hold_halts(bytes_read, count)?;
    writing.flush(1)?;
    writing.finish(bytes_read, count)
}

struct Writing {
    reading: Reading,
    facts: Facts,
    recording: Option<Recording>,
    directory: Directory,
    maker: (Tool, Vec<String>),
}

impl Writing {
    /// Writes the facts if there are that many.
    fn flush(&mut self, enough: usize) -> Result<(), ImportError> {
        if self.facts.halts.len() + self.facts.windows.len() < enough {
            return Ok(());
        }
        let mut recording = self.take_recording()?;
        recording.append(&std::mem::take(&mut self.facts))?;
        self.recording = Some(recording);
        Ok(())
    }

    /// The recording, which is begun with its first rows.
    fn take_recording(&mut self) -> Result<Recording, ImportError> {
        match self.recording.take() {
            Some(recording) => Ok(recording),
            None => Ok(Recording::create(&self.directory.temporary, self.info())?),
        }
    }

    /// Information on the recording that is known before its first rows.
    fn info(&self) -> CaptureInfo {
        let text = &self.reading.text;
        let fact = |about| text.host.get(&about).cloned();
        let unknown = || "unknown".to_owned();
        let release = self.reading.told.kernel_release.clone();
        let host = Host {
            kernel_release: release.unwrap_or_else(unknown),
            arch: fact(About::Arch).unwrap_or_else(unknown),
            cpu_model: fact(About::Processor),
            cpus: fact(About::Cpus)
                .and_then(|cpus| cpus.parse().ok())
                .unwrap_or(0),
            hostname: fact(About::Name),
        };
        let start_ns = text.first_ns.unwrap_or(0);
        let (tool, command) = self.maker.clone();
        let clock = Clock::new(start_ns, 0);
        let mut info = CaptureInfo::new(tool, host, clock, Rung::Import, Mode::Full);
        info.command = command;
        info.knobs = self.reading.told.knobs(start_ns);
        info.exits = Some(Recorded::default()).filter(|_| self.reading.exits.exits > 0);
        info
    }

    /// Says why there is no halt, if there is none.
    fn must_hold_halts(&self, bytes: u64, lines: u64) -> Result<(), ImportError> {
        let (text, tally) = (&self.reading.text, &self.reading.tally);
        let skipped = |why| tally.skipped.get(&why).copied().unwrap_or(0);
        let ticks = skipped(Skipped::Ticks);
        let fault = text.damaged.as_ref().map(|it| it.fault);
        let is_of_halts = matches!(fault, Some(Fault::Fields(..)));
        let damaged = text.damaged.as_ref().map_or_else(String::new, |it| {
            it.in_words(skipped(Skipped::Damaged), text.continued)
        });
        if text.halts > 0 && text.saw(Sign::Threadless) && text.threadless.0.is_none() {
            let vcpus = " and no vCPU".to_owned();
            Err(ImportError::Threadless { vcpus })
        } else if text.halts > 0 || (self.reading.exits.exits > 0 && !is_of_halts) {
            Ok(())
        } else if bytes == 0 {
            Err(ImportError::Empty)
        } else if ticks > tally.events && text.timeless_halts > 0 {
            Err(ImportError::Ticks { lines: ticks })
        } else if tally.events == 0
            && let Some((what, found)) = self.reading.tables.found()
        {
            Err(ImportError::Counters { what, found })
        } else if tally.events == 0 && ticks == 0 {
            Err(ImportError::NoTrace {
                lines,
                why: damaged,
            })
        } else if text.saw(Sign::ValidTold) || text.saw(Sign::ValidAssumed) {
            Err(ImportError::NothingLeft {
                events: tally.events,
                skipped: in_words(&tally.skipped),
            })
        } else {
            let names = text::names(&self.reading);
            let names = match names.as_str() {
                "" => String::new(),
                names => format!("; there are {names}"),
            };
            let windows = text.windows.map_or_else(String::new, |(low, high)| {
                let (low, high) = (Nanos(low.into()), Nanos(high.into()));
                format!(
                    "; kvm_halt_poll_ns tells windows of {low} to {high}, so that a ceiling above {high} was not reached"
                )
            });
            let others = names + &windows;
            Err(ImportError::NoHalts {
                events: tally.events + ticks,
                others,
                damaged,
            })
        }
    }

    fn place<'a>(&self, tid: Tid, places: &'a [Place]) -> Option<&'a Place> {
        let (at, _) = self.reading.places.of(tid);
        places.get(usize::try_from(at?.0).ok()?)
    }

    /// vCPUs that spin, with the names of their VMs.
    fn spinning(&self, roster: &Roster, places: &[Place]) -> Vec<Spinning> {
        let spinning = self.reading.exits.spinning();
        let named = spinning.map(|(tid, entries, address)| {
            let at = self.place(tid, places);
            let vm = at.and_then(|place| roster.vms.iter().find(|vm| Some(vm.index) == place.vm));
            Spinning {
                vm: vm.map_or_else(String::new, |vm| vm.name.clone()),
                vcpu: at.and_then(|place| place.vcpu),
                entries,
                address,
            }
        });
        named.collect()
    }

    fn finish(mut self, bytes_read: u64, lines: u64) -> Result<Imported, ImportError> {
        let Settled {
            roster,
            places,
            doubts,
        } = self.reading.places.settle();
        let missing = text::missing(&self.reading, &doubts);
        let skipped = self.reading.tally.skipped.clone();
        let spinning = self.spinning(&roster, &places);
        let mut recording = self.take_recording()?;
        recording.set_roster(&roster)?;
        recording.set_missing(&missing)?;
        let start_ns = self.reading.text.first_ns.unwrap_or(0);
        let vms = roster.vms.iter();
        let span = (start_ns, self.reading.text.last_ns);
        let place = |tid| {
            self.place(tid, &places)
                .map_or((None, None), |it| (it.vm, it.vcpu))
        };
        recording.append(&Facts {
            exits: self.reading.exits.rows(span, place),
            idle_states: self.reading.idle.rows(span),
            knobs: vms
                .filter_map(|vm| self.reading.told.knob_of(vm, start_ns))
                .collect(),
            ..Facts::default()
        })?;
        let lost = skipped
            .iter()
            .map(|(why, count)| (why.as_str().to_owned(), *count));
        let ending = Ending {
            ended: Ended {
                time_ns: self.reading.text.last_ns,
                by: "end of the text".to_owned(),
            },
            lost: lost.collect(),
            overhead: None,
        };
        let summary = recording.finish_placed(ending, Some(&places))?;
        let text = &self.reading.text;
        Ok(Imported {
            id: summary.id,
            bytes_read,
            lines,
            events: self.reading.tally.events,
            halts: text.halts,
            window_changes: text.window_calls,
            vms: roster.vms.len(),
            vcpus: roster.vcpus.len(),
            exits: self.reading.exits.exits,
            spinning,
            span_ns: text.last_ns.saturating_sub(start_ns),
            bytes_written: summary.tables.values().map(|table| table.bytes).sum(),
            skipped,
            missing,
            directory: self.directory.settle()?,
        })
    }
}

fn in_words(skipped: &BTreeMap<Skipped, u64>) -> String {
    let words: Vec<String> = skipped
        .iter()
        .map(|(why, count)| format!("{count} {}", why.as_str()))
        .collect();
    words.join(", ")
}

/// A directory that is there whole or not at all: a capture is written next to its place, under a name that no reader
/// takes for a capture, and takes its place by a single renaming. An import that was killed leaves that other directory.
#[derive(Debug)]
struct Directory {
    output: PathBuf,
    temporary: PathBuf,
    settled: bool,
}

impl Directory {
    /// Looks whether `output` can be made: it must not exist, or be an empty directory.
    fn find(output: &Path) -> Result<Self, CaptureWriteError> {
        let failed = || CaptureWriteError::io("write", output);
        if !directory::is_unused(output).map_err(failed())? {
            let path = output.to_owned();
            return Err(CaptureWriteError::NotEmpty { path });
        }
        let name = output
            .file_name()
            .ok_or_else(|| failed()(std::io::ErrorKind::InvalidInput.into()))?;
        let mut temporary = std::ffi::OsString::from(".");
        temporary.push(name);
        temporary.push(format!(".import-{}", std::process::id()));
        Ok(Self {
            temporary: output.with_file_name(temporary),
            output: output.to_owned(),
            settled: false,
        })
    }

    fn settle(mut self) -> Result<PathBuf, CaptureWriteError> {
        let renamed = directory::rename(&self.temporary, &self.output);
        renamed.map_err(CaptureWriteError::io("give its place to", &self.output))?;
        self.settled = true;
        Ok(self.output.clone())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if !self.settled {
            // It may never have been made; and the first error is the one that matters.
            drop(directory::remove_all(&self.temporary));
        }
    }
}
