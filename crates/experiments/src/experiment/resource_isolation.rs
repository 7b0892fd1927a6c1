//! `resource-isolation`: classes of cache and memory bandwidth for a VM's threads.
//!
//! The source, Alibaba's talk, names this as its next plan and reports no figures. Here a VM makes exits that its
//! VMM handles, while a neighbour of the host streams through memory: alone, beside the neighbour, and beside it
//! with a class for each ([`crate::resctrl`]). What is timed is an exit's way through KVM and the VMM,
//! whose data the neighbour drives out of the cache.
//!
//! Classes are made only in a root that `--resctrl` names. Without one, a fake root takes their place: every step
//! is taken and taken back there, but no hardware isolates, so that variant has no times, and says so.

use std::hint::black_box;
use std::sync::mpsc;

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
use haltwise_lab::run::{Finished, run};

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
    figures: figures! {
        "exit-time", "us", Less, "CPU of the vCPU thread for each exit";
        "exits", "1/s", More, "exits that the VMM handled";
        "streamed", "MiB/s", Neither, "what the neighbour read";
        "placed", "", Neither, "threads placed in a class";
        "left-behind", "", Less, "classes still there after the restore";
        "occupancy", "MiB", Neither, "cache that the VM's class held";
    },
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
         what the plan rests on, and not a figure of its own",
    ],
    run: run_one,
    conclude,
};

const GROUP: &str = "a VM that makes exits";
const ALONE: &str = "alone";
const NEIGHBOUR: &str = "neighbour";
const CLASSES: &str = "neighbour, classes";
const PLAN: &str = "planned; no figures";

fn effects() -> Vec<Effect> {
    effects! {
        Claim "what a neighbour costs", "exit-time", GROUP, [ALONE, NEIGHBOUR], More, PLAN;
        Claim "what classes take back", "exit-time", GROUP, [NEIGHBOUR, CLASSES], Less, PLAN;
    }
}

fn variants() -> Vec<Variant> {
    variants! {
        GROUP, ALONE, "the VM, and nothing else of ours";
        GROUP, NEIGHBOUR, "a thread of the host streams through 64 MiB";
        GROUP, CLASSES, "the same, each in a class of its own";
    }
}

/// What a round of a thousand exits lasts, roughly, where exits are slow: makes rounds of a block's length.
const ROUND: Nanos = Nanos(20_000_000);

/// More than a last-level cache's share of most hosts.
const STREAMED_BYTES: usize = 64 << 20;
/// Words between two looks at the flag: some tens of microseconds.
const CHUNK: usize = 1 << 15;

/// A thread that streams, and its id; its end gives the bytes that it read.
struct Neighbour {
    thread: HostThread<u64>,
    tid: u32,
}

