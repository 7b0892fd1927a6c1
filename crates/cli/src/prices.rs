//! Cost of a block on the host of a capture: measured there, given, or taken from the capture. The basis of figures
//! that are computed from the cost, in words, is in [`words`]; `replay`, `tune`, `prove` and the
//! page share all of it.

pub(crate) mod kept;
pub(crate) mod model;
pub(crate) mod price;
pub(crate) mod words;

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use haltwise_capture::files;
use haltwise_capture::info::CaptureInfo;
use haltwise_core::kvm::Arch;
use haltwise_core::recording::Side;
use haltwise_core::replay::calibration::written::Written;
use haltwise_core::replay::calibration::{Calibration, Prices};
use haltwise_core::replay::cost::Assumed;
use haltwise_core::replay::latency::Latencies;
use haltwise_core::replay::overrun::Overruns;
use haltwise_core::replay::session::{SessionError, Survey};
use haltwise_core::units::Nanos;
use serde::{Deserialize, Serialize};

use crate::exit::{Exit, Failure};
use crate::time;

/// Where `switch_cpu` comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Source {
    /// `haltwise calibrate` measured it.
    Calibrated,
    Given,
    /// Half of the wake-up latency of the shortest sleeps in the capture.
    Assumed,
    /// That would be more than any hardware needs, so it is bounded.
    Bounded,
    /// The captures of the guest and its host, matched by time.
    Joined,
}

impl Source {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Calibrated => "calibrated",
            Self::Given => "given",
            Self::Assumed => "assumed",
            Self::Bounded => "bounded",
            Self::Joined => "joined",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    /// CPU time of one block and wake, in nanoseconds, and where that comes from.
    pub(crate) switch_cpu_ns: u64,
    /// How far it may be off, where it was not given.
    pub(crate) switch_cpu_ends_ns: Option<[u64; 2]>,
    pub(crate) source: Source,
    /// How long after its window a halt of the host does not sleep, as recorded.
    pub(crate) overruns: Overruns,
    pub(crate) elsewhere: Option<Latencies>,
    pub(crate) calibration: Option<Calibration>,
}

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct GivenCosts {
    /// Output of `haltwise calibrate --json` [default: that of the capture]
    #[arg(long, value_name = "FILE")]
    pub(crate) calibration: Option<PathBuf>,
    /// CPU time of one block and wake-up [default: calibrated, else estimated from
    /// the recorded halts]
    #[arg(long, value_name = "TIME", value_parser = time::nanoseconds, hide_short_help = true)]
    pub(crate) switch_cpu: Option<Nanos>,
    /// Wake-up latency to assume where no halt that slept was recorded
    #[arg(long, value_name = "TIME", value_parser = time::nanoseconds, hide_short_help = true)]
    pub(crate) wake_latency: Option<Nanos>,
}

/// The architecture that was recorded. An import seldom names it, and nearly all of them are of x86.
pub(crate) fn arch_of(info: &CaptureInfo) -> Arch {
    Arch::of_machine(&info.host.arch).unwrap_or(Arch::X86)
}

/// Puts together what is known: what is given comes before the price that the capture carries.
pub(crate) fn know(
    given: &GivenCosts,
    carried: Option<&Written>,
    survey: &Survey,
) -> Result<Known, Failure> {
    Ok(Known {
        overruns: survey.overruns(),
        ..of_latency(given, carried, survey.shortest_sleeps_ns())?
    })
}

