//! The rule of a guest's governor, and its parameters: from a capture of a guest.

use anyhow::anyhow;
use haltwise_core::kvm::{Arch, Version, guest};
use haltwise_core::parameter::{Parameter, Values};
use haltwise_core::verify::guest::Setup;
use haltwise_core::verify::settings::Settings;

use super::over_time::{over_time, recorded};
use super::{GivenHost, Origin, kernel};
use crate::exit::{Exit, Failure};
use crate::prices;
use crate::reading::opened::Opened;

/// Setup that idle periods are compared with, and where the setup was taken from.
#[derive(Debug)]
pub(crate) struct GuestSetup {
    pub(crate) kernel: Version,
    pub(crate) arch: Arch,
    pub(crate) core: Setup,
    /// In the order of [`Parameter::GUEST`].
    pub(crate) origins: [Origin; 5],
    /// Parts of the capture that could not be read.
    pub(crate) notes: Vec<String>,
}

pub(crate) fn governor(opened: &Opened) -> Option<String> {
    let knobs = opened.info().knobs.iter();
    let mut named = knobs.filter(|knob| knob.name == "cpuidle.current_governor");
    named.next().map(|knob| knob.value.trim().to_owned())
}

pub(crate) fn in_force(opened: &Opened) -> guest::Params {
    Values::recorded(&opened.info().knobs)
        .over(guest::Params::default())
        .into()
}

/// Refuses a guest's capture that has no single idle periods: cpuidle's counters give no distribution of idle times,
/// so that nothing bounds what another limit would have done.
pub(crate) fn must_keep_periods(opened: &Opened, verb: &str) -> Result<(), Failure> {
    let mode = opened.info().mode;
    if mode.keeps_halts() {
        return Ok(());
    }
    let error = anyhow!(
        "{verb}: this capture of a guest has sums of cpuidle's counters (--mode {mode}), and no single idle periods"
    );
    Err(Failure::new(Exit::Failed, error)
        .hint("record with `haltwise record --guest` as root: --mode full is the default"))
}

pub(crate) fn guest_setup(opened: &Opened, given: &GivenHost) -> Result<GuestSetup, Failure> {
    must_keep_periods(opened, "verify")?;
    let of_kvm = !given.parameters.values().is_empty();
    if of_kvm || given.parameters.cap.is_some() || !given.backports.is_empty() {
        let error =
            anyhow!("verify: this capture is of a guest, and these options are of KVM's rule");
        return Err(Failure::new(Exit::Usage, error)
            .hint("only --kernel holds for the governor of a guest"));
    }
    match governor(opened).as_deref() {
        Some("haltpoll") => {}
        Some(other) => {
            let error = anyhow!(
                "verify: the guest's governor is {other}, and only haltpoll's rule is checked"
            );
            return Err(Failure::new(Exit::Unsupported, error).hint(
                "haltpoll is chosen by `cpuidle.governor=haltpoll` on the kernel's command line",
            ));
        }
        None => {
            let error = anyhow!("verify: the guest had no cpuidle governor");
            return Err(Failure::new(Exit::Unsupported, error)
                .hint("its kernel has no cpuidle, or no driver was loaded"));
        }
    }
    let info = opened.info();
    let kernel = kernel(&info.host.kernel_release, given)?;
    let Some(rule) = guest::Rule::of(kernel) else {
        let error = anyhow!("verify: Linux {kernel} has no governor haltpoll");
        return Err(Failure::new(Exit::Unsupported, error).hint("it exists since 5.4"));
    };
    let mut notes = Vec::new();
    let (changes, losses) = over_time(opened, Parameter::of, &mut notes);
    let mut settings = Settings::fixed(guest::Params::default());
    let mut origins = [Origin::Assumed; 5];
    for (parameter, origin) in Parameter::GUEST.into_iter().zip(&mut origins) {
        if let Some(track) = recorded(&changes, parameter) {
            *settings.track_mut(parameter) = track;
            *origin = Origin::Recorded;
        }
    }
    Ok(GuestSetup {
        kernel,
        arch: prices::arch_of(info),
        core: Setup {
            rule,
            settings,
            losses,
        },
        origins,
        notes,
    })
}
