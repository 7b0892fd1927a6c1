//! `async-block`: a disk served while the vCPU waits in its exit, against served by a worker beside it.
//!
//! The source let disk DMA of Xen's guests complete asynchronously instead of blocking the vCPU. Here a guest
//! writes blocks to a virtio disk and reads them back, with a bit of work beside each request. In one
//! variant its notification is an exit to the VMM, which does the I/O before the vCPU goes on; in the others it
//! is an eventfd that wakes a thread, and the guest works meanwhile. That thread waits for the file itself, or hands
//! transfers to a ring of `io_uring`, where this system allows one. The file is written through to the disk
//! (`O_DSYNC`), so that there is something to wait for. At the end the disk is held against what so many rounds leave.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use anyhow::Context as _;
use rustix::fs::{Mode, OFlags};
use tempfile::NamedTempFile;

use super::{Block, Conclusion, Effect, Experiment, Integrity, Results, Source, Trial};
use crate::device::Shared;
use crate::device::block::ring::Ring;
use crate::device::block::{BlockBoard, BlockDevice, ENTRIES, SECTOR, Server};
use crate::device::machine::{Ended, Machine};
use crate::guest::disk;
use crate::host_thread::HostThread;
use haltwise_lab::clock;
use haltwise_lab::event::{Event, Flag};
use haltwise_lab::memory::param;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "async-block",
    title: "a disk served by a worker, against inside the vCPU's exit",
    source: Source {
        document: "Intel Technology Journal 10(3), 2006: tuning VT-x guests on Xen",
        reports: &["disk DMA completed asynchronously instead of blocking the vCPU: +8 %"],
    },
    scaled: None,
    figures: FIGURES,
    variants: || {
        variants! {
            GROUP, IN_EXIT, "the VMM does the I/O before the vCPU goes on";
            GROUP, BY_WORKER, "an eventfd wakes a thread that does the I/O";
            GROUP, BY_RING, "an eventfd wakes a thread that hands the I/O to io_uring";
        }
    },
    effects,
    integrity: || {
        vec![Integrity::of(
            "the disk holds what the guest wrote",
            "correct",
            GROUP,
            1.0,
        )]
    },
    limits: &[
        "a guest that never waits for its requests is the best that can happen to a disk served beside it",
    ],
    on_your_host: "the finding `vmm-devices` names devices that the VMM serves while the vCPU waits",
    differs: "this guest has one request under way and can always work meanwhile, so its progress grows by \
              all the time that the disk takes; the source's load spends most of its time on other things",
    run: run_one,
    conclude,
};

figures! { of: Stored;
    "requests", "1/s", More, "requests of 4 KiB, writes and reads", of.ended.per_second(of.requests());
    "time", "us", Less, "from one request to the next", of.each(of.ended.elapsed_us());
    "service", "us", Neither, "of that, the disk's: from taken to used", of.each(of.serving_us());
    "progress", "1/s", More, "turns of work beside them", of.ended.per_second(of.work.into());
    "exits", "", Less, "exits to the VMM for each request", of.each(of.ended.exits_to_vmm() as f64);
    "cpu", "us", Neither, "CPU of the vCPU thread for each request", of.each(of.ended.cpu_us());
    "worker-cpu", "us", Neither, "CPU of the worker for each request, without the kernel's own threads",
        of.each(of.worker_cpu_ns as f64 / 1e3);
    "switches", "", Less, "times that the vCPU thread waited, for each request", of.each(of.ended.switches());
    "correct", "", More, "1 if every block came back and the disk holds them, byte for byte; 0 if not",
        f64::from(u8::from(of.correct));
}

fn effects() -> Vec<Effect> {
    effects! {
        Claim "progress beside requests", "progress", GROUP, [IN_EXIT, BY_WORKER], More, "+8 %";
        Claim "progress beside requests, with io_uring", "progress", GROUP, [IN_EXIT, BY_RING], More, "+8 %";
        Construction "waits of the vCPU thread", "switches", GROUP, [IN_EXIT, BY_WORKER], Less,
            "does not block the vCPU";
        Construction "exits for each request", "exits", GROUP, [IN_EXIT, BY_WORKER], Less, "does not block the vCPU";
    }
}

const GROUP: &str = "virtio disk";
const IN_EXIT: &str = "in the exit";
const BY_WORKER: &str = "by a worker";
const BY_RING: &str = "by io_uring";

/// Turns of work with a request, whichever thread serves it.
const WORK: u32 = 50;

struct Serving {
    device: Shared<BlockDevice>,
    kicks: Arc<Event>,
}

impl Serving {
    fn wait_for_the_file(&self, stop: &Flag) -> std::io::Result<()> {
        while !stop.is_raised() {
            clock::wait_any([self.kicks.as_fd(), stop.as_fd()], None)?;
            if self.kicks.take()? > 0 {
                self.device.lock().serve();
            }
        }
        Ok(())
    }

    fn with_ring(&self, mut ring: Ring, stop: &Flag) -> std::io::Result<()> {
        let mut under_way = BTreeMap::new();
        while !stop.is_raised() {
            clock::wait_any([self.kicks.as_fd(), ring.as_fd(), stop.as_fd()], None)?;
            self.kicks.take()?;
            while let Some(over) = ring.completed() {
                if let Some(request) = under_way.remove(&over.number) {
                    let mut device = self.device.lock();
                    device.give_back(&request, &over.transfer, over.result.is_ok());
                }
            }
            while ring.has_room()
                && let Some((request, transfer)) = self.device.lock().take()
            {
                under_way.insert(ring.begin(transfer)?, request);
            }
            ring.submit()?;
        }
        Ok(())
    }
}

