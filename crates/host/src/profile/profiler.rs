//! Sampling: starts the events, drains the rings, hands over rows.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use haltwise_core::event::Lost;
use haltwise_core::profile::{Event, Recorded, Rows};
use haltwise_core::recording::{Missing, Roster};

use super::ProfileOptions;
use super::open::{self, OpenError, Ring};
use super::symbol_cache::{SampledThreads, SymbolCache};
use super::symbols::Symbols;
use crate::bpf::sample::{Counted, SampleFilter};
use crate::collector::{CollectError, Losses, push_lost};
use crate::perf::open::{is_gone, refused};
use crate::root::Root;
use crate::{clock, cpus};

/// Between two looks at who is still there, and which CPUs are.
const LOOK_NS: u64 = 1_000_000_000;

/// Events sampled beside time, where they are available and nothing else was asked for.
const BESIDE: [Event; 3] = [Event::Instructions, Event::CacheMisses, Event::DtlbMisses];

#[derive(Debug)]
pub struct Profiler {
    root: Root,
    options: ProfileOptions,
    events: Vec<Event>,
    filter: Option<SampleFilter>,
    exits_told: bool,
    rings: BTreeMap<u32, Ring>,
    sampled_threads: SampledThreads,
    symbol_cache: SymbolCache,
    symbols: Symbols,
    missing: Vec<Missing>,
    looked_ns: u64,
    counted: Counted,
    losses: Losses,
    samples: u64,
}

impl Profiler {
    /// Starts sampling. `exit_threads` is what
    /// [`Collector::exit_threads`](crate::collector::Collector::exit_threads) gives; `by_bpf`: whether
    /// BPF may be used.
    pub fn start(
        options: ProfileOptions,
        root: &Root,
        exit_threads: Option<BorrowedFd<'_>>,
        by_bpf: bool,
    ) -> Result<Self, CollectError> {
        let online = cpus::online(root)?;
        let mut missing = Vec::new();
        let events = choose(&options, online.first().copied().unwrap_or(0), &mut missing)?;
        let filter = if by_bpf {
            match SampleFilter::load(cpus::end(root, &online), exit_threads) {
                Ok(filter) => Some(filter),
                Err(error) => {
                    missing.push(without_bpf(&error));
                    None
                }
            }
        } else {
            None
        };
        let exits_told = filter.is_some() && exit_threads.is_some();
        if !exits_told {
            missing.push(Missing::new(
                "samples.reason",
                "exits were not recorded: the exit of a sample is known by its stack alone",
            ));
        }
        let symbols = Symbols::load(root);
        if !symbols.knows_kernel() {
            missing.push(Missing::new(
                "sample_frames.symbol",
                "functions of the kernel have no names: /proc/kallsyms cannot be read or \
                         hides its addresses (kernel.kptr_restrict)",
            ));
        }
        let mut profiler = Self {
            root: root.clone(),
            sampled_threads: SampledThreads::new(root, &options.vms),
            options,
            events,
            filter,
            exits_told,
            rings: BTreeMap::new(),
            symbol_cache: SymbolCache::default(),
            symbols,
            missing,
            looked_ns: clock::monotonic_ns(),
            counted: Counted::default(),
            losses: Losses::default(),
            samples: 0,
        };
        profiler.open_cpus(online)?;
        Ok(profiler)
    }

