//! Which rule, and which settings: from the capture and from what the caller says. Which changes of later
//! kernels the recorded one carries, for every verb: [`KernelSought`]. That is found out when a recording or an
//! import ends ([`keep`]), and from captures of before by each verb anew.

mod guest;
mod over_time;

use std::path::Path;

use anyhow::anyhow;
use haltwise_capture::convert::keep_carried;
use haltwise_capture::files::directory::DirectoryId;
use haltwise_capture::info::CaptureInfo;
use haltwise_capture::table::Table;
use haltwise_core::event::{Halt, WindowChange};
use haltwise_core::kvm::{Arch, Backport, Knobs, Rule, Version};
use haltwise_core::parameter::Parameter;
use haltwise_core::policy::Spec;
use haltwise_core::recording::Rung;
use haltwise_core::verify::carried::{Carried, Trial};
use haltwise_core::verify::settings::{Settings, Track};
use haltwise_core::verify::{self, Sight};

use self::over_time::{Change, over_time, recorded};
use super::opened::Opened;
use super::pass::{PassEnds, Sink, pass};
use crate::exit::{Exit, Failure};
use crate::prices;
use crate::reading::given::GivenParameters;
use crate::terminal;

pub(crate) use self::guest::{GuestSetup, governor, guest_setup, in_force, must_keep_periods};

#[derive(Debug, Default, clap::Args)]
pub(crate) struct GivenHost {
    /// Check the windows of this policy, for a kernel that has it instead of KVM's algorithm
    ///
    /// For example leader:max=200us. Each vCPU is checked from its first halt on, which must be its first of all.
    #[arg(long, value_name = "SPEC")]
    pub(crate) policy: Option<Spec>,
    /// Kernel release as `uname -r` prints it [default: recorded]
    #[arg(long, value_name = "RELEASE")]
    kernel: Option<Version>,
    /// Architecture: x86, arm64, s390, powerpc, riscv, … [default: recorded]
    #[arg(long, value_name = "NAME")]
    arch: Option<Arch>,
    /// Backport in this kernel: grow-start, vm-ceiling, growth-cap, need-resched, shrink-floor,
    /// live-ceiling, block-time; may be repeated
    /// [default: detected from the recording]
    #[arg(long = "backport", value_name = "NAME")]
    backports: Vec<Backport>,
    #[command(flatten)]
    parameters: GivenParameters,
}

/// Setup that halts are compared with, and where the setup was taken from.
#[derive(Debug)]
pub(crate) struct Setup {
    /// With all that it carries, told or found.
    pub(crate) kernel: Version,
    pub(crate) arch_origin: Origin,
    /// Backports found in the kernel; `None` where they were given, or nothing could be found.
    pub(crate) carried: Option<Carried>,
    pub(crate) core: verify::Setup,
    /// Policy that the kernel has in place of its rule.
    pub(crate) policy: Option<Spec>,
    /// In the order of [`Parameter::HOST`].
    pub(crate) origins: [Origin; 4],
    /// Parts of the capture that could not be read.
    pub(crate) notes: Vec<String>,
}

/// Where a parameter's value was taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Origin {
    Recorded,
    Told,
    /// Neither recorded nor given: the kernel's default.
    Assumed,
}

pub(crate) fn setup(opened: &Opened, given: &GivenHost) -> Result<Setup, Failure> {
    let (mut setup, tried) = prepare(opened, given)?;
    if let Some(mut tried) = tried {
        let ends = pass(opened, "detecting backports", &mut [&mut tried]);
        if ends.halts == 0 {
            ends.whole(Table::Halts)?;
        }
        setup.carry(Some(tried.finish()));
    }
    Ok(setup)
}

/// Halts held against every rule that the recorded kernel may have.
impl Sink for Trial {
    fn wants_calls(&self) -> bool {
        true
    }

    fn halt(&mut self, halt: &Halt, call: Option<&WindowChange>) {
        Trial::halt(self, halt, call);
    }
}

