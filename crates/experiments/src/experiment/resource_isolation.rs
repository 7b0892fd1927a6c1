//! `resource-isolation`: classes of cache and memory bandwidth for a VM's threads.
//!
//! The source, Alibaba's talk, names this as its next plan and reports no figures. Here a VM makes exits that its
//! VMM handles, while a neighbour of the host streams through memory: alone, beside the neighbour, and beside it
//! with a class for each ([`crate::resctrl`]). What is timed is an exit's way through KVM and the
//! VMM, whose data the neighbour drives out of the cache.
//!
//! Classes are made only in a root that `--resctrl` names. Without one, a fake root takes their place: every step
//! is taken and taken back there, but no hardware isolates, so that variant has no times, and says so.

use std::hint::black_box;

use anyhow::Context as _;
use haltwise_core::units::Nanos;

use super::{Block, Conclusion, Effect, Experiment, Integrity, Results, Source, Trial, Variant};
use crate::host_thread::HostThread;
use crate::resctrl::{self, Classes, Root};
use haltwise_lab::clock;
use haltwise_lab::event::{Event, Flag};
use haltwise_lab::guest::Guest;
use haltwise_lab::load::{Length, Load};
use haltwise_lab::outcome::Outcome;
use haltwise_lab::run::run;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "resource-isolation",
    title: "classes of cache and memory bandwidth for a VM beside a neighbour",
    source: Source {
        document: "Alibaba Cloud, KVM Forum 2017, KVM at the scale of millions of VMs",
        reports: &[
            "next plan: isolate cache, memory bandwidth and PCIe bandwidth with RDT",
            "no figures are reported",
        ],
    },
    scaled: None,
    figures: FIGURES,
    variants,
    effects,
    integrity: || {
        vec![Integrity {
            what: "no class is left behind",
            figure: "left-behind",
            group: GROUP,
            variants: &[CLASSES],
            demanded: 0.0,
        }]
    },
    limits: &[
        "the source has a plan and no measurement: that a neighbour costs and that classes take it back is \
         what the plan rests on, and no claim of its own",
    ],
    on_your_host: "no finding: haltwise does not set classes of cache and memory bandwidth",
    differs: "the source reports no figures; where no root of resctrl is named (--resctrl), the classes are made in a fake \
              one and cannot isolate",
    run: run_one,
    conclude,
};

figures! { of: Ran;
    "exit-time", "us", Less, "CPU of the vCPU thread for each exit",
        of.known().map(|of| of.outcome.cpu_us() / of.exits());
    "exits", "1/s", More, "exits that the VMM handled", of.known().map(|of| of.exits() / of.seconds());
    "streamed", "MiB/s", Neither, "what the neighbour read", of.streamed.map(|bytes| mebibytes(bytes) / of.seconds());
    "placed", "", Neither, "threads placed in a class", of.classes.map_or(0.0, |it| it.placed as f64);
    "left-behind", "", Less, "classes still there after the restore", of.classes.map(|it| it.left as f64);
    "occupancy", "MiB", Neither, "cache that the VM's class held",
        of.known().and_then(|of| Some(mebibytes(of.classes?.occupied?)));
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// A run, what a neighbour read meanwhile, and the classes that there were.
struct Ran {
    outcome: Outcome,
    streamed: Option<u64>,
    classes: Option<Used>,
}

#[derive(Clone, Copy)]
struct Used {
    placed: usize,
    left: usize,
    /// Bytes of cache, where the kernel tells.
    occupied: Option<u64>,
    is_fake: bool,
}

impl Ran {
    /// Nothing is known of times where classes isolate nothing.
    fn known(&self) -> Option<&Self> {
        let is_real = self.classes.is_none_or(|classes| !classes.is_fake);
        is_real.then_some(self)
    }

    fn exits(&self) -> f64 {
        let exits = self.outcome.vcpus().flat_map(|vcpu| vcpu.exits.values());
        exits.sum::<u64>() as f64
    }

    fn seconds(&self) -> f64 {
        self.outcome.elapsed_ns as f64 / 1e9
    }
}

const GROUP: &str = "a VM that makes exits";
const ALONE: &str = "alone";
const NEIGHBOUR: &str = "neighbour";
const CLASSES: &str = "neighbour, classes";

fn effects() -> Vec<Effect> {
    effects! {
        // Without classes there is none to be placed in.
        Construction "threads placed in a class", "placed", GROUP, [NEIGHBOUR, CLASSES], More, "planned; no figures";
    }
}

fn variants() -> Vec<Variant> {
    variants! {
        GROUP, ALONE, "the VM, and nothing else of ours";
        GROUP, NEIGHBOUR, "a thread of the host streams through 64 MiB";
        GROUP, CLASSES, "the same, each in a class of its own";
    }
}

/// Rough duration of a round of a thousand exits where exits are slow: makes rounds of a block's length.
const ROUND: Nanos = Nanos(20_000_000);

/// More than a last-level cache's share of most hosts.
const STREAMED_BYTES: usize = 64 << 20;
/// Words between two looks at the flag: some tens of microseconds.
const CHUNK: usize = 1 << 15;

/// A thread that streams; its end gives the bytes that it read.
fn neighbour(cpu: Option<u32>) -> anyhow::Result<HostThread<u64>> {
    HostThread::start(THREADS[1], None, move |stop: &Flag| {
        // On the CPU of the VM it would take time, not cache.
        let _ = cpu.map(clock::pin);
        Ok(stream(stop))
    })
}

fn stream(stop: &Flag) -> u64 {
    let memory = vec![1_u64; STREAMED_BYTES / size_of::<u64>()];
    let (mut sum, mut read) = (0_u64, 0);
    for chunk in memory.chunks(CHUNK).cycle() {
        if stop.is_raised() {
            break;
        }
        sum = chunk.iter().fold(sum, |sum, word| sum.wrapping_add(*word));
        read += size_of_val(chunk) as u64;
    }
    black_box(sum);
    read
}

/// Names of the threads that are placed begin so: those that the lab gives to vCPUs, and our own.
const THREADS: [&str; 2] = ["vm0-vcpu", "neighbour"];

/// The classes' names, of the same threads: this process's, so that no other process's are touched.
fn names() -> [String; 2] {
    ["vm", "neighbour"].map(|name| format!("haltwise-lab-{}-{name}", std::process::id()))
}

fn make(root: Root) -> anyhow::Result<Classes> {
    let split = root.discover()?.split();
    let path = root.path().display();
    let split = split.with_context(|| {
        format!("split `{path}` in two classes: it offers too few cache ways or classes")
    })?;
    let mut classes = Classes::new(root);
    for (name, schemata) in names().iter().zip(&split) {
        classes.make(name, schemata)?;
    }
    Ok(classes)
}

/// Puts threads into their classes, once they run.
fn place(mut classes: Classes, stop: &Flag) -> anyhow::Result<Classes> {
    for (class, name) in names().iter().zip(THREADS) {
        while !stop.is_raised() {
            let threads = threads_named(name).context("list our threads")?;
            for tid in &threads {
                classes.place(class, *tid)?;
            }
            if !threads.is_empty() {
                break;
            }
            clock::wait_readable(stop, Some(Nanos(1_000_000))).context("wait for threads")?;
        }
    }
    Ok(classes)
}

/// Threads of this process whose names begin so.
fn threads_named(begin: &str) -> std::io::Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc/self/task")? {
        let entry = entry?;
        // A thread may end meanwhile.
        let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if name.starts_with(begin) {
            found.extend(entry.file_name().to_string_lossy().parse::<u32>());
        }
    }
    Ok(found)
}

