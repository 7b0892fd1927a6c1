//! Ceilings of VMs: who may have one, what is best for them, and whether that goes into the plan.

use std::collections::{BTreeMap, BTreeSet};

use haltwise_capture::info::CaptureInfo;
use haltwise_core::event::Vm;
use haltwise_core::ids::VmIndex;
use haltwise_core::tune::advice::LEAST_GAIN;
use haltwise_core::tune::caps::{self, Caps};
use haltwise_core::tune::final_round::FinalRound;
use haltwise_core::tune::stage::Entry;
use haltwise_core::tune::{Advice, Inputs};

use super::candidates::TuneRequest;
use super::threads::Threads;
use crate::exit::Failure;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum CeilingsFor {
    /// Those whose ceiling could be set when they were recorded.
    Settable,
    /// All, as if their VMMs were started so.
    All,
    /// None.
    None,
}

#[derive(Debug)]
pub(crate) struct OwnCeilings {
    pub(crate) caps: Caps,
    /// Why they are not in the plan; `None` if they are.
    pub(crate) withheld: Option<Withheld>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Withheld {
    /// No VM can be given one, as it was recorded.
    NotSettable,
    /// Those that come nearest to the limit of polling are beyond it.
    OverLimit,
    /// They gain too little, or that may be chance.
    NoGain,
    /// Several VMs have one name, by which the plan names them.
    SameName,
}

pub(super) fn search(
    info: &CaptureInfo,
    request: &TuneRequest,
    (inputs, of, advice): (&Inputs, &FinalRound, &Advice),
    pool: &Threads,
) -> Result<Option<OwnCeilings>, Failure> {
    let all = || -> BTreeSet<VmIndex> { info.roster.vms.iter().map(|vm| vm.index).collect() };
    let is_settable = |vm: &&Vm| vm.ceiling_settable == Some(true);
    let settable: BTreeSet<VmIndex> = match request.ceilings {
        CeilingsFor::None => return Ok(None),
        CeilingsFor::All => all(),
        CeilingsFor::Settable => (info.roster.vms.iter().filter(is_settable))
            .map(|vm| vm.index)
            .collect(),
    };
    let can_any = inputs.seats.iter().any(|seated| {
        let vm = seated.seat.vm;
        vm.is_some_and(|vm| settable.contains(&vm))
    });
    let aim = &advice.goal.aim;
    // The gain is reported even if no ceiling can be set.
    let settable = if can_any { settable } else { all() };
    let found = caps::search(inputs, of, &base(of, advice), (aim, &settable), pool)?;
    Ok(found.map(|caps| {
        let gains = caps.cost_share.is_below_zero() && caps.cost_share.value <= -LEAST_GAIN;
        let withheld = match () {
            () if !can_any => Some(Withheld::NotSettable),
            () if caps.is_over_limit => Some(Withheld::OverLimit),
            () if !gains => Some(Withheld::NoGain),
            () if !are_named_apart(info, &caps) => Some(Withheld::SameName),
            () => None,
        };
        OwnCeilings { caps, withheld }
    }))
}

/// The setting for all that stands after the recommendation is followed.
fn base(of: &FinalRound, advice: &Advice) -> Entry {
    match &advice.choice {
        Some(choice) if advice.verdict.changes() => choice.entry(),
        _ => of.in_force.entry().recorded(),
    }
}

/// Whether each VM with a ceiling has a name that no other VM has.
fn are_named_apart(info: &CaptureInfo, caps: &Caps) -> bool {
    let mut named: BTreeMap<&str, Vec<VmIndex>> = BTreeMap::new();
    for vm in &info.roster.vms {
        named.entry(&vm.name).or_default().push(vm.index);
    }
    let alone: BTreeSet<VmIndex> = (named.into_values())
        .filter_map(|vms| <[VmIndex; 1]>::try_from(vms).ok())
        .flatten()
        .collect();
    let mut named = caps.groups.iter().filter_map(|group| group.vm);
    named.all(|vm| alone.contains(&vm))
}