/// All but what the kernel carries of later ones, and what finds that out from its halts, if they can show it.
fn prepare(opened: &Opened, given: &GivenHost) -> Result<(Setup, Option<Trial>), Failure> {
    let info = opened.info();
    if !info.mode.keeps_halts() {
        let error = anyhow!("verify: the capture contains histograms, not single halts");
        return Err(
            Failure::new(Exit::Failed, error).hint("record with --mode full, which is the default")
        );
    }
    let kernel = kernel(&info.host.kernel_release, given)?;
    let backports = kernel
        .backports
        .iter()
        .chain(given.backports.iter().copied());
    let kernel = kernel.with(backports.collect());
    let (arch, arch_origin) = arch(info, given)?;
    let rule = Rule::of(kernel, arch);
    if !rule.is_traced() {
        let error = anyhow!("verify: on {kernel} ({arch}) KVM does not report window changes");
        return Err(Failure::new(Exit::Failed, error)
            .hint("the tracepoint kvm_halt_poll_ns exists since 4.3; --kernel names another"));
    }
    let mut notes = Vec::new();
    let (knobs, losses) = over_time(opened, Parameter::of, &mut notes);
    let (settings, origins) = settings(&knobs, given, Knobs::defaults(kernel, arch));
    let vcpus = info.roster.vcpus.iter();
    let vetoed = vcpus.filter(|vcpu| vcpu.guest_veto == Some(true));
    let mut setup = Setup {
        kernel,
        arch_origin,
        carried: None,
        core: verify::Setup {
            rule,
            arch,
            sight: match info.rung {
                Rung::Bpf => Sight::Vcpu,
                Rung::Tracepoints | Rung::Cpuidle | Rung::Import => Sight::Calls,
            },
            settings,
            cap: given.parameters.cap,
            losses,
            vetoed: vetoed.map(|vcpu| (vcpu.vm, vcpu.id)).collect(),
        },
        policy: given.policy.clone(),
        origins,
        notes,
    };
    if !kernel.backports.is_empty() || setup.policy.is_some() {
        return Ok((setup, None));
    }
    let kept = kept(info, given, &setup);
    let is_kept = kept.is_some();
    setup.carry(kept);
    let trial = (!is_kept).then(|| Trial::new(&setup.core)).flatten();
    Ok((setup, trial))
}

impl Setup {
    fn carry(&mut self, found: Option<Carried>) {
        if let Some(found) = &found {
            self.kernel = self.kernel.with(found.backports);
            self.core.rule = Rule::of(self.kernel, self.core.arch);
        }
        self.carried = found;
    }
}

/// Backports as the capture records them; valid only if kernel and parameters are the recorded ones.
fn kept(info: &CaptureInfo, given: &GivenHost, setup: &Setup) -> Option<Carried> {
    let is_recorded = info.host.kernel_release.parse::<Version>() == Ok(setup.kernel)
        && prices::arch_of(info) == setup.core.arch
        && given.parameters.values().is_empty()
        && given.parameters.cap.is_none();
    info.carried.clone().filter(|_| is_recorded)
}

/// Finds out what the kernel of a complete capture carries of later ones, and keeps it there. Nothing
/// where its number leaves nothing open.
pub(crate) fn keep(directory: &Path, recorded: DirectoryId) {
    if let Err(failure) = find_and_keep(directory, recorded) {
        terminal::say(&format!(
            "note: the backports found in this kernel are not stored: {:#}",
            failure.error
        ));
    }
}

fn find_and_keep(directory: &Path, recorded: DirectoryId) -> Result<(), Failure> {
    let opened = Opened::open(directory)?;
    // Where nothing can be held against a rule, nothing is found either.
    let none = GivenHost::default();
    let Some(carried) = setup(&opened, &none).ok().and_then(|setup| setup.carried) else {
        return Ok(());
    };
    keep_carried(directory, recorded, carried)?;
    Ok(())
}

