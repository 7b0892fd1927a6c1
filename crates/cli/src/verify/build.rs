//! The result, from what was found.

use haltwise_capture::info::CaptureInfo;
use haltwise_capture::note::Note;
use haltwise_core::event::WindowCall;
use haltwise_core::kvm::{Arch, Backports, Distributor, Version};
use haltwise_core::parameter::Parameter;
use haltwise_core::recording::Side;
use haltwise_core::stats::total;
use haltwise_core::verify::settings::Settings;
use haltwise_core::verify::tally::{Skip, Transition};
use haltwise_core::verify::{Did, Difference};

use super::SCHEMA;
use super::feed::Fed;
use super::view::{
    Algorithm, DifferentHalt, TakenParameter, Verified, VerifiedCapture, WindowStep,
};
use crate::reading::opened::Opened;
use crate::reading::rule::{GuestSetup, Origin, Setup};

pub(crate) fn build(opened: &Opened, setup: &Setup, fed: &Fed) -> Verified {
    let core = &setup.core;
    let found = setup.carried.clone().unwrap_or_default();
    let rule = Algorithm {
        polls: Side::Host,
        policy: setup.policy.as_ref().map(ToString::to_string),
        arch_origin: setup.arch_origin,
        backports: words(setup.kernel.backports),
        backports_found: !found.backports.is_empty(),
        equally: (found.equally.iter())
            .map(|it| words(*it).join(", "))
            .collect(),
        undecided: words(found.undecided),
        differences_upstream: setup.carried.as_ref().map(|it| it.differences_upstream),
        could_be_other: core.rule.may_carry_more(),
        ..upstream(opened, setup.kernel, core.arch)
    };
    let settings = taken(&core.settings, Parameter::HOST, setup.origins);
    verified(opened, rule, settings, core.cap, &setup.notes, fed)
}

pub(crate) fn build_guest(opened: &Opened, setup: &GuestSetup, fed: &Fed) -> Verified {
    let rule = upstream(opened, setup.kernel, setup.arch);
    let settings = taken(&setup.core.settings, Parameter::GUEST, setup.origins);
    verified(opened, rule, settings, None, &setup.notes, fed)
}

/// The governor's algorithm of a recorded kernel, without changes of later ones.
fn upstream(opened: &Opened, kernel: Version, arch: Arch) -> Algorithm {
    Algorithm {
        polls: Side::Guest,
        policy: None,
        kernel: kernel.with(Backports::NONE).to_string(),
        distributor: distributor(opened, kernel),
        arch,
        arch_origin: Origin::Recorded,
        backports: Vec::new(),
        backports_found: false,
        equally: Vec::new(),
        undecided: Vec::new(),
        differences_upstream: None,
        transcribed: kernel.is_transcribed(),
        could_be_other: false,
    }
}

/// Builder of the recorded kernel, unless another release is given.
fn distributor(opened: &Opened, kernel: Version) -> Option<&'static str> {
    let release = &opened.info().host.kernel_release;
    let recorded: Version = release.parse().ok()?;
    let is_recorded = recorded.with(Backports::NONE) == kernel.with(Backports::NONE);
    let distributor = Distributor::of(release).filter(|_| is_recorded);
    distributor.map(|it| it.name)
}

fn taken<const N: usize>(
    settings: &Settings,
    parameters: [Parameter; N],
    origins: [Origin; N],
) -> Vec<TakenParameter> {
    let parameters = parameters.into_iter().zip(origins);
    let taken = parameters.map(|(parameter, origin)| {
        let track = settings.track(parameter);
        TakenParameter {
            name: parameter.name(),
            first: track.first(),
            last: track.last(),
            changes: track.changes(),
            origin,
        }
    });
    taken.collect()
}

fn verified(
    opened: &Opened,
    rule: Algorithm,
    settings: Vec<TakenParameter>,
    cap_ns: Option<u32>,
    unread: &[String],
    fed: &Fed,
) -> Verified {
    let tally = &fed.tally;
    let transitions = Transition::ALL.map(|it| (it.as_str(), tally.of(it)));
    let skipped = Skip::ALL.map(|it| (it.as_str(), tally.skipped.get(&it).copied().unwrap_or(0)));
    Verified {
        schema: SCHEMA,
        capture: capture_view(opened, unread, fed),
        rule,
        settings,
        cap_ns,
        halts: tally.halts,
        checked: tally.checked.checked,
        matched: tally.checked.matched,
        differences: tally.differences(),
        several_settings: tally.several_settings,
        vetoed: tally.vetoed,
        as_if_vetoed: tally.as_if_vetoed,
        ceiling_assumed: fed.ceiling_assumed,
        differences_assumed: fed.differences_assumed,
        transitions: transitions.into(),
        skipped: skipped.into(),
        shown: fed
            .differences
            .iter()
            .map(|it| difference_view(opened.info(), it))
            .collect(),
    }
}

fn words(backports: Backports) -> Vec<String> {
    backports.iter().map(|it| it.to_string()).collect()
}

fn capture_view(opened: &Opened, unread: &[String], fed: &Fed) -> VerifiedCapture {
    let info = opened.info();
    let (mut cut, mut damaged) = (false, false);
    let mut notes = Vec::new();
    for note in opened.capture().notes() {
        match note {
            Note::Cut => cut = true,
            Note::OutOfOrder { .. } | Note::Dropped(_) | Note::AsCounts { .. } => {
                notes.push(note.to_string());
            }
            _ => {
                damaged = true;
                notes.push(note.to_string());
            }
        }
    }
    for broken in unread.iter().chain(&fed.notes) {
        damaged = true;
        if !notes.iter().any(|note| note.contains(broken)) {
            notes.push(broken.clone());
        }
    }
    if fed.calls_missing > 0 {
        notes.push(format!(
            "{} calls of grow or shrink are missing in the table window_changes; the windows of the \
             halts are used",
            fed.calls_missing
        ));
    }
    let lost = opened.lost_by_place();
    VerifiedCapture {
        dir: opened.named().display().to_string(),
        kernel_release: info.host.kernel_release.clone(),
        rung: info.rung,
        vms: info.roster.vms.len(),
        vcpus: info.roster.vcpus.len(),
        lost: total(lost.values()),
        cut,
        damaged,
        notes,
    }
}

fn difference_view(info: &CaptureInfo, difference: &Difference) -> DifferentHalt {
    let halt = &difference.halt;
    let vm = info.roster.vms.iter().find(|vm| Some(vm.index) == halt.vm);
    DifferentHalt {
        vm: halt.vm.map(|vm| vm.0),
        vm_name: vm.map(|vm| vm.name.clone()),
        vcpu: halt.vcpu.map(|vcpu| vcpu.0),
        tid: halt.tid.0,
        end_ns: halt.end_ns(),
        after_start_ns: halt.end_ns().saturating_sub(info.clock.start_monotonic_ns),
        halt_ns: halt.halt_ns,
        waited: halt.waited,
        valid: halt.valid,
        before_ns: difference.before_ns,
        ceiling_ns: difference.ceiling_ns,
        settings: difference.settings,
        as_if_vetoed: difference.as_if_vetoed,
        expected: difference.expected.into(),
        found: difference.found.into(),
    }
}

impl From<Did> for WindowStep {
    fn from(did: Did) -> Self {
        Self {
            window_ns: did.window_ns,
            change: WindowCall::from(did.call).as_str(),
            old_ns: did.call.map(|call| call.old),
            new_ns: did.call.map(|call| call.new),
            next_ns: did.next_ns,
        }
    }
}
