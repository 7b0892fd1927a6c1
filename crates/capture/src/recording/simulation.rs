//! A recorder on a disk that is full, fails, writes short, lies, runs out of descriptors and loses power, by seed.
//!
//! Law: whatever happens, the capture is read, and its halts are those that were reported: as rows or as losses, to
//! the unit. Where the recorder did not come to its end, the capture says that it was cut, and its rows
//! are the first of those that were written.
//!
//! A world that breaks the law prints its seed: `HALTWISE_SEED=N cargo test -p haltwise-capture simulation` runs
//! that one, and `HALTWISE_WORLDS=N` so many from there on.

mod disk;
#[path = "../../tests/it/facts.rs"]
mod facts;
mod law;
#[path = "../../tests/it/read.rs"]
mod read;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use haltwise_core::event::{Facts, Halt, Vcpu, Vm};
use haltwise_core::ids::{Tid, VcpuId, VmIndex};
use haltwise_core::profile::Rows;
use haltwise_core::recording::Roster;
use haltwise_core::workload::SplitMix64;

use self::disk::{Plan, SimulatedDisk};
use self::facts::{Draw, ending, info};
use super::{Ending, Recording};
use crate::error::CaptureWriteError;
use crate::files::Directory;
use crate::table::Table;

/// Facts of every kind, and VMs that come.
#[derive(Debug)]
struct Collector {
    draw: Draw,
    roster: Roster,
    with_samples: bool,
    /// Length of the VMs' names. Few VMs with long ones need more room in `capture.json` than was kept for it.
    name: usize,
    /// The flushes so far, the halts of each in order of their start.
    reported: Vec<Facts>,
    /// Losses by place, as the recorder sums them up.
    lost: BTreeMap<String, u64>,
}

impl Collector {
    fn new(seed: u64) -> Self {
        let mut random = SplitMix64(seed);
        let mut collector = Self {
            with_samples: random.below(8) == 0,
            name: if random.below(16) == 0 { 25_000 } else { 0 },
            draw: Draw(random),
            roster: Roster::default(),
            reported: Vec::new(),
            lost: BTreeMap::new(),
        };
        collector.vm_comes();
        collector
    }

    fn vm_comes(&mut self) {
        let number = u32::try_from(self.roster.vms.len()).unwrap();
        let index = VmIndex(number);
        self.roster.vms.push(Vm {
            index,
            name: format!("vm-{number:0>width$}", width = self.name),
            ..Vm::default()
        });
        for id in 0..2 {
            self.roster.vcpus.push(Vcpu {
                vm: index,
                id: VcpuId(id),
                tid: Tid(10 * number + id),
                ..Vcpu::default()
            });
        }
    }

    fn flush(&mut self) -> Facts {
        if self.draw.0.below(3) == 0 && self.roster.vms.len() < 4 {
            self.vm_comes();
        }
        let mut facts = self.draw.facts();
        if !self.with_samples {
            facts.profile = Rows::default();
        }
        for lost in &mut facts.lost {
            // So that sums do not overflow.
            lost.count %= 1_000;
            *self.lost.entry(lost.place.clone()).or_default() += lost.count;
        }
        let mut reported = facts.clone();
        reported.halts.sort_by_key(|halt| halt.start_ns);
        self.reported.push(reported);
        facts
    }
}

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
        let mut plan = plan(&mut random, end, lies);
        let collector = Collector::new(random.next_u64());
        if collector.name > 0 {
            // Room for the first VM, and not for all of them.
            plan.room = Some(110_000 + random.below(20_000));
        }
        let disk = SimulatedDisk::new(&directory, random.next_u64(), plan);
        Self {
            seed,
            collector,
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
            self.between();
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
        let mut info = info();
        info.roster.clone_from(&self.collector.roster);
        let ours = Directory::make(&self.directory).unwrap();
        Recording::create_in(ours.asking(self.disk.clone()), info)
    }

    fn flush(&mut self, recording: &mut Recording) {
        let refused = refused(recording);
        let facts = self.collector.flush();
        recording.set_roster(&self.collector.roster).unwrap();
        recording.record(&facts).unwrap();
        let halts = &self.collector.reported.last().unwrap().halts;
        let taken = halts.len() - (self::refused(recording) - refused);
        self.taken.extend_from_slice(&halts[..taken]);
    }

    fn between(&mut self) {
        match self.random.below(12) {
            0 => self.disk.write_back(),
            1 => self.disk.set_room(None),
            2 => self.disk.set_room(Some(8_000 + self.random.below(150_000))),
            3 => self.disk.heal(),
            4 => law::while_recording(&self.directory, &self.taken),
            _ => {}
        }
    }

    fn finish(&mut self, recording: Recording) -> Outcome {
        let ending = Ending {
            lost: self.collector.lost.clone(),
            ..ending()
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
