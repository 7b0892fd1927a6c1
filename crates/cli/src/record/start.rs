//! What is decided before the first halt is recorded: the rung, the VMs, the directory.

use std::path::Path;

use anyhow::{Context, anyhow};
use haltwise_capture::info::{CaptureInfo, Clock, Host, Tool};
use haltwise_capture::recording::Recording;
use haltwise_core::ids::Pid;
use haltwise_core::recording::{Missing, Rung};
use haltwise_host::bpf::BpfCollector;
use haltwise_host::collector::{CollectError, CollectOptions, Collector};
use haltwise_host::discovery::VmSelector;
use haltwise_host::params::{self, Look, Watch};
use haltwise_host::perf::PerfCollector;
use haltwise_host::profile::Profiler;
use haltwise_host::root::Root;
use haltwise_host::{clock, discovery, host_sample};

use super::Wanted;
use crate::exit::{Exit, Failure};
use crate::terminal;

/// Attached, and a capture open to write to.
pub(crate) struct Started {
    pub(crate) collector: Box<dyn Collector>,
    pub(crate) profiler: Option<Profiler>,
    pub(crate) recording: Recording,
    pub(crate) knobs: Watch,
    pub(crate) start_ns: u64,
    pub(crate) output: std::path::PathBuf,
}

/// Refuses a directory in use before anything is attached.
pub(crate) fn check_output(output: &Path) -> Result<(), Failure> {
    match std::fs::read_dir(output).map(|mut entries| entries.next().is_some()) {
        Ok(true) => Err(Failure::new(
            Exit::Failed,
            anyhow!("write {}: the directory is not empty", output.display()),
        )
        .hint("recorded data is never overwritten: name another directory")),
        Ok(false) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(anyhow!(error)
            .context(format!("write {}", output.display()))
            .into()),
    }
}

/// Attaches and opens the capture.
pub(crate) fn start(wanted: &Wanted, root: &Root) -> Result<Started, Failure> {
    check_kvm(root)?;
    let exits = wanted
        .exits
        .as_ref()
        .map(|exits| exits.settle(wanted.rung, root))
        .transpose()?;
    let options = CollectOptions {
        mode: wanted.mode,
        vms: select(&wanted.vms, root)?,
        interval: wanted.interval,
        buffer_bytes: wanted.buffer_bytes,
        exits: exits.as_ref().map(|exits| exits.options.clone()),
    };
    // Only that rung counts exits: without it there is nothing to fall back to.
    let rung = exits.as_ref().map_or(wanted.rung, |_| Some(Rung::Bpf));
    let collector = attach(rung, &options, root)?;
    let profile = wanted.profile.as_ref();
    let profiler = profile
        .map(|profile| profile.start(&options.vms, &*collector, root))
        .transpose()?;
    let start_ns = clock::monotonic_ns();
    let mut knobs = Watch::default();
    let first_knobs = knobs
        .changes(root, Look::All, clock::monotonic_ns)
        .context("read KVM's settings")?;
    let tool = Tool {
        name: "haltwise".into(),
        version: env!("CARGO_PKG_VERSION").into(),
    };
    let times = Clock::new(start_ns, clock::wall_ns());
    let mut info = CaptureInfo::new(tool, this_host(root), times, collector.rung(), wanted.mode);
    info.command = std::env::args_os()
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect();
    info.missing = missing(&*collector, profiler.as_ref());
    info.profile = profiler.as_ref().map(Profiler::recorded);
    info.exits = exits.map(|exits| exits.recorded);
    info.knobs = first_knobs;
    info.roster = collector.roster().clone();
    let recording = Recording::create(&wanted.output, info)?;
    Ok(Started {
        collector,
        profiler,
        recording,
        knobs,
        start_ns,
        output: wanted.output.clone(),
    })
}

/// Refuses a host without KVM.
pub(crate) fn check_kvm(root: &Root) -> Result<(), Failure> {
    if params::kvm_is_loaded(root) {
        return Ok(());
    }
    let error = anyhow!("record halts: KVM is not loaded on this host");
    Err(Failure::new(Exit::Unsupported, error)
        .hint("load it (modprobe kvm_intel or kvm_amd), or record where the VMs run"))
}

/// What this recording cannot hold.
pub(super) fn missing(collector: &dyn Collector, profiler: Option<&Profiler>) -> Vec<Missing> {
    let mut missing = collector.missing();
    missing.extend(
        profiler
            .map(Profiler::missing)
            .unwrap_or_default()
            .iter()
            .cloned(),
    );
    missing
}

/// The processes of the VMs asked for.
pub(crate) fn select(wanted: &[VmSelector], root: &Root) -> Result<Vec<Pid>, Failure> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let scan = discovery::scan(root).context("look for VMs")?;
    wanted
        .iter()
        .map(|selector| Ok(selector.select(&scan.vms)?.pid()))
        .collect::<anyhow::Result<_>>()
        .map_err(|error| {
            Failure::new(Exit::Failed, error)
                .hint("`haltwise doctor` lists the VMs that run; without --vm all are recorded")
        })
}

/// The rung asked for, or the best one that works.
pub(crate) fn attach(
    rung: Option<Rung>,
    options: &CollectOptions,
    root: &Root,
) -> Result<Box<dyn Collector>, Failure> {
    let bpf = || Ok(Box::new(BpfCollector::start(options.clone(), root.clone())?) as _);
    let tracepoints = || Ok(Box::new(PerfCollector::start(options.clone(), root.clone())?) as _);
    choose(rung, bpf, tracepoints)
}

type Attached = Result<Box<dyn Collector>, CollectError>;

fn choose(
    rung: Option<Rung>,
    bpf: impl FnOnce() -> Attached,
    tracepoints: impl FnOnce() -> Attached,
) -> Result<Box<dyn Collector>, Failure> {
    match rung {
        Some(Rung::Bpf) => bpf().map_err(explain),
        Some(_) => tracepoints().map_err(explain),
        None => bpf().or_else(|first| match tracepoints() {
            Ok(collector) => {
                terminal::say(&format!(
                    "note: {}; recording through tracepoints",
                    chain(&first)
                ));
                Ok(collector)
            }
            // The better rung's reason is the one worth mending.
            Err(_) => Err(explain(first)),
        }),
    }
}

fn chain(error: &CollectError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

/// A collector's error with its exit code and what to do.
pub(crate) fn explain(error: CollectError) -> Failure {
    let (exit, hint) = match &error {
        CollectError::Denied { .. } => (
            Exit::Denied,
            "run as root, or `haltwise doctor` to see what works without it",
        ),
        CollectError::Unsupported { .. } => (
            Exit::Unsupported,
            "`haltwise doctor` says what this host offers",
        ),
        CollectError::NoHistograms => (
            Exit::Unsupported,
            "--mode counts keeps such histograms by programs of its own",
        ),
        CollectError::NotInEvents => (
            Exit::Unsupported,
            "--mode counts makes histograms of them; --mode stats takes the rung bpf",
        ),
        _ => (Exit::Failed, "`haltwise doctor` says what this host offers"),
    };
    Failure::new(exit, error).hint(hint)
}

/// The machine we run on.
pub(crate) fn this_host(root: &Root) -> Host {
    let name = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    Host {
        kernel_release: text(name.release()),
        arch: text(name.machine()),
        cpu_model: host_sample::cpu_model(root),
        cpus: host_sample::read(root, None).map_or(0, |sample| sample.cpus),
        hostname: Some(text(name.nodename())),
    }
}

#[cfg(test)]
mod test;