/// The same, where the capture's shortest sleeps take this to wake: [`Latencies::shortest_sleeps_ns`].
pub(crate) fn of_latency(
    given: &GivenCosts,
    carried: Option<&Written>,
    shortest_ns: Option<[u64; 2]>,
) -> Result<Known, Failure> {
    let calibration = match calibration(given)? {
        Some(given) => Some(given),
        None => carried.and_then(|carried| Calibration::try_from(carried).ok()),
    };
    let mut elsewhere = (calibration.as_ref()).map_or_else(Latencies::default, |calibration| {
        calibration.latencies().clone()
    });
    if let Some(latency_ns) = given.wake_latency.map(|Nanos(ns)| ns) {
        elsewhere.add(0, latency_ns);
    }
    let elsewhere = (!elsewhere.is_empty()).then_some(elsewhere);
    let calibrated = calibration.as_ref().and_then(Calibration::switch_cpu);
    let shortest = shortest_ns.or_else(|| elsewhere.as_ref()?.shortest_sleeps_ns());
    let mut switch_cpu_ends_ns = None;
    let (switch_cpu_ns, source) = match (given.switch_cpu, calibrated, shortest) {
        (Some(Nanos(ns)), _, _) => (ns, Source::Given),
        (None, Some(measured), _) => {
            switch_cpu_ends_ns = Some(measured.ends_ns);
            (measured.ns, Source::Calibrated)
        }
        (None, None, Some([low_ns, ns])) => {
            switch_cpu_ends_ns = Some(Assumed::ends_ns(low_ns, ns));
            assumed(ns)
        }
        (None, None, None) => return Err(nothing_known()),
    };
    Ok(Known {
        switch_cpu_ns,
        switch_cpu_ends_ns,
        source,
        overruns: Overruns::default(),
        elsewhere,
        calibration,
    })
}

impl Known {
    pub(crate) fn prices(&self, recorded: Side) -> Prices {
        let calibration = self.calibration.as_ref();
        calibration.map_or_else(Prices::default, |it| it.prices(recorded))
    }
}

fn assumed(shortest_ns: u64) -> (u64, Source) {
    let assumed = Assumed::of_shortest_sleeps(shortest_ns);
    let source = if assumed.is_bounded {
        Source::Bounded
    } else {
        Source::Assumed
    };
    (assumed.switch_cpu_ns, source)
}

/// The calibration that was given, if any. One that did not measure what it was given for is refused.
pub(crate) fn calibration(given: &GivenCosts) -> Result<Option<Calibration>, Failure> {
    let Some(path) = &given.calibration else {
        return Ok(None);
    };
    let calibration = read(path)?;
    let has_latencies = !calibration.latencies().is_empty();
    let has_price = calibration.switch_cpu().is_some();
    let lacks = match (has_price, has_latencies) {
        (false, false) => "it measured nothing",
        (false, true) if given.switch_cpu.is_none() => "it did not measure the CPU time of a sleep",
        _ => return Ok(Some(calibration)),
    };
    let error = anyhow!(
        "{} is not usable as a calibration: {lacks}, as happens when other tasks use the CPUs all the time",
        path.display()
    );
    Err(Failure::new(Exit::Failed, error).hint(
        "calibrate again while two CPUs are idle, or leave --calibration out and give --switch-cpu TIME",
    ))
}

pub(crate) fn nothing_known() -> Failure {
    let error = anyhow!(
        "no sleep in this capture has a known wake-up latency, so the cost of a sleep is unknown"
    );
    Failure::new(Exit::Failed, error).hint(
        "measure it with `haltwise calibrate --json > FILE` and give --calibration FILE, or give \
         --wake-latency TIME",
    )
}

pub(crate) fn refused(error: SessionError) -> Failure {
    match error {
        SessionError::NoLatency => nothing_known(),
        error => Failure::new(Exit::Usage, error).hint("`haltwise tune --policies` lists them all"),
    }
}

fn read(path: &Path) -> Result<Calibration, Failure> {
    let text = files::read(path).with_context(|| format!("read {}", path.display()))?;
    let hint = "`haltwise calibrate --json` writes such files";
    let written = serde_json::from_slice::<Written>(&text).map_err(anyhow::Error::from);
    written
        .and_then(|written| Ok(Calibration::try_from(&written)?))
        .with_context(|| format!("{} is not a calibration", path.display()))
        .map_err(|error| Failure::new(Exit::Failed, error).hint(hint))
}
