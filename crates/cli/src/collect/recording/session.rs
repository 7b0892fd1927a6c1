//! The loop from the first drain to the last, and the end of the capture.

use std::collections::BTreeMap;
use std::time::Duration;

use haltwise_capture::error::CaptureWriteError;
use haltwise_capture::info::{Clock, Ended};
use haltwise_capture::recording::{Ending, Flush, Recording};
use haltwise_core::event::{Facts, HostSample};
use haltwise_core::exit::Kind;
use haltwise_core::recording::{Overhead, Roster};
use haltwise_host::collector::Collector;
use haltwise_host::command::Running;
use haltwise_host::cpus::Cpus;
use haltwise_host::params::{self, Look, Watch};
use haltwise_host::profile::Profiler;
use haltwise_host::root::Root;
use haltwise_host::sandbox::Duties;
use haltwise_host::usage::Slow;
use haltwise_host::{clock, host_sample};

use super::ring::Ring;
use super::start::{missing, stored};
use super::summary::Summary;
use crate::collect::attach::{self, explain};
use crate::collect::interrupt::Interrupt;
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::terminal;

/// Between two drains. The ring holds more than a second, even at a hundred thousand halts per second.
const DRAIN: Duration = Duration::from_millis(100);
/// The same where something else is looked at as well: a command that may end, samples.
const DRAIN_OFTEN: Duration = Duration::from_millis(20);
/// Between two writes: what kill -9 can cost.
const FLUSH_NS: u64 = 500_000_000;
/// Between two samples of the host's own state.
const SAMPLE_NS: u64 = 1_000_000_000;
/// Between two looks at the parameters of the polling window: a change is known to so much.
const LOOK_NS: u64 = 100_000_000;

/// The place of halts that came after a write had failed.
const UNWRITTEN: &str = "not written: the recording could not go on";

pub(crate) struct Session {
    pub(super) collector: Box<dyn Collector>,
    pub(super) profiler: Option<Profiler>,
    pub(super) recording: Recording,
    pub(super) knobs: Watch,
    pub(super) root: Root,
    pub(super) pending: Facts,
    pub(super) roster: Roster,
    /// VMs that ended before anything that a ring keeps, and were dropped with it.
    pub(super) vms_dropped: usize,
    pub(super) no_command: bool,
    pub(super) cpus: Cpus,
    pub(super) start_ns: u64,
    pub(super) last_flush_ns: u64,
    pub(super) last_sample_ns: u64,
    pub(super) last_look_ns: u64,
    pub(super) halts: u64,
    pub(super) exits: u64,
    pub(super) lost: BTreeMap<String, u64>,
    pub(super) peak_rss: u64,
    pub(super) slow: Slow,
    /// CPU time that the recorder had used when recording began.
    pub(super) cpu_before_ns: u64,
    pub(super) output: std::path::PathBuf,
    pub(super) ring: Option<Ring>,
    pub(super) earlier: Earlier,
}

#[derive(Debug, Default)]
pub(super) struct Earlier {
    lost: BTreeMap<String, u64>,
    overhead: Option<Overhead>,
    bpf_cpu_ns: u64,
}

impl Session {
    /// Gives up the rights that recording does not take. It goes on without that too, and says so.
    pub(super) fn confine(&mut self, ends_command: bool) {
        let duties = Duties {
            writes: std::slice::from_ref(&self.output),
            names_functions: self.profiler.is_some(),
            ends_command,
            opens_events: self.profiler.is_some(),
            ..Duties::default()
        };
        attach::confine(&mut *self.collector, &self.root, duties);
    }

