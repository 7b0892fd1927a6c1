//! From what was asked for to a recording that has begun.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, anyhow};
use haltwise_capture::files::directory::is_unused;
use haltwise_capture::info::{CaptureInfo, Clock, Tool};
use haltwise_capture::recording::Recording;
use haltwise_core::event::{Facts, Vm};
use haltwise_core::recording::{Missing, Mode, Roster, Rung, Side};
use haltwise_core::replay::calibration::written::Written;
use haltwise_core::topology::Cpu;
use haltwise_host::collector::{CollectOptions, Collector};
use haltwise_host::cpus::Cpus;
use haltwise_host::params::{Look, Watch};
use haltwise_host::profile::Profiler;
use haltwise_host::root::Root;
use haltwise_host::usage::Slow;
use haltwise_host::{clock, host_sample};

use super::RecordingRequest;
use super::ring::Ring;
use super::session::{Earlier, Session};
use crate::collect::attach::{
    attach, attach_idle, check_kvm, explain, recorded_exits, select, this_host,
};
use crate::exit::{Exit, Failure};
use crate::prices::kept;

/// Refuses a directory in use before anything is attached.
pub(crate) fn check_output(output: &Path) -> Result<(), Failure> {
    let context = || format!("write {}", output.display());
    let hint = "recorded data is never overwritten and goes where no other user can change it: name a \
                directory that does not exist yet";
    match is_unused(output) {
        Ok(true) => Ok(()),
        Ok(false) => Err(anyhow!("{}: the directory is not empty", context())),
        Err(error) => Err(anyhow!(error).context(context())),
    }
    .map_err(|error| Failure::new(Exit::Failed, error).hint(hint))
}

pub(crate) fn start(
    wanted: &RecordingRequest,
    root: &Root,
    ring: Option<Ring>,
) -> Result<Session, Failure> {
    if wanted.side.is_host() {
        check_kvm(root)?;
    }
    let exits = recorded_exits(wanted.exits.as_ref(), wanted.rung, root)?;
    let options = CollectOptions {
        mode: wanted.mode,
        vms: select(&wanted.vms, root)?,
        interval: wanted.interval,
        exits: wanted.exits.clone(),
        ..CollectOptions::default()
    };
    // Only that source counts exits: without it there is nothing to fall back to.
    let source = exits.as_ref().map_or(wanted.rung, |_| Some(Rung::Bpf));
    let price = price(wanted, root);
    let (mut collector, mode) = match wanted.side {
        Side::Host => (attach(source, &options, root)?, wanted.mode),
        Side::Guest => attach_idle(source, &options, root)?,
    };
    let profiler = (wanted.profile.as_ref())
        .map(|profile| profile.start(&options.vms, &*collector, root))
        .transpose()?;
    let mut knobs = Watch::default();
    let first_knobs = knobs
        .changes(root, Look::All, clock::monotonic_ns)
        .context("read the settings")?;
    let slow = Slow::open(root);
    // All is in place: the recording begins here.
    let start_ns = collector.begin().map_err(explain)?;
    let mut info = begun(wanted, root, start_ns, collector.rung(), mode);
    info.missing = missing(&*collector, profiler.as_ref(), &slow, root);
    info.profile = profiler.as_ref().map(Profiler::recorded);
    info.exits = exits;
    info.knobs = first_knobs;
    info.price = price;
    let cpus = Cpus::new(root);
    info.roster = stored(collector.roster(), wanted.no_command, cpus.now());
    let recording = match &ring {
        Some(ring) => ring.create(&ring.current, info)?,
        None => Recording::create(&wanted.output, info)?,
    };
    let cpu_before_ns = host_sample::read(root, None).map_or(0, |host| host.recorder_cpu_ns);
    Ok(Session {
        roster: collector.roster().clone(),
        collector,
        profiler,
        recording,
        knobs,
        root: root.clone(),
        pending: Facts::default(),
        vms_dropped: 0,
        no_command: wanted.no_command,
        cpus,
        start_ns,
        last_flush_ns: start_ns,
        last_sample_ns: 0,
        last_look_ns: 0,
        halts: 0,
        exits: 0,
        lost: BTreeMap::new(),
        peak_rss: 0,
        slow,
        cpu_before_ns,
        output: wanted.output.clone(),
        ring,
        earlier: Earlier::default(),
    })
}

/// Facts of `capture.json` that are known when a recording begins.
fn begun(
    wanted: &RecordingRequest,
    root: &Root,
    start_ns: u64,
    rung: Rung,
    mode: Mode,
) -> CaptureInfo {
    let tool = Tool {
        name: "haltwise".into(),
        version: env!("CARGO_PKG_VERSION").into(),
    };
    let times = Clock::new(start_ns, clock::wall_ns());
    let mut info = CaptureInfo::new(tool, this_host(root), times, rung, mode);
    if !wanted.no_command {
        let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        info.command = words.collect();
    }
    info.side = wanted.side;
    info
}

/// The price of a sleep of this host's vCPUs, read before the recording begins.
fn price(wanted: &RecordingRequest, root: &Root) -> Option<Box<Written>> {
    let kept = || wanted.side.is_host().then(|| kept::of_host(root)).flatten();
    wanted.price.clone().or_else(|| kept().map(Box::new))
}

/// The roster as a capture stores it: without command lines, nothing that VMMs' own tell but their VMs' names.
pub(super) fn stored(roster: &Roster, no_command: bool, cpus: Vec<Cpu>) -> Roster {
    let mut roster = roster.clone();
    roster.cpus = cpus;
    if no_command {
        roster.vms.iter_mut().for_each(Vm::forget_command);
    }
    roster
}

pub(super) fn missing(
    collector: &dyn Collector,
    profiler: Option<&Profiler>,
    slow: &Slow,
    root: &Root,
) -> Vec<Missing> {
    let mut missing = collector.missing();
    missing.extend(profiler.into_iter().flat_map(Profiler::missing).cloned());
    missing.extend(slow.missing(root));
    missing
}
