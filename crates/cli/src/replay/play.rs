//! From a capture on disk to the results of every policy on every vCPU, in two passes over its halts.

use std::time::Instant;

use anyhow::anyhow;
use haltwise_capture::capture::Capture;
use haltwise_capture::info::CaptureInfo;
use haltwise_capture::table::Table;
use haltwise_core::event::{Halt, Knob, KnobScope};
use haltwise_core::kvm::{Arch, Knobs, Version};
use haltwise_core::policy::{Setting, Spec, Start};
use haltwise_core::replay::session::{Plan, SeatResult, Session, SessionError, Survey};
use haltwise_core::replay::{Arrivals, Cost};

use super::costs::{self, Known, Told};
use crate::exit::{Exit, Failure};
use crate::number::count;
use crate::open::explain;
use crate::progress::Progress;

/// What to play.
#[derive(Debug)]
pub(crate) struct Wish<'a> {
    /// The policies.
    pub(crate) specs: Vec<Spec>,
    /// The weight of latency, in thousandths.
    pub(crate) latency_weight_milli: u64,
    /// Whether waking earlier makes the next gap longer.
    pub(crate) arrivals: Arrivals,
    /// What the command line says of costs.
    pub(crate) told: Told<'a>,
    /// The kernel, if not the capture's.
    pub(crate) kernel: Option<Version>,
    /// The port, if not the capture's.
    pub(crate) arch: Option<Arch>,
    /// Seed of all draws.
    pub(crate) seed: u64,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Replayed {
    /// Results by vCPU.
    pub(crate) seats: Vec<SeatResult>,
    /// What things cost.
    pub(crate) cost: Cost,
    /// What is known about blocks.
    pub(crate) known: Known,
    /// The kernel whose rule `kvm` means.
    pub(crate) version: Version,
    /// Its port.
    pub(crate) arch: Arch,
    /// Parameters that the capture does not tell, taken at that kernel's defaults.
    pub(crate) knobs_assumed: Vec<&'static str>,
}

/// Halts between two looks at the clock.
const BATCH: u64 = 1 << 16;

/// Plays a capture.
pub(crate) fn play(capture: &Capture, wish: Wish<'_>) -> Result<Replayed, Failure> {
    let info = capture.info();
    refuse_counts(info)?;
    let version = kernel_of(info, wish.kernel)?;
    let arch = wish
        .arch
        .unwrap_or_else(|| Arch::of_machine(&info.host.arch).unwrap_or(Arch::X86));
    let (knobs, knobs_assumed) = knobs_of(&info.knobs, version, arch);
    let mut clock = Clock::start(capture);
    let mut survey = Survey::default();
    each_halt(capture, &mut clock, "looking", |halt| {
        survey.halt(halt);
        Ok(())
    })?;
    if survey.seats().next().is_none() {
        let error = anyhow!("this capture holds no halts: there is nothing to replay");
        return Err(Failure::new(Exit::Failed, error).hint("`haltwise report` says why"));
    }
    let known = costs::know(&wish.told, &survey)?;
    let cost = Cost {
        switch_cpu_ns: known.switch_cpu_ns,
        latency_weight_milli: wish.latency_weight_milli,
    };
    let plan = Plan {
        specs: wish.specs,
        cost,
        arrivals: wish.arrivals,
        elsewhere: known.elsewhere.clone(),
    };
    let setting = |halt: &Halt| Setting {
        version,
        arch,
        knobs,
        ceiling_ns: halt.ceiling_ns.unwrap_or(knobs.halt_poll_ns),
        break_even_ns: 0,
        seed: wish.seed,
        start: Start::Zero,
    };
    let mut session = Session::new(plan, survey, setting);
    each_halt(capture, &mut clock, "playing", |halt| session.halt(halt))?;
    Ok(Replayed {
        seats: session.finish(),
        cost,
        known,
        version,
        arch,
        knobs_assumed,
    })
}

fn refuse_counts(info: &CaptureInfo) -> Result<(), Failure> {
    if info.mode.keeps_halts() {
        return Ok(());
    }
    let mode = info.mode;
    let error = anyhow!("this capture was made with --mode {mode} and holds no single halts");
    Err(Failure::new(Exit::Failed, error).hint(format!("record again without --mode {mode}")))
}

/// The kernel of a capture, unless the command line names another.
pub(crate) fn kernel_of(info: &CaptureInfo, told: Option<Version>) -> Result<Version, Failure> {
    if let Some(version) = told {
        return Ok(version);
    }
    info.host.kernel_release.parse().map_err(|error| {
        let error = anyhow::Error::new(error).context("the capture does not say its kernel");
        Failure::new(Exit::Failed, error).hint("name it: --kernel 6.12")
    })
}

/// The module parameters in force when a recording began; what it does not tell is as that kernel has
/// it by itself, and named.
pub(crate) fn knobs_of(told: &[Knob], version: Version, arch: Arch) -> (Knobs, Vec<&'static str>) {
    let mut knobs = Knobs::defaults(version, arch);
    let mut assumed = Vec::new();
    let fields: [(&'static str, &mut u32); 4] = [
        ("halt_poll_ns", &mut knobs.halt_poll_ns),
        ("halt_poll_ns_grow", &mut knobs.grow),
        ("halt_poll_ns_grow_start", &mut knobs.grow_start),
        ("halt_poll_ns_shrink", &mut knobs.shrink),
    ];
    for (name, field) in fields {
        let is_it = |knob: &&Knob| knob.scope == KnobScope::Host && knob.name == name;
        let value = told.iter().find(is_it);
        match value.and_then(|knob| knob.value.trim().parse().ok()) {
            Some(value) => *field = value,
            None => assumed.push(name),
        }
    }
    (knobs, assumed)
}

/// The time since the work began, and how much of it there is.
#[derive(Debug)]
pub(crate) struct Clock {
    began: Instant,
    progress: Progress,
    halts: Option<u64>,
}

impl Clock {
    /// Starts now.
    pub(crate) fn start(capture: &Capture) -> Self {
        Self {
            began: Instant::now(),
            progress: Progress::start(None),
            halts: capture.rows(Table::Halts),
        }
    }

    fn show(&mut self, what: &str, done: u64) {
        let halts = self.halts;
        self.progress.show(self.began.elapsed(), || match halts {
            Some(halts) => format!("{what}: {} of {} halts", count(done), count(halts)),
            None => format!("{what}: {} halts", count(done)),
        });
    }
}

/// Hands out every halt, and shows how far it is.
pub(crate) fn each_halt(
    capture: &Capture,
    clock: &mut Clock,
    what: &str,
    mut take: impl FnMut(&Halt) -> Result<(), SessionError>,
) -> Result<(), Failure> {
    let mut done = 0;
    for halt in capture.halts().map_err(explain)?.ahead() {
        take(&halt.map_err(explain)?).map_err(refused)?;
        done += 1;
        if done % BATCH == 0 {
            clock.show(what, done);
        }
    }
    Ok(())
}

/// Says why a replay cannot be made.
pub(crate) fn refused(error: SessionError) -> Failure {
    match error {
        SessionError::NoLatency => costs::nothing_known(),
        error => {
            Failure::new(Exit::Usage, error).hint("`haltwise replay --policies` lists them all")
        }
    }
}