    /// Records until time is up, a signal comes, or the command ends; says which.
    pub(crate) fn run(
        &mut self,
        duration: Option<Duration>,
        interrupt: &Interrupt,
        command: Option<&Running>,
    ) -> Result<String, Failure> {
        let mut progress = Progress::start(duration);
        let pause = if command.is_some() || self.profiler.is_some() {
            DRAIN_OFTEN
        } else {
            DRAIN
        };
        loop {
            self.turn()?;
            if let Some(signal) = interrupt.came() {
                return Ok(signal.to_owned());
            }
            if command.is_some_and(Running::has_ended) {
                return Ok("command ended".to_owned());
            }
            let elapsed = Duration::from_nanos(clock::monotonic_ns().saturating_sub(self.start_ns));
            let rest = duration.map_or(pause, |duration| duration.saturating_sub(elapsed));
            if rest.is_zero() {
                return Ok("duration".to_owned());
            }
            progress.show(elapsed, || {
                format!("{} halts", self.halts + halts_in(&self.pending))
            });
            self.collector.wait(rest.min(pause)).map_err(explain)?;
        }
    }

    fn turn(&mut self) -> Result<(), Failure> {
        self.collector.drain(&mut self.pending).map_err(explain)?;
        if let Some(profiler) = &mut self.profiler {
            let Facts { profile, lost, .. } = &mut self.pending;
            profiler
                .drain(self.collector.roster(), profile, lost)
                .map_err(explain)?;
        }
        let now = clock::monotonic_ns();
        if now.saturating_sub(self.last_sample_ns) >= SAMPLE_NS {
            self.last_sample_ns = now;
            self.last_look_ns = now;
            self.sample(false);
        } else if now.saturating_sub(self.last_look_ns) >= LOOK_NS {
            self.last_look_ns = now;
            self.look(Look::Window(self.recording.info().side));
        }
        if now.saturating_sub(self.last_flush_ns) >= FLUSH_NS {
            self.last_flush_ns = now;
            self.flush()?;
            self.turn_ring(now);
        }
        Ok(())
    }

    /// Goes on with another segment if it is time, between two drains, so that each halt is in one of them; and drops
    /// what is too old.
    fn turn_ring(&mut self, now_ns: u64) {
        let Some(ring) = &mut self.ring else {
            return;
        };
        if let Err(error) = ring.prune() {
            terminal::say(&format!("note: {}: {error}", self.output.display()));
        }
        if let Some(since_ns) = ring.kept_since_ns() {
            self.vms_dropped += self.collector.forget_ended(since_ns);
        }
        if !ring.is_due(now_ns) {
            return;
        }
        let mut info = self.recording.info().clone();
        info.clock = Clock::new(now_ns, clock::wall_ns());
        info.knobs = params::read(&self.root, now_ns).unwrap_or_default();
        self.cpus = Cpus::new(&self.root);
        info.roster = stored(self.collector.roster(), self.no_command, self.cpus.now());
        let next = match ring.create(&ring.next(), info) {
            Ok(next) => next,
            Err(error) => {
                ring.put_off(now_ns);
                terminal::say(&format!(
                    "note: {:#}; recording goes on with the last segment",
                    anyhow::Error::new(error)
                ));
                return;
            }
        };
        let sample = host_sample::read(&self.root, None).ok();
        let overhead = self.overhead_since(sample.unwrap_or_default());
        let ending = Ending {
            ended: Ended {
                time_ns: now_ns,
                by: "next segment".to_owned(),
            },
            lost: std::mem::take(&mut self.lost),
            overhead: Some(overhead),
        };
        for (place, count) in &ending.lost {
            *self.earlier.lost.entry(place.clone()).or_default() += count;
        }
        let last = std::mem::replace(&mut self.recording, next);
        if let Some(ring) = &mut self.ring {
            ring.turn(last, ending, now_ns);
        }
    }

    /// Cost of the recorder since the segment began; also sets the start from which the next segment counts.
    fn overhead_since(&mut self, cost: HostSample) -> Overhead {
        let bpf_cpu_ns = self.kernel_cpu_ns();
        let overhead = Overhead {
            recorder_cpu_ns: cost.recorder_cpu_ns.saturating_sub(self.cpu_before_ns),
            bpf_cpu_ns: bpf_cpu_ns.map(|ns| ns.saturating_sub(self.earlier.bpf_cpu_ns)),
            recorder_rss_bytes: self.peak_rss.max(cost.recorder_rss_bytes),
            added_ns_per_halt: self.collector.added_ns_per_halt(),
            added_ns_per_exit: self.collector.added_ns_per_exit(),
            most_waiting_bytes: self.collector.most_waiting_bytes(),
        };
        self.cpu_before_ns = self.cpu_before_ns.max(cost.recorder_cpu_ns);
        self.earlier.bpf_cpu_ns = bpf_cpu_ns.unwrap_or(0);
        let sum = self.earlier.overhead.map(|earlier| earlier.and(overhead));
        self.earlier.overhead = sum.or(Some(overhead));
        overhead
    }