/// The recorded kernel with what it carries of later kernels, found out from its halts.
///
/// One type for every verb, so that all mean the same rule.
#[derive(Debug)]
pub(crate) struct KernelSought {
    kernel: Version,
    tried: Option<Trial>,
}

impl KernelSought {
    /// Before its halts are read.
    pub(crate) fn new(opened: &Opened) -> Result<Self, Failure> {
        let info = opened.info();
        let kernel = info.host.kernel_release.parse().map_err(|_| {
            let error = anyhow!(
                "the capture does not name its kernel: import it again with `--kernel RELEASE`"
            );
            Failure::new(Exit::Failed, error)
        })?;
        let known = |kernel| Self {
            kernel,
            tried: None,
        };
        let arch = prices::arch_of(info);
        if !info.side.is_host()
            || !info.mode.keeps_halts()
            || !Rule::of(kernel, arch).may_carry_more()
        {
            return Ok(known(kernel));
        }
        let given = GivenHost {
            kernel: Some(kernel),
            arch: Some(arch),
            ..GivenHost::default()
        };
        // Where nothing can be held against a rule, nothing is found either.
        Ok(match prepare(opened, &given) {
            Ok((setup, tried)) => Self {
                kernel: setup.kernel,
                tried,
            },
            Err(_) => known(kernel),
        })
    }

    /// The kernel's version with the backports found, once the halts were read.
    pub(crate) fn finish(self, ends: &PassEnds) -> Version {
        let unread = ends.halts == 0 && ends.broken(Table::Halts).is_some();
        match self.tried.filter(|_| !unread) {
            Some(tried) => self.kernel.with(tried.finish().backports),
            None => self.kernel,
        }
    }
}

impl Sink for KernelSought {
    fn wants(&self, table: Table) -> bool {
        table == Table::Halts && self.tried.is_some()
    }

    fn wants_calls(&self) -> bool {
        self.tried.is_some()
    }

    fn halt(&mut self, halt: &Halt, call: Option<&WindowChange>) {
        if let Some(tried) = &mut self.tried {
            tried.halt(halt, call);
        }
    }
}

fn kernel(recorded: &str, given: &GivenHost) -> Result<Version, Failure> {
    if let Some(kernel) = given.kernel {
        return Ok(kernel);
    }
    recorded.parse().map_err(|error| {
        Failure::new(
            Exit::Failed,
            anyhow::Error::new(error).context("determine the recorded kernel"),
        )
        .hint("specify it: --kernel 6.12")
    })
}

/// The port, and who says so. Text of other tools seldom names the machine; nearly all of it comes
/// from x86, and the other ports' rule differs in defaults and on s390 only.
fn arch(info: &CaptureInfo, given: &GivenHost) -> Result<(Arch, Origin), Failure> {
    if let Some(arch) = given.arch {
        return Ok((arch, Origin::Told));
    }
    match info.host.arch.parse() {
        Ok(arch) => Ok((arch, Origin::Recorded)),
        Err(_) if info.rung == Rung::Import => Ok((Arch::X86, Origin::Assumed)),
        Err(error) => {
            let error = anyhow::Error::new(error).context("determine the recorded architecture");
            Err(Failure::new(Exit::Failed, error).hint("specify it: --arch x86"))
        }
    }
}

/// Every parameter over time: as told, else as recorded, else as the kernel has it by default.
fn settings(
    changes: &[Change<Parameter>],
    given: &GivenHost,
    defaults: Knobs,
) -> (Settings, [Origin; 4]) {
    let mut settings = Settings::fixed(defaults);
    let mut origins = [Origin::Assumed; 4];
    let given = given.parameters.values();
    for (parameter, origin) in Parameter::HOST.into_iter().zip(&mut origins) {
        if let Some(value) = given.get(parameter) {
            *settings.track_mut(parameter) = Track::fixed(value);
            *origin = Origin::Told;
        } else if let Some(track) = recorded(changes, parameter) {
            *settings.track_mut(parameter) = track;
            *origin = Origin::Recorded;
        }
    }
    (settings, origins)
}

#[cfg(test)]
mod test;
