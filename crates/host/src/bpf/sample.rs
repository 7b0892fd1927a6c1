//! Samples of VMMs, kept in the kernel by a program of its own (`sample.bpf.c`).
//!
//! The rings belong to [`crate::profile`]; here is the program, and the maps by which it is told whom
//! to sample and where samples go.

mod skel;

use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject, PerfEventOpts};

use self::skel::types::{sample_count, sample_tag};
use self::skel::{SampleSkel, SampleSkelBuilder};
use super::attach::{explain, hush_libbpf};
use super::program;
use crate::collector::CollectError;

// As `profile::record` reads it.
const _: () = assert!(size_of::<sample_tag>() == 16);
const _: () = assert!(offset_of!(sample_tag, period) == 0);
const _: () = assert!(offset_of!(sample_tag, reason) == 8);
const _: () = assert!(offset_of!(sample_tag, event) == 12);
const _: () = assert!(offset_of!(sample_tag, isa) == 13);
const _: () = assert!(offset_of!(sample_tag, phase) == 14);

pub(crate) struct SampleFilter {
    skel: SampleSkel<'static>,
    links: Vec<Link>,
}

impl std::fmt::Debug for SampleFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SampleFilter")
            .field("links", &self.links.len())
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counted {
    /// Times that an event fired, whoever ran.
    pub(crate) fired: u64,
    pub(crate) kept: u64,
    /// Samples that found no room.
    pub(crate) lost: u64,
}

impl SampleFilter {
    /// Loads the program for so many CPUs. `exit_threads`: what the programs that count exits know.
    pub(crate) fn load(
        cpus: u32,
        exit_threads: Option<BorrowedFd<'_>>,
    ) -> Result<Self, CollectError> {
        hush_libbpf();
        // As the halt collector's: a few words, once or twice in the life of a process.
        let place: &'static mut MaybeUninit<OpenObject> =
            Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = SampleSkelBuilder::default()
            .open(place)
            .map_err(|error| explain("open the BPF program for samples", &error))?;
        let sized = open.maps.rings.set_max_entries(cpus);
        sized.map_err(|error| explain("size the map of rings", &error))?;
        if let Some(threads) = exit_threads {
            let reused = open.maps.threads.reuse_fd(threads);
            reused.map_err(|error| explain("share what is known of exits", &error))?;
            if let Some(settings) = open.maps.rodata_data.as_deref_mut() {
                settings.exits_known = true;
            }
        }
        let skel = open
            .load()
            .map_err(|error| explain("load the BPF program for samples", &error))?;
        let links = Vec::new();
        Ok(Self { skel, links })
    }

    pub(crate) fn add(&self, pid: u32) -> Result<(), CollectError> {
        let map = &self.skel.maps.sampled;
        map.update(&pid.to_ne_bytes(), &[1], MapFlags::ANY)
            .map_err(|error| explain("note whom to sample", &error))
    }

    pub(crate) fn remove(&self, pid: u32) {
        // It need not be there.
        drop(self.skel.maps.sampled.delete(&pid.to_ne_bytes()));
    }

    /// Sends the samples of a CPU to this event, which must be open on it.
    pub(crate) fn send(&self, cpu: u32, to: RawFd) -> Result<(), CollectError> {
        let map = &self.skel.maps.rings;
        map.update(&cpu.to_ne_bytes(), &to.to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| explain("join the ring of a CPU", &error))
    }

    /// Runs the program whenever this event fires, and starts the event. `place` is told with each
    /// sample.
    pub(crate) fn attach(&mut self, event: OwnedFd, place: u64) -> Result<(), CollectError> {
        let options = PerfEventOpts {
            cookie: place,
            ..PerfEventOpts::default()
        };
        let program = &self.skel.progs.on_sample;
        let link = program
            .attach_perf_event_with_opts(event.as_raw_fd(), options)
            .map_err(|error| explain("attach the BPF program for samples", &error))?;
        // The link closes it.
        let _ = event.into_raw_fd();
        self.links.push(link);
        Ok(())
    }

    /// Ends sampling. What was counted can still be read.
    pub(crate) fn detach(&mut self) {
        self.links.clear();
    }

    pub(crate) fn counted(&self) -> Result<Counted, CollectError> {
        let count = |what: sample_count| -> Result<u64, CollectError> {
            let map = &self.skel.maps.counts;
            let per_cpu = map
                .lookup_percpu(&what.0.to_ne_bytes(), MapFlags::ANY)
                .map_err(|error| explain("read the counts of samples", &error))?;
            let per_cpu = per_cpu.unwrap_or_default();
            let counts = per_cpu
                .iter()
                .filter_map(|bytes| Some(u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?)));
            Ok(counts.sum())
        };
        Ok(Counted {
            fired: count(sample_count::SAMPLE_COUNT_FIRED)?,
            kept: count(sample_count::SAMPLE_COUNT_KEPT)?,
            lost: count(sample_count::SAMPLE_COUNT_LOST)?,
        })
    }

    /// What a run of the program takes, in ns, where the kernel was asked to time programs meanwhile.
    pub(crate) fn ns_per_run(&self) -> Option<f64> {
        let runs = program::run_count(self.skel.progs.on_sample.as_fd());
        (runs.count > 0).then(|| runs.time_ns as f64 / runs.count as f64)
    }
}