/// Serves a device whenever the guest notifies it, on a CPU of its own if there is one; with a ring, if there is one.
fn worker(
    serving: Serving,
    ring: Option<Ring>,
    cpu: Option<u32>,
) -> anyhow::Result<HostThread<u64>> {
    HostThread::start("block-worker", cpu, move |stop: &Flag| {
        match ring {
            Some(ring) => serving.with_ring(ring, stop)?,
            None => serving.wait_for_the_file(stop)?,
        }
        Ok(clock::thread_cpu_ns())
    })
}

struct Stored {
    ended: Ended,
    device: Shared<BlockDevice>,
    file: NamedTempFile,
    worker_cpu_ns: u64,
    work: u32,
    correct: bool,
}

impl Stored {
    fn requests(&self) -> f64 {
        f64::from(self.ended.rounds) * 2.0
    }

    fn each(&self, total: f64) -> f64 {
        total / self.requests()
    }

    fn serving_us(&self) -> f64 {
        self.device.lock().serving_ns as f64 / 1e3
    }

    fn is_correct(&self) -> anyhow::Result<bool> {
        let mut stored = vec![0; (disk::BLOCKS * disk::BLOCK) as usize];
        let read = self.file.as_file().read_exact_at(&mut stored, 0);
        read.context("read the disk back")?;
        let device = self.device.lock();
        let served = device.served;
        Ok(self.ended.vm.memory.word(0, disk::ERRORS)? == 0
            && (served.refused, served.failed) == (0, 0)
            && device.transport.refused == 0
            && stored == disk::contents(self.ended.rounds))
    }
}

fn backing() -> std::io::Result<(NamedTempFile, File)> {
    let file = NamedTempFile::new()?;
    file.as_file()
        .set_len((disk::BLOCKS * disk::BLOCK).into())?;
    let flags = OFlags::RDWR | OFlags::DSYNC | OFlags::CLOEXEC;
    let through = rustix::fs::open(file.path(), flags, Mode::empty())?;
    Ok((file, File::from(through)))
}

fn ring(file: &File) -> anyhow::Result<Ring> {
    let same = file.try_clone();
    let ring = same.and_then(|file| Ring::new(file, ENTRIES));
    ring.context("set up io_uring")
}

/// Why this system allows no ring, if it does not.
fn why_no_ring() -> Option<String> {
    let (_file, through) = backing().ok()?;
    let refused = ring(&through).err()?;
    Some(format!(
        "{refused:#}; the worker without it is what is left"
    ))
}

/// Writes and reads back for the trial's time, or so many rounds.
fn store(trial: &Trial<'_>, rounds: Option<u32>) -> anyhow::Result<Stored> {
    let machine = Machine::create("disk", true, disk::program())?;
    disk::prepare(&machine.vm.memory)?;
    machine.vm.memory.set_word(0, param::PERIOD, WORK)?;
    let (file, through) = backing().context("make a file for the disk")?;
    let sectors = u64::from(disk::BLOCKS * disk::BLOCK) / SECTOR;
    let memory = machine.vm.memory.mapped().clone();
    let ring = match trial.variant {
        2 => Some(ring(&through)?),
        _ => None,
    };
    let device = BlockDevice::new(through, sectors, memory).context("make a queue")?;
    let device = Shared::new(device);
    let (worker, server) = if trial.variant == 0 {
        (None, Server::Exit)
    } else {
        let kicks = Arc::new(Event::new().context("create an eventfd")?);
        machine.notify(0, &kicks)?;
        let serving = Serving {
            device: device.clone(),
            kicks: Arc::clone(&kicks),
        };
        let worker = worker(serving, ring, trial.own_host_cpu())?;
        (Some(worker), Server::Worker(kicks))
    };
    let machine = machine.with(BlockBoard {
        device: device.clone(),
        server,
    });
    let ended = trial.run(machine, trial.own_vcpu_cpu(), rounds);
    let worker_cpu_ns = worker.map_or(Ok(0), HostThread::end);
    let ended = ended?;
    let mut stored = Stored {
        work: ended.vm.memory.word(0, disk::WORK)?,
        ended,
        device,
        file,
        worker_cpu_ns: worker_cpu_ns?,
        correct: false,
    };
    stored.correct = stored.is_correct()?;
    Ok(stored)
}

fn run_one(trial: &Trial<'_>) -> anyhow::Result<Block> {
    if trial.variant == 2
        && let Some(why) = why_no_ring()
    {
        return Ok(Block {
            note: Some(why),
            ..Block::default()
        });
    }
    let stored = store(trial, None)?;
    Ok(figures(Block::of([&stored.ended.counts]), &stored))
}

fn conclude(results: &Results<'_>) -> Conclusion {
    let of_variant = |name: &str| {
        let median = |figure: &str| results.median(GROUP, name, figure);
        Some(format!(
            "{name}: a request takes {:.0} us, {:.0} us of them at the disk; the vCPU thread ran {:.0} us",
            median("time")?,
            median("service")?,
            median("cpu")?
        ))
    };
    let notes = [IN_EXIT, BY_WORKER, BY_RING]
        .into_iter()
        .filter_map(of_variant);
    let why = "with one request under way a worker spares no time at the disk; a vCPU that works instead of waiting \
         needs its CPU, and where it ran for less than a request took, others had it";
    notes.chain([why.to_owned()]).collect()
}

#[cfg(test)]
mod test;
