//! Samples of VMMs, kept in the kernel by a program of its own (`sample.bpf.c`).
//!
//! The rings belong to [`crate::profile`]; here is the program, and the maps by which it is told whom
//! to sample and where samples go.

use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};

use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{Link, MapCore, MapFlags, PerfEventOpts};

use super::attach::{explain, open};
use super::program;
use super::program::count_of;
use super::skel::sample::types::{sample_count, sample_tag};
use super::skel::sample::{SampleSkel, SampleSkelBuilder};
use crate::collector::CollectError;
use crate::opaque::Opaque;

// As `profile::record` reads it.
const _: () = assert!(size_of::<sample_tag>() == 16);
const _: () = assert!(offset_of!(sample_tag, period) == 0);
const _: () = assert!(offset_of!(sample_tag, reason) == 8);
const _: () = assert!(offset_of!(sample_tag, event) == 12);
const _: () = assert!(offset_of!(sample_tag, isa) == 13);
const _: () = assert!(offset_of!(sample_tag, phase) == 14);

#[derive(Debug)]
pub(crate) struct SampleFilter {
    skel: Opaque<SampleSkel<'static>>,
    links: Vec<Link>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counted {
    /// Times that an event fired, whichever task ran.
    pub(crate) fired: u64,
    pub(crate) kept: u64,
    pub(crate) lost: u64,
}

impl SampleFilter {
    /// Loads the program for so many CPUs. `exit_threads`: what the programs that count exits know.
    pub(crate) fn load(
        cpus: u32,
        exit_threads: Option<BorrowedFd<'_>>,
    ) -> Result<Self, CollectError> {
        let mut open = open(SampleSkelBuilder::default())
            .map_err(explain("open the BPF program for samples"))?;
        let sized = open.maps.rings.set_max_entries(cpus);
        sized.map_err(explain("size the map of rings"))?;
        if let Some(threads) = exit_threads {
            let reused = open.maps.threads.reuse_fd(threads);
            reused.map_err(explain("share what is known of exits"))?;
            if let Some(settings) = open.maps.rodata_data.as_deref_mut() {
                settings.exits_known = true;
            }
        }
        let skel = open.load();
        let skel = skel.map_err(explain("load the BPF program for samples"))?;
        Ok(Self {
            skel: Opaque(skel),
            links: Vec::new(),
        })
    }

    pub(crate) fn add(&self, pid: u32) -> Result<(), CollectError> {
        let map = &self.skel.maps.sampled;
        map.update(&pid.to_ne_bytes(), &[1], MapFlags::ANY)
            .map_err(explain("note the processes to sample"))
    }

    pub(crate) fn remove(&self, pid: u32) {
        // It need not be there.
        drop(self.skel.maps.sampled.delete(&pid.to_ne_bytes()));
    }

    /// Sends the samples of a CPU to this event, which must be open on it.
    pub(crate) fn send(&self, cpu: u32, to: RawFd) -> Result<(), CollectError> {
        let map = &self.skel.maps.rings;
        map.update(&cpu.to_ne_bytes(), &to.to_ne_bytes(), MapFlags::ANY)
            .map_err(explain("join the ring of a CPU"))
    }

    /// Runs the program whenever this event fires, and starts it. `place` is told with each sample.
    pub(crate) fn attach(&mut self, event: OwnedFd, place: u64) -> Result<(), CollectError> {
        let options = PerfEventOpts {
            cookie: place,
            ..PerfEventOpts::default()
        };
        let program = &self.skel.progs.on_sample;
        let link = program
            .attach_perf_event_with_opts(event.as_raw_fd(), options)
            .map_err(explain("attach the BPF program for samples"))?;
        // The link closes it.
        let _ = event.into_raw_fd();
        self.links.push(link);
        Ok(())
    }

    pub(crate) fn detach(&mut self) {
        self.links.clear();
    }

    pub(crate) fn counted(&self) -> Result<Counted, CollectError> {
        let count = |what: sample_count| {
            count_of(&self.skel.maps.counts, what.0, "read the counts of samples")
        };
        Ok(Counted {
            fired: count(sample_count::SAMPLE_COUNT_FIRED)?,
            kept: count(sample_count::SAMPLE_COUNT_KEPT)?,
            lost: count(sample_count::SAMPLE_COUNT_LOST)?,
        })
    }

    /// Mean time of a run of the program, in ns, where the kernel was asked to time programs meanwhile.
    pub(crate) fn ns_per_run(&self) -> Option<f64> {
        let runs = program::run_count(self.skel.progs.on_sample.as_fd());
        (runs.count > 0).then(|| runs.time_ns as f64 / runs.count as f64)
    }
}