    fn open_cpus(&mut self, online: Vec<u32>) -> Result<(), CollectError> {
        let bytes = ring_bytes(online.len());
        for cpu in online {
            if self.rings.contains_key(&cpu) {
                continue;
            }
            let filter = self.filter.as_mut();
            match Ring::open(cpu, self.options.hz, &self.events, bytes, filter) {
                Ok(ring) => drop(self.rings.insert(cpu, ring)),
                // It went offline in between.
                Err(OpenError::Io(error)) if is_gone(&error) => {}
                Err(OpenError::Io(error)) => return Err(explain(cpu, error)),
                Err(OpenError::Collect(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Moves what is ready into `rows`, and what was lost into `lost`.
    pub fn drain(
        &mut self,
        roster: &Roster,
        rows: &mut Rows,
        lost: &mut Vec<Lost>,
    ) -> Result<(), CollectError> {
        let now_ns = clock::monotonic_ns();
        let thorough = now_ns.saturating_sub(self.looked_ns) >= LOOK_NS;
        if thorough {
            self.looked_ns = now_ns;
            let online = cpus::online(&self.root)?;
            self.open_cpus(online)?;
        }
        let changes = self.sampled_threads.update(roster, thorough);
        for pid in changes.gone {
            if let Some(filter) = &self.filter {
                filter.remove(pid);
            }
        }
        for pid in changes.came {
            // A number that was another's before says nothing of this one's code.
            self.symbols.forget(pid);
            self.symbol_cache.forget(pid);
            self.symbols.meet(pid, now_ns);
            if let Some(filter) = &self.filter {
                filter.add(pid)?;
            }
        }
        self.read_rings(rows, lost, now_ns);
        self.count(lost, now_ns)
    }

    pub fn stop(
        &mut self,
        roster: &Roster,
        rows: &mut Rows,
        lost: &mut Vec<Lost>,
    ) -> Result<(), CollectError> {
        if let Some(filter) = &mut self.filter {
            filter.detach();
        }
        for ring in self.rings.values_mut() {
            ring.disable();
        }
        self.drain(roster, rows, lost)?;
        self.rings.clear();
        self.missing.extend(self.symbols.missing());
        Ok(())
    }

    fn read_rings(&mut self, rows: &mut Rows, lost: &mut Vec<Lost>, now_ns: u64) {
        let first = rows.samples.len();
        for ring in self.rings.values_mut() {
            let told = ring.read(&self.events, |raw, event| {
                let (sampled_threads, symbols) = (&mut self.sampled_threads, &mut self.symbols);
                self.symbol_cache
                    .keep(&raw, event, sampled_threads, symbols, rows);
            });
            // The program counts its own losses, and exactly.
            let from_ring = if self.filter.is_some() { 0 } else { told.lost };
            let place = "samples: ring full (of all processes)";
            push_lost(lost, now_ns, from_ring, place);
            let place = "samples: records that could not be read";
            push_lost(lost, now_ns, told.unreadable, place);
        }
        self.samples += (rows.samples.len() - first) as u64;
        rows.samples[first..].sort_by_key(|sample| (sample.time_ns, sample.cpu));
    }

    fn count(&mut self, lost: &mut Vec<Lost>, now_ns: u64) -> Result<(), CollectError> {
        let Some(filter) = &self.filter else {
            return Ok(());
        };
        self.counted = filter.counted()?;
        let counts = [(self.counted.lost, "samples: ring full")];
        self.losses.report(lost, now_ns, counts);
        Ok(())
    }

    pub fn recorded(&self) -> Recorded {
        Recorded {
            hz: self.options.hz,
            events: self.events.clone(),
            exits_told: self.exits_told,
        }
    }

    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// CPU time that the kernel spent for the program that keeps samples, where it accounted that. The
    /// interrupts that made it run are not in it.
    pub fn kernel_cpu_ns(&self) -> Option<u64> {
        let per_run = self.filter.as_ref()?.ns_per_run()?;
        Some(whole(per_run * self.counted.fired as f64))
    }

    /// Cost of a kept sample in the kernel, in ns, where it was accounted.
    pub fn ns_per_sample(&self) -> Option<f64> {
        let kept = self.counted.kept;
        (kept > 0).then_some(self.kernel_cpu_ns()? as f64 / kept as f64)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time: not negative and far below 2^63; the cast saturates"
)]
fn whole(ns: f64) -> u64 {
    ns.round() as u64
}

/// The events to sample: those asked for, which must be there; else what there is.
fn choose(
    options: &ProfileOptions,
    cpu: u32,
    missing: &mut Vec<Missing>,
) -> Result<Vec<Event>, CollectError> {
    let there = |event| open::is_there(event, options.hz, cpu);
    if !options.events.is_empty() {
        for event in &options.events {
            there(*event).map_err(|error| explain_event(*event, error))?;
        }
        return Ok(options.events.clone());
    }
    let mut absent = Vec::new();
    let mut events = Vec::new();
    if there(Event::Cycles).is_ok() {
        events.push(Event::Cycles);
    } else {
        there(Event::CpuClock).map_err(|error| explain_event(Event::CpuClock, error))?;
        events.push(Event::CpuClock);
        absent.push(Event::Cycles.as_str());
    }
    for event in BESIDE {
        match there(event) {
            Ok(()) => events.push(event),
            Err(_) => absent.push(event.as_str()),
        }
    }
    if !absent.is_empty() {
        let reason = format!("this host does not count {}", absent.join(", "));
        missing.push(Missing::new("samples.event", reason));
    }
    Ok(events)
}

fn without_bpf(error: &CollectError) -> Missing {
    let why = "without BPF, samples of all processes are read and most dropped";
    Missing::new("samples", format!("{why}: {error}"))
}

fn explain(cpu: u32, error: std::io::Error) -> CollectError {
    refused(format!("sample CPU {cpu}"), error)
}

fn explain_event(event: Event, error: std::io::Error) -> CollectError {
    refused(format!("sample {event}"), error)
}

/// The ring of one of so many CPUs: from 256 KiB (a sample of the deepest stacks takes 2 KiB) to 2 MiB.
fn ring_bytes(cpus: usize) -> usize {
    let share = (16_usize << 20) / cpus.max(1);
    share
        .checked_next_power_of_two()
        .unwrap_or(usize::MAX)
        .clamp(256 << 10, 2 << 20)
}