    /// Host state and changed settings. What cannot be read now may be next time.
    fn sample(&mut self, is_last: bool) {
        if let Ok(sample) = host_sample::read(&self.root, self.kernel_cpu_ns()) {
            self.peak_rss = self.peak_rss.max(sample.recorder_rss_bytes);
            self.slow
                .add(&self.root, sample, is_last, &mut self.pending);
        }
        self.look(Look::All);
    }

    fn kernel_cpu_ns(&self) -> Option<u64> {
        let sampling = self.profiler.as_ref().and_then(Profiler::kernel_cpu_ns);
        let halts = self.collector.kernel_cpu_ns()?;
        Some(halts.saturating_add(sampling.unwrap_or(0)))
    }

    fn look(&mut self, look: Look) {
        let changes = self.knobs.changes(&self.root, look, clock::monotonic_ns);
        self.pending.knobs.extend(changes.unwrap_or_default());
    }

    fn flush(&mut self) -> Result<(), Failure> {
        if self.roster != *self.collector.roster() {
            self.roster = self.collector.roster().clone();
            let stored = stored(&self.roster, self.no_command, self.cpus.now());
            self.recording.set_roster(&stored)?;
        }
        let facts = std::mem::take(&mut self.pending);
        self.halts += halts_in(&facts);
        self.exits += exits_in(&facts);
        for lost in &facts.lost {
            *self.lost.entry(lost.place.clone()).or_default() += lost.count;
        }
        if facts.is_empty() {
            return Ok(());
        }
        match self.recording.record(&facts)? {
            Flush::Same => {}
            Flush::Fails(error) => terminal::say(&format!(
                "note: {:#}; recording goes on: rows that cannot be written are counted as lost",
                anyhow::Error::new(error)
            )),
            Flush::Recovered { halts } => terminal::say(&format!(
                "note: {} is written again; {halts} halts so far are lost",
                self.output.display()
            )),
        }
        Ok(())
    }

    pub(crate) fn finish(mut self, ended_by: String) -> Result<Summary, Failure> {
        match self.wind_up() {
            Ok((end_ns, overhead)) => self.complete(ended_by, end_ns, overhead),
            Err(failure) => Err(self.abandon(failure)),
        }
    }

    /// Ends a recording that cannot go on: what was written stays, and what was not is in the capture as lost.
    pub(crate) fn abandon(mut self, failure: Failure) -> Failure {
        let ended = self.collector.end(&mut self.pending);
        let unwritten = halts_in(&self.pending);
        if unwritten > 0 {
            *self.lost.entry(UNWRITTEN.to_owned()).or_default() += unwritten;
        }
        let ending = Ending {
            ended: Ended {
                time_ns: ended.unwrap_or_else(|_| clock::monotonic_ns()),
                by: "failure".to_owned(),
            },
            lost: self.lost,
            overhead: None,
        };
        if let Some(ring) = &mut self.ring {
            ring.settle(true);
        }
        // The first error is the one that matters.
        let noted = self.recording.abandon(ending);
        with_hint(failure, &self.output, noted.is_ok())
    }

    /// Leaves nothing of a recording that had no beginning.
    pub(crate) fn discard(self, failure: Failure) -> Failure {
        match self.recording.discard() {
            Ok(()) => failure,
            Err(error) => failure.hint(format!(
                "what was begun in {} could not be removed: {error}",
                self.output.display()
            )),
        }
    }

