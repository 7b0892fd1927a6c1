//! A recorder on a disk that is full, fails, writes short, lies, runs out of descriptors and loses power, by seed.
//!
//! Law: whatever happens, the capture is read, and its halts are those that were reported: as rows or as losses, to
//! the unit. Where the recorder did not come to its end, the capture says that it was cut, and its rows
//! are the first of those that were written.
//!
//! A world that breaks the law prints its seed: `HALTWISE_SEED=N cargo test -p haltwise-capture simulation` runs
//! that one, and `HALTWISE_WORLDS=N` so many from there on.

mod collector;
mod disk;
mod law;

use std::path::PathBuf;
use std::sync::Arc;

use haltwise_core::event::Halt;
use haltwise_core::recording::Rung;
use haltwise_core::workload::SplitMix64;

use self::collector::{Collector, START_NS};
use self::disk::{Plan, SimulatedDisk};
use super::{Ending, Recording};
use crate::error::CaptureWriteError;
use crate::files::Directory;
use crate::info::{Clock, Ended, example};
use crate::table::Table;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Finish,
    Abandon,
    /// The recorder is killed; the kernel has what was written.
    Killed,
    PowerLost,
}

/// A recorder, its disk and the facts that reach it.
#[derive(Debug)]
struct World {
    seed: u64,
    random: SplitMix64,
    directory: PathBuf,
    disk: Arc<SimulatedDisk>,
    collector: Collector,
    lies: bool,
    end: End,
    /// Rows of halts that the disk took, in order.
    taken: Vec<Halt>,
    /// Whether the recorder began to end the recording.
    ending: bool,
}

#[derive(Debug)]
enum Outcome {
    NotCreated(CaptureWriteError),
    /// It came to its end, as it says.
    Finished,
    /// It could not make tables of the streams.
    NotFinished,
    Abandoned,
    Cut,
}

impl World {
    fn new(seed: u64, directory: PathBuf) -> Self {
        let mut random = SplitMix64(seed);
        let end = match random.below(10) {
            0..4 => End::Finish,
            4 => End::Abandon,
            5 | 6 => End::Killed,
            _ => End::PowerLost,
        };
        let lies = random.below(6) == 0;
        let plan = plan(&mut random, end, lies);
        let disk = SimulatedDisk::new(&directory, random.next_u64(), plan);
        Self {
            seed,
            collector: Collector::new(random.next_u64()),
            disk: Arc::new(disk),
            directory,
            lies,
            end,
            random,
            taken: Vec::new(),
            ending: false,
        }
    }

    fn run(&mut self) -> Outcome {
        let mut recording = match self.create() {
            Ok(recording) => recording,
            Err(error) => return Outcome::NotCreated(error),
        };
        if self.lies {
            // Such recordings rest on what the kernel does by itself.
            self.disk.write_back();
        }
        for _ in 0..=self.random.below(8) {
            self.flush(&mut recording);
            if self.disk.has_ended() {
                break;
            }
            self.between(&recording);
        }
        if self.end == End::PowerLost && !self.disk.has_ended() && self.random.below(3) > 0 {
            return Outcome::Cut;
        }
        let outcome = self.finish(recording);
        if self.disk.has_ended() {
            return Outcome::Cut;
        }
        outcome
    }

    fn create(&self) -> Result<Recording, CaptureWriteError> {
        let clock = Clock::new(START_NS, 1_735_689_600_000_000_000);
        let mut info = example(clock, Rung::Bpf);
        info.mode = self.collector.mode();
        info.roster.clone_from(&self.collector.roster);
        let ours = Directory::make(&self.directory).unwrap();
        Recording::create_in(ours.asking(self.disk.clone()), info)
    }

    fn flush(&mut self, recording: &mut Recording) {
        let refused = refused(recording);
        let facts = self.collector.flush();
        recording.set_roster(&self.collector.roster).unwrap();
        recording.record(&facts).unwrap();
        let told = &self.collector.told.last().unwrap().halts;
        let taken = told.len() - (self::refused(recording) - refused);
        self.taken.extend_from_slice(&told[..taken]);
    }

    fn between(&mut self, recording: &Recording) {
        match self.random.below(12) {
            0 => self.disk.write_back(),
            1 => self.disk.set_room(None),
            2 => self.disk.set_room(Some(8_000 + self.random.below(150_000))),
            3 => self.disk.heal(),
            4 => law::while_recording(&self.directory, recording, &self.taken),
            _ => {}
        }
    }

    fn finish(&mut self, recording: Recording) -> Outcome {
        let ending = Ending {
            ended: Ended {
                time_ns: self.collector.now_ns,
                by: "duration".into(),
            },
            lost: self.collector.lost.clone(),
            overhead: None,
        };
        self.ending = self.end != End::Killed;
        match self.end {
            End::Abandon => match recording.abandon(ending) {
                Ok(()) => Outcome::Abandoned,
                Err(_) => Outcome::Cut,
            },
            End::Killed => Outcome::Cut,
            End::Finish | End::PowerLost => match recording.finish(ending) {
                Ok(_) => Outcome::Finished,
                Err(_) => Outcome::NotFinished,
            },
        }
    }
}

/// Rows of halts that the disk did not take.
fn refused(recording: &Recording) -> usize {
    let refused = recording.refused.get(&Table::Halts).copied();
    usize::try_from(refused.unwrap_or(0)).unwrap()
}

fn plan(random: &mut SplitMix64, end: End, lies: bool) -> Plan {
    let mut plan = Plan {
        lies,
        writes_short: random.below(3) == 0,
        ..Plan::default()
    };
    let stretch = |random: &mut SplitMix64| {
        let first = random.below(150);
        first..first + 1 + random.below(60)
    };
    if random.below(3) == 0 {
        plan.room = Some(60_000 + random.below(60_000));
    }
    for _ in 0..random.below(3) {
        plan.fails.push(stretch(random));
    }
    if random.below(3) == 0 {
        plan.no_descriptors.push(stretch(random));
    }
    if matches!(end, End::Killed | End::PowerLost) {
        plan.ends_before = Some(1 + random.below(260));
    }
    plan
}

fn live(seed: u64, directory: PathBuf) {
    let mut world = World::new(seed, directory);
    let outcome = world.run();
    law::holds(&world, outcome);
}

#[test]
fn every_seed_ends_in_a_capture_that_is_read_with_every_loss_reported() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().unwrap());
    let seed: Option<u64> = number("HALTWISE_SEED");
    let worlds = number("HALTWISE_WORLDS").unwrap_or(if seed.is_some() { 1 } else { 1_000 });
    let seed = seed.unwrap_or(0);
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let run = |worker: u64| {
        // In memory where that can be had.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let dir = dir.unwrap();
        for world in (worker..worlds).step_by(usize::try_from(workers).unwrap()) {
            let seed = seed + world;
            let path = dir.path().join(seed.to_string());
            let lived = std::panic::catch_unwind(|| live(seed, path.clone()));
            assert!(lived.is_ok(), "HALTWISE_SEED={seed} repeats it");
            drop(crate::files::directory::remove_all(&path));
        }
    };
    std::thread::scope(|scope| {
        let run = &run;
        (0..workers).for_each(|worker| drop(scope.spawn(move || run(worker))));
    });
}
