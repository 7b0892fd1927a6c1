//! Decisions before the first halt is seen: the source of the facts, and the VMs.

use anyhow::{Context, anyhow};
use haltwise_capture::info::Host;
use haltwise_core::exit::Recorded;
use haltwise_core::ids::Pid;
use haltwise_core::recording::{Mode, Rung};
use haltwise_host::bpf::{BpfCollector, IdleCollector};
use haltwise_host::collector::{CollectError, CollectOptions, Collector};
use haltwise_host::cpuidle::CpuidleCollector;
use haltwise_host::discovery::VmSelector;
use haltwise_host::exits::{self, ExitOptions};
use haltwise_host::perf::{IdlePerfCollector, PerfCollector};
use haltwise_host::root::Root;
use haltwise_host::sandbox::{self, Duties, SandboxError};
use haltwise_host::{discovery, host_sample, params};

use crate::exit::{Exit, Failure};
use crate::terminal;

pub(crate) fn check_kvm(root: &Root) -> Result<(), Failure> {
    if params::kvm_is_loaded(root) {
        return Ok(());
    }
    let error = anyhow!("record halts: KVM is not loaded on this host");
    Err(Failure::new(Exit::Unsupported, error).hint(
        "load it (modprobe kvm_intel or kvm_amd), or record where the VMs run; in a guest, --guest \
             records its own idle CPUs",
    ))
}

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
            Failure::new(Exit::Failed, error).hint(
                "`haltwise status --check` lists the VMs that run; without --vm all are recorded",
            )
        })
}

/// Says where a process could not give up what it does not need; it goes on with that.
pub(crate) fn say_kept(given_up: Result<(), SandboxError>) {
    if let Err(error) = given_up {
        let error = anyhow::Error::new(error);
        terminal::say(&format!(
            "note: the recorder keeps rights that it does not need: {error:#}"
        ));
    }
}

/// Gives up the rights that neither a collector at work nor `duties` take.
pub(crate) fn confine(collector: &mut dyn Collector, root: &Root, duties: Duties<'_>) {
    collector.confine();
    let opens_events = duties.opens_events || collector.rung() == Rung::Tracepoints;
    say_kept(sandbox::recorder(
        root,
        Duties {
            opens_events,
            ..duties
        },
    ));
}

pub(crate) fn attach(
    rung: Option<Rung>,
    options: &CollectOptions,
    root: &Root,
) -> Result<Box<dyn Collector>, Failure> {
    if rung == Some(Rung::Cpuidle) {
        let error =
            anyhow!("--source cpuidle: it counts this machine's own idle CPUs, not its VMs");
        return Err(Failure::new(Exit::Usage, error).hint("in a guest, add --guest --mode stats"));
    }
    let bpf = || Ok(Box::new(BpfCollector::start(options.clone(), root.clone())?) as _);
    let tracepoints = || Ok(Box::new(PerfCollector::start(options.clone(), root.clone())?) as _);
    choose::<Box<dyn Collector>>(rung, bpf, tracepoints)
}

/// A guest may have little memory.
const BUFFER_OF_GUEST: u32 = 4 << 20;

/// The source of this machine's own idle CPUs, and the mode in which it records: where neither BPF nor tracepoints
/// work, what cpuidle has counted is left.
pub(crate) fn attach_idle(
    rung: Option<Rung>,
    options: &CollectOptions,
    root: &Root,
) -> Result<(Box<dyn Collector>, Mode), Failure> {
    let counters = || -> Attached {
        let counters = CpuidleCollector::start(options.interval, root.clone());
        Ok(Box::new(counters?))
    };
    match (options.mode, rung) {
        (Mode::Stats, None | Some(Rung::Cpuidle)) => {
            let collector = counters().map_err(explain)?;
            return Ok((collector, Mode::Stats));
        }
        (Mode::Full, None | Some(Rung::Bpf | Rung::Tracepoints)) => {}
        _ => return Err(no_such_idle(options.mode)),
    }
    let full = CollectOptions {
        buffer_bytes: BUFFER_OF_GUEST,
        ..options.clone()
    };
    let bpf = || Ok(Box::new(IdleCollector::start(&full, root.clone())?) as _);
    let tracepoints = || Ok(Box::new(IdlePerfCollector::start(&full, root.clone())?) as _);
    let failure = match choose::<Box<dyn Collector>>(rung, bpf, tracepoints) {
        Ok(collector) => return Ok((collector, Mode::Full)),
        Err(failure) => failure,
    };
    match counters() {
        Ok(collector) if rung.is_none() => {
            terminal::say(&format!(
                "note: {:#}; recording what cpuidle counts, as with --mode stats",
                failure.error
            ));
            Ok((collector, Mode::Stats))
        }
        _ => Err(failure),
    }
}

/// Idle CPUs are recorded one by one, or as cpuidle counts them.
fn no_such_idle(mode: Mode) -> Failure {
    let error = anyhow!("--guest: this source does not record idle CPUs in {mode} mode");
    Failure::new(Exit::Usage, error).hint(
        "--mode full records each idle period, by --source bpf or tracepoints; --mode stats what cpuidle counts",
    )
}

type Attached = Result<Box<dyn Collector>, CollectError>;

fn choose<T>(
    rung: Option<Rung>,
    bpf: impl FnOnce() -> Result<T, CollectError>,
    tracepoints: impl FnOnce() -> Result<T, CollectError>,
) -> Result<T, Failure> {
    match rung {
        Some(Rung::Bpf) => bpf().map_err(explain),
        Some(_) => tracepoints().map_err(explain),
        None => bpf().map_err(explain).or_else(|first| {
            // The better source's reason is the one worth mending.
            let Ok(collector) = tracepoints() else {
                return Err(first);
            };
            terminal::say(&format!(
                "note: {:#}; recording through tracepoints",
                first.error
            ));
            Ok(collector)
        }),
    }
}

/// Description of the requested exits for a capture, if any; refuses a source that does not count them.
pub(crate) fn recorded_exits(
    wanted: Option<&ExitOptions>,
    rung: Option<Rung>,
    root: &Root,
) -> Result<Option<Recorded>, Failure> {
    let Some(wanted) = wanted else {
        return Ok(None);
    };
    if rung.is_some_and(|rung| rung != Rung::Bpf) {
        let error = anyhow!("record exits: not supported with --source tracepoints");
        return Err(Failure::new(Exit::Usage, error)
            .hint("exits are counted by BPF programs: omit --source, or use --source bpf"));
    }
    Ok(Some(Recorded {
        sub_keys: wanted.sub_keys.iter().copied().collect(),
        names: exits::kernel_names(root),
        ..Recorded::default()
    }))
}

pub(crate) fn explain(error: CollectError) -> Failure {
    let offers = "`haltwise status --check` says what this host offers";
    let (exit, hint) = match &error {
        CollectError::Denied { .. } => (
            Exit::Denied,
            "run as root, or `haltwise status --check` to see what works without it",
        ),
        CollectError::Unsupported { .. } => (Exit::Unsupported, offers),
        CollectError::NoHistograms => (
            Exit::Unsupported,
            "--mode counts keeps such histograms by programs of its own",
        ),
        CollectError::NotInEvents => (
            Exit::Unsupported,
            "--mode counts makes histograms of them; --mode stats needs --source bpf",
        ),
        _ => (Exit::Failed, offers),
    };
    Failure::new(exit, error).hint(hint)
}

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