fn run_one(trial: &Trial<'_>) -> anyhow::Result<Block> {
    let mut load = Load::new(Guest::PortPoll);
    // It ends by itself: a guest that never halts is hard to stop where KVM emulates it.
    let rounds = u32::try_from(trial.length.0 / ROUND.0).unwrap_or(u32::MAX);
    load.length = Length::Rounds(rounds.max(1));
    load.rhythm.seed = trial.seed;
    "resource-isolation".clone_into(&mut load.name);
    load.vcpu_cpus = trial.own_vcpu_cpu().into_iter().collect();
    let neighbour = (trial.variant > 0).then(|| neighbour(trial.own_host_cpu()));
    let neighbour = neighbour.transpose()?;
    let (outcome, classes) = match trial.variant {
        2 => with_classes(&load)?,
        _ => (run_whole(&load)?, None),
    };
    let streamed = neighbour.map(HostThread::end);
    let ran = Ran {
        outcome,
        streamed: streamed.transpose()?,
        classes,
    };
    let fake = "a fake root: every step was taken and taken back, but nothing isolates, so there are no \
                times (--resctrl names a real one)";
    Ok(Block {
        note: ran.known().is_none().then(|| fake.to_owned()),
        ..figures(Block::of(ran.outcome.vcpus()), &ran)
    })
}

/// Runs all rounds: a signal waits for their end, less than a second away.
fn run_whole(load: &Load) -> anyhow::Result<Outcome> {
    let never = Event::new().context("create an eventfd")?;
    Ok(run(load, &never)?.outcome)
}

fn with_classes(load: &Load) -> anyhow::Result<(Outcome, Option<Used>)> {
    let folder = tempfile::tempdir().context("create a folder for a fake root")?;
    let root = match resctrl::granted() {
        Some(root) => root.clone(),
        None => Root::fake(folder.path())?,
    };
    let made = make(root.clone())?;
    let placing = HostThread::start("placing", None, move |stop: &Flag| place(made, stop))?;
    let ran = run_whole(load);
    let mut classes = placing.end()?;
    let placed = classes.placed();
    let [name, _] = names();
    let used = root.monitor(&name);
    classes.restore()?;
    let left = root.classes()?;
    let left = left.iter().filter(|class| names().contains(class));
    let used = Used {
        placed,
        left: left.count(),
        occupied: used.get("llc_occupancy").copied(),
        is_fake: !root.is_kernels(),
    };
    Ok((ran?, Some(used)))
}

fn conclude(_: &Results<'_>) -> Conclusion {
    let root = resctrl::granted().map(|root| root.path().display());
    let made = root.map(|root| format!("classes were made in `{root}`"));
    made.into_iter().collect()
}