    fn wind_up(&mut self) -> Result<(u64, Overhead), Failure> {
        let end_ns = self.collector.end(&mut self.pending).map_err(explain)?;
        // Samples first: they read what the collector's programs know of exits.
        if let Some(profiler) = &mut self.profiler {
            let Facts { profile, lost, .. } = &mut self.pending;
            profiler
                .stop(self.collector.roster(), profile, lost)
                .map_err(explain)?;
        }
        self.collector.stop(&mut self.pending).map_err(explain)?;
        self.sample(true);
        let cost = self.pending.host.last().copied().unwrap_or_default();
        self.flush()?;
        let cpus = self.cpus.used(&self.root);
        let stored = stored(&self.roster, self.no_command, cpus);
        self.recording.set_roster(&stored)?;
        let overhead = self.overhead_since(cost);
        let missing = missing(
            &*self.collector,
            self.profiler.as_ref(),
            &self.slow,
            &self.root,
        );
        self.recording.set_missing(&missing)?;
        Ok((end_ns, overhead))
    }

    fn complete(
        mut self,
        ended_by: String,
        end_ns: u64,
        overhead: Overhead,
    ) -> Result<Summary, Failure> {
        let exits = self.recording.info().exits.as_ref().map(|_| self.exits);
        let ending = Ending {
            ended: Ended {
                time_ns: end_ns,
                by: ended_by.clone(),
            },
            lost: self.lost,
            overhead: Some(overhead),
        };
        let (written, unfinished) = match self.recording.finish(ending) {
            Ok(written) => (written, None),
            // Done but for the tables: what is there is read as it is, and says what is lost.
            Err(CaptureWriteError::NotConverted { summary, source }) => {
                let failure = Failure::new(Exit::Partial, *source);
                (*summary, Some(with_hint(failure, &self.output, true)))
            }
            Err(error) => return Err(with_hint(error.into(), &self.output, false)),
        };
        let mut lost = self.earlier.lost;
        for (place, count) in &written.lost {
            *lost.entry(place.clone()).or_default() += count;
        }
        let ring = self.ring.as_mut().map(|ring| {
            ring.settle(true);
            ring.summary(self.vms_dropped)
        });
        let bytes = written.tables.values().map(|table| table.bytes).sum();
        Ok(Summary {
            output: self.output,
            id: written.id,
            ended_by,
            rung: self.collector.rung(),
            seconds: end_ns.saturating_sub(self.start_ns) as f64 / 1e9,
            vms: self.roster.vms.len(),
            vcpus: self.roster.vcpus.len(),
            halts: self.halts,
            exits,
            samples: self.profiler.as_ref().map(Profiler::samples),
            ns_per_sample: self.profiler.as_ref().and_then(Profiler::ns_per_sample),
            bytes: ring.map_or(bytes, |ring| ring.bytes),
            lost,
            overhead: self.earlier.overhead.unwrap_or(overhead),
            ring,
            unfinished,
        })
    }
}

/// Adds a hint to the failure of a recording that could not go on. `noted`: the capture says what is lost.
fn with_hint(failure: Failure, output: &std::path::Path, noted: bool) -> Failure {
    let removed = failure.error.downcast_ref::<CaptureWriteError>();
    if removed.is_some_and(|error| matches!(error, CaptureWriteError::Removed { .. })) {
        return failure;
    }
    let said = if noted { ", and says what is lost" } else { "" };
    let safe = format!(
        "what was written before is safe: `haltwise report {}` reads it{said}",
        output.display()
    );
    match &failure.hint {
        Some(hint) => {
            let both = format!("{hint}; {safe}");
            failure.hint(both)
        }
        None => failure.hint(safe),
    }
}

fn exits_in(facts: &Facts) -> u64 {
    let exits = facts.exits.iter();
    let exits = exits.filter(|row| matches!(row.cause.kind, Kind::Exit | Kind::Other));
    exits.map(|row| row.count).sum()
}

fn halts_in(facts: &Facts) -> u64 {
    let counted: u64 = facts.counts.iter().map(|row| row.halts).sum();
    u64::try_from(facts.halts.len())
        .unwrap_or(u64::MAX)
        .saturating_add(counted)
}
