//! The result, from what was found.

use haltwise_capture::info::CaptureInfo;
use haltwise_capture::note::Note;
use haltwise_core::kvm::{Backports, Distributor, Version};
use haltwise_core::parameter::Parameter;
use haltwise_core::recording::Side;
use haltwise_core::stats::total;
use haltwise_core::verify::settings::Track;
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
    let settings = Parameter::HOST.into_iter().zip(setup.origins);
    let carried = setup.carried.as_ref();
    let rule = Algorithm {
        polls: Side::Host,
        kernel: setup.kernel.with(Backports::NONE).to_string(),
        distributor: distributor(opened, setup.kernel),
        arch: setup.core.arch,
        arch_origin: setup.arch_origin,
        backports: words(setup.kernel.backports),
        backports_found: carried.is_some_and(|it| !it.backports.is_empty()),
        equally: carried.map_or_else(Vec::new, |it| {
            it.equally.iter().map(|it| words(*it).join(", ")).collect()
        }),
        undecided: carried.map_or_else(Vec::new, |it| words(it.undecided)),
        differences_upstream: carried.map(|it| it.differences_upstream),
        transcribed: setup.kernel.is_transcribed(),
        could_be_other: setup.core.rule.may_carry_more(),
    };
    let settings = settings.map(|(parameter, origin)| {
        let track = setup.core.settings.track(parameter);
        taken(parameter.name(), track, origin)
    });
    verified(
        opened,
        rule,
        settings.collect(),
        setup.core.cap,
        &setup.notes,
        fed,
    )
}

pub(crate) fn build_guest(opened: &Opened, setup: &GuestSetup, fed: &Fed) -> Verified {
    let settings = Parameter::GUEST.into_iter().zip(setup.origins);
    let settings = settings.map(|(parameter, origin)| {
        let track = setup.core.settings.track(parameter);
        taken(parameter.name(), track, origin)
    });
    let rule = Algorithm {
        polls: Side::Guest,
        kernel: setup.kernel.with(Backports::NONE).to_string(),
        distributor: distributor(opened, setup.kernel),
        arch: setup.arch,
        arch_origin: Origin::Recorded,
        backports: Vec::new(),
        backports_found: false,
        equally: Vec::new(),
        undecided: Vec::new(),
        differences_upstream: None,
        transcribed: setup.kernel.is_transcribed(),
        could_be_other: false,
    };
    verified(opened, rule, settings.collect(), None, &setup.notes, fed)
}

/// Who built the recorded kernel, unless another number is given than the recorded one.
fn distributor(opened: &Opened, kernel: Version) -> Option<&'static str> {
    let release = &opened.info().host.kernel_release;
    let recorded: Version = release.parse().ok()?;
    let is_recorded = recorded.with(Backports::NONE) == kernel.with(Backports::NONE);
    let distributor = Distributor::of(release).filter(|_| is_recorded);
    distributor.map(|it| it.name)
}

fn taken(name: &'static str, track: &Track, origin: Origin) -> TakenParameter {
    TakenParameter {
        name,
        first: track.first(),
        last: track.last(),
        changes: track.changes(),
        origin,
    }
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
            change: match did.call {
                None => "none",
                Some(call) if call.grow => "grow",
                Some(_) => "shrink",
            },
            old_ns: did.call.map(|call| call.old),
            new_ns: did.call.map(|call| call.new),
            next_ns: did.next_ns,
        }
    }
}