impl Neighbour {
    fn start(cpu: Option<u32>) -> anyhow::Result<Self> {
        let (sender, receiver) = mpsc::channel();
        let thread = HostThread::start("neighbour", None, move |stop: &Flag| {
            let tid = rustix::thread::gettid().as_raw_nonzero().get();
            let _ = sender.send(u32::try_from(tid).unwrap_or(0));
            // On the CPU of the VM it would take time, not cache.
            let _ = cpu.map(clock::pin);
            Ok(stream(stop))
        })?;
        let tid = receiver.recv().context("start a neighbour")?;
        Ok(Self { thread, tid })
    }
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

struct Placed {
    classes: Classes,
    threads: u64,
}

/// The classes' names: this process's, so that nobody else's are touched.
fn names() -> [String; 2] {
    ["vm", "neighbour"].map(|name| format!("haltwise-lab-{}-{name}", std::process::id()))
}

fn make(root: Root, neighbour: u32) -> anyhow::Result<Placed> {
    let split = root.discover()?.split();
    let path = root.path().display();
    let split = split.with_context(|| {
        format!("split `{path}` in two classes: it offers too few cache ways or classes")
    })?;
    let mut classes = Classes::new(root);
    for (name, schemata) in names().iter().zip(&split) {
        classes.make(name, schemata)?;
    }
    let [_, name] = names();
    let threads = u64::from(classes.place(&name, neighbour)?);
    Ok(Placed { classes, threads })
}

/// Puts the vCPUs' threads into the VM's class, once they run.
fn place(mut placed: Placed, stop: &Flag) -> anyhow::Result<Placed> {
    let [name, _] = names();
    while !stop.is_raised() {
        let threads = vcpu_threads().context("list our threads")?;
        for tid in &threads {
            placed.threads += u64::from(placed.classes.place(&name, *tid)?);
        }
        if !threads.is_empty() {
            break;
        }
        clock::wait_readable(stop, Some(Nanos(1_000_000))).context("wait for vCPUs")?;
    }
    Ok(placed)
}

/// Threads of this process that run vCPUs, by the names that the lab gives them.
fn vcpu_threads() -> std::io::Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc/self/task")? {
        let entry = entry?;
        // A thread may end meanwhile.
        let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if name.starts_with("vm0-vcpu") {
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
    let host_cpu = (trial.cpus.len() > 1).then(|| trial.host_cpu());
    load.vcpu_cpus = host_cpu.map(|_| trial.vcpu_cpu()).into_iter().collect();
    if trial.variant == 0 {
        let finished = run_whole(&load)?;
        return Ok(timed(Block::of(&finished.outcome), &finished.outcome));
    }
    let neighbour = Neighbour::start(host_cpu)?;
    if trial.variant == 1 {
        let finished = run_whole(&load)?;
        let block = timed(Block::of(&finished.outcome), &finished.outcome);
        return with_neighbour(block, &finished.outcome, neighbour);
    }
    with_classes(&load, neighbour)
}

/// Runs all rounds: a signal waits for their end, less than a second away.
fn run_whole(load: &Load) -> anyhow::Result<Finished> {
    let never = Event::new().context("create an eventfd")?;
    run(load, &never)
}

fn with_classes(load: &Load, neighbour: Neighbour) -> anyhow::Result<Block> {
    let folder = tempfile::tempdir().context("create a folder for a fake root")?;
    let root = match resctrl::granted() {
        Some(root) => root.clone(),
        None => Root::fake(folder.path())?,
    };
    let made = make(root.clone(), neighbour.tid)?;
    let placing = HostThread::start("placing", None, move |stop: &Flag| place(made, stop))?;
    let ran = run_whole(load);
    let mut placed = placing.end()?;
    let [name, _] = names();
    let used = root.monitor(&name);
    placed.classes.restore()?;
    let finished = ran?;
    let left = root
        .classes()?
        .iter()
        .filter(|class| names().contains(class))
        .count();
    let mut block = Block::of(&finished.outcome);
    if root.is_kernels() {
        block = timed(block, &finished.outcome);
        if let Some(bytes) = used.get("llc_occupancy") {
            block = block.with("occupancy", *bytes as f64 / f64::from(1 << 20));
        }
    } else {
        block.note = Some(
            "a fake root: every step was taken and taken back, but nothing isolates, so there are no \
             times (--resctrl names a real one)"
                .to_owned(),
        );
    }
    let block = block
        .with("placed", placed.threads as f64)
        .with("left-behind", left as f64);
    with_neighbour(block, &finished.outcome, neighbour)
}

fn timed(block: Block, outcome: &Outcome) -> Block {
    let vcpus = || outcome.vms.iter().flat_map(|vm| &vm.vcpus);
    let exits: u64 = vcpus().flat_map(|vcpu| vcpu.exits.values()).sum();
    // CPU time, not time: what others take of the CPU is none of the cache's doing.
    let cpu_ns: u64 = vcpus().map(|vcpu| vcpu.cpu_ns).sum();
    block
        .with("exit-time", cpu_ns as f64 / exits as f64 / 1e3)
        .with("exits", exits as f64 / (outcome.elapsed_ns as f64 / 1e9))
}

fn with_neighbour(block: Block, outcome: &Outcome, neighbour: Neighbour) -> anyhow::Result<Block> {
    let mebibytes = neighbour.thread.end()? as f64 / f64::from(1 << 20);
    let seconds = outcome.elapsed_ns as f64 / 1e9;
    Ok(block.with("streamed", mebibytes / seconds))
}

fn conclude(results: &Results<'_>) -> Conclusion {
    let median = |name: &str, figure: &str| results.median(GROUP, name, figure);
    let account = || {
        Some(format!(
            "{} threads were placed in classes and {} classes were left behind, by the median; an exit took \
             {:.2} us alone and {:.2} us beside the neighbour",
            median(CLASSES, "placed")?,
            median(CLASSES, "left-behind")?,
            median(ALONE, "exit-time")?,
            median(NEIGHBOUR, "exit-time")?,
        ))
    };
    let root = resctrl::granted().map(|root| root.path().display());
    Conclusion {
        differs: root.map_or_else(
            || {
                "no root of resctrl was named (--resctrl), so the classes were made in a fake one and could \
                 not isolate; the source reports no figures either"
                    .to_owned()
            },
            |root| format!("the source reports no figures; classes were made in `{root}`"),
        ),
        notes: account().into_iter().collect(),
        ..Conclusion::default()
    }
}
