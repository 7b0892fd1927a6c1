//! Which rule, and which settings: from the capture and from what the caller says.

use anyhow::anyhow;
use haltwise_capture::capture::Capture;
use haltwise_capture::info::CaptureInfo;
use haltwise_core::event::{HostSample, Knob, Lost};
use haltwise_core::kvm::{Arch, Knobs, Rule, Version};
use haltwise_core::recording::Rung;
use haltwise_core::verify::loss::Losses;
use haltwise_core::verify::settings::{Parameter, Settings, Track};
use haltwise_core::verify::{self, Sight};

use super::Told;
use crate::exit::{Exit, Failure};
use crate::open::explain;

/// How far around a loss its events may lie where the recorder left no samples of its own: as far as
/// these would be apart.
const LOSS_NS: u64 = 1_000_000_000;

/// What halts are held against, and where it was taken from.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) kernel: Version,
    pub(super) arch_origin: Origin,
    pub(super) backports: Vec<String>,
    pub(super) core: verify::Setup,
    /// In the order of [`Parameter::ALL`].
    pub(super) origins: [Origin; 4],
    /// Parts of the capture that could not be read.
    pub(super) notes: Vec<String>,
}

/// Where a parameter's value was taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Origin {
    /// The capture.
    Recorded,
    /// An option.
    Told,
    /// Nobody said; what the kernel has if nobody sets it.
    Assumed,
}

/// Puts together what the halts of a capture are held against.
pub(super) fn setup(capture: &Capture, told: &Told) -> Result<Setup, Failure> {
    let info = capture.info();
    if !info.mode.keeps_halts() {
        let error = anyhow!("verify: the capture holds counts, and not what became of each halt");
        return Err(
            Failure::new(Exit::Failed, error).hint("record with --mode full, which is the default")
        );
    }
    let kernel = kernel(&info.host.kernel_release, told)?;
    let (arch, arch_origin) = arch(info, told)?;
    let upstream = Rule::of(kernel, arch);
    let rule = told
        .backports
        .iter()
        .fold(upstream, |rule, it| rule.with(*it));
    if !rule.is_traced() {
        let error =
            anyhow!("verify: on {kernel} ({arch}) KVM does not tell what it does with windows");
        return Err(Failure::new(Exit::Failed, error)
            .hint("the tracepoint kvm_halt_poll_ns is there since 4.3; --kernel names another"));
    }
    let mut notes = Vec::new();
    let (knobs, losses) = told_over_time(capture, &mut notes);
    let (settings, origins) = settings(&knobs, told, Knobs::defaults(kernel, arch));
    let vcpus = info.roster.vcpus.iter();
    let vetoed = vcpus.filter(|vcpu| vcpu.guest_veto == Some(true));
    Ok(Setup {
        kernel,
        arch_origin,
        backports: told.backports.iter().map(ToString::to_string).collect(),
        core: verify::Setup {
            rule,
            arch,
            sight: match info.rung {
                Rung::Bpf => Sight::Vcpu,
                Rung::Tracepoints | Rung::Import => Sight::Calls,
            },
            settings,
            cap: told.cap,
            losses,
            vetoed: vetoed.map(|vcpu| (vcpu.vm, vcpu.id)).collect(),
        },
        origins,
        notes,
    })
}

fn kernel(recorded: &str, told: &Told) -> Result<Version, Failure> {
    if let Some(kernel) = told.kernel {
        return Ok(kernel);
    }
    recorded.parse().map_err(|error| {
        Failure::new(
            Exit::Failed,
            anyhow::Error::new(error).context("tell the recorded kernel"),
        )
        .hint("name it: --kernel 6.12")
    })
}

/// The port, and who says so. Text of other tools seldom names the machine; nearly all of it comes
/// from x86, and the other ports' rule differs in defaults and on s390 only.
fn arch(info: &CaptureInfo, told: &Told) -> Result<(Arch, Origin), Failure> {
    if let Some(arch) = told.arch {
        return Ok((arch, Origin::Told));
    }
    match info.host.arch.parse() {
        Ok(arch) => Ok((arch, Origin::Recorded)),
        Err(_) if info.rung == Rung::Import => Ok((Arch::X86, Origin::Assumed)),
        Err(error) => {
            let error = anyhow::Error::new(error).context("tell the recorded machine");
            Err(Failure::new(Exit::Failed, error).hint("name it: --arch x86"))
        }
    }
}

/// A parameter that was told, with the last moment that is known to have had the value before.
#[derive(Debug, Clone, Copy)]
struct Change {
    after_ns: u64,
    by_ns: u64,
    parameter: Parameter,
    value: u32,
}

/// Reads settings and losses.
fn told_over_time(capture: &Capture, notes: &mut Vec<String>) -> (Vec<Change>, Losses) {
    let mut note = |error: Option<haltwise_capture::error::CaptureReadError>| {
        notes.extend(error.map(|error| format!("{:#}", explain(error).error)));
    };
    let (knobs, broken) = collect(capture.knobs());
    note(broken);
    let (mut lost, broken) = collect(capture.lost());
    note(broken);
    lost.retain(|lost: &Lost| lost.place != Lost::SCHED);
    let changes = changes(capture.info().knobs.iter().chain(&knobs));
    let mut stretches = lost
        .iter()
        .map(|lost| Stretch::around(lost.time_ns))
        .collect::<Vec<_>>();
    stretches.sort_unstable_by_key(|stretch| stretch.told_ns);
    note(stretch(capture, &mut stretches).err());
    let mut losses = Losses::default();
    for stretch in stretches {
        losses.add(stretch.from, stretch.to);
    }
    (changes, losses)
}

/// All rows up to the first that cannot be read, and why not.
fn collect<T>(
    rows: Result<haltwise_capture::rows::Rows<T>, haltwise_capture::error::CaptureReadError>,
) -> (Vec<T>, Option<haltwise_capture::error::CaptureReadError>) {
    let mut read = Vec::new();
    match rows {
        Err(error) => return (read, Some(error)),
        Ok(rows) => {
            for row in rows {
                match row {
                    Ok(row) => read.push(row),
                    Err(error) => return (read, Some(error)),
                }
            }
        }
    }
    (read, None)
}

/// The parameters of KVM among the settings, in order of time. Each had its value before until that one
/// was last told, at least: a recorder tells the old value once more where it tells a new one.
fn changes<'a>(knobs: impl Iterator<Item = &'a Knob>) -> Vec<Change> {
    let mut changes: Vec<Change> = knobs
        .filter_map(|knob| {
            let (parameter, value) = Parameter::of(knob)?;
            Some(Change {
                after_ns: 0,
                by_ns: knob.time_ns,
                parameter,
                value,
            })
        })
        .collect();
    changes.sort_by_key(|change| change.by_ns);
    let mut read = [0; 4];
    for change in &mut changes {
        let read = &mut read[change.parameter as usize];
        change.after_ns = std::mem::replace(read, change.by_ns);
    }
    changes
}

/// A loss, and where its events may lie.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    /// When it was told.
    told_ns: u64,
    from: u64,
    to: u64,
}

impl Stretch {
    fn around(time_ns: u64) -> Self {
        Self {
            told_ns: time_ns,
            from: time_ns.saturating_sub(LOSS_NS),
            to: time_ns.saturating_add(LOSS_NS),
        }
    }

    /// The last two samples before it, where there were any.
    fn begin(&mut self, before: Option<u64>, last: Option<u64>) {
        if last.is_some() {
            self.from = self.from.min(before.unwrap_or(0));
        }
    }
}

/// Stretches losses by when the recorder looked: it samples the host after it has counted them.
///
/// A loss may have happened right after the count before its own, which is before the sample before
/// that; and it is told with the time at which its count began, so that it may lie later than that.
fn stretch(
    capture: &Capture,
    losses: &mut [Stretch],
) -> Result<(), haltwise_capture::error::CaptureReadError> {
    let (mut before, mut last) = (None, None);
    let (mut begun, mut ended) = (0, 0);
    for sample in capture.host_samples()? {
        let HostSample { time_ns, .. } = sample?;
        while losses.get(begun).is_some_and(|it| it.told_ns < time_ns) {
            losses[begun].begin(before, last);
            begun += 1;
        }
        while ended < begun {
            losses[ended].to = losses[ended].to.max(time_ns);
            ended += 1;
        }
        before = last.replace(time_ns);
    }
    losses[begun..]
        .iter_mut()
        .for_each(|it| it.begin(before, last));
    Ok(())
}

/// Every parameter over time: as told, else as recorded, else as the kernel has it by default.
fn settings(changes: &[Change], told: &Told, defaults: Knobs) -> (Settings, [Origin; 4]) {
    let mut settings = Settings::fixed(defaults);
    let mut origins = [Origin::Assumed; 4];
    for (parameter, (told, origin)) in Parameter::ALL
        .into_iter()
        .zip(told.parameters.iter().zip(&mut origins))
    {
        let mut recorded = changes.iter().filter(|it| it.parameter == parameter);
        if let Some(value) = *told {
            *settings.track_mut(parameter) = Track::fixed(value);
            *origin = Origin::Told;
        } else if let Some(first) = recorded.next() {
            let mut track = Track::fixed(first.value);
            for it in recorded {
                track.change(it.after_ns, it.by_ns, it.value);
            }
            *settings.track_mut(parameter) = track;
            *origin = Origin::Recorded;
        }
    }
    (settings, origins)
}

#[cfg(test)]
mod test;
