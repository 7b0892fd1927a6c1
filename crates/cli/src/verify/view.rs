//! What is said of a verified capture: the JSON, and all that the text shows.

use std::collections::BTreeMap;

use haltwise_capture::info::CaptureInfo;
use haltwise_capture::note::Note;
use haltwise_core::kvm::{Arch, Backports};
use haltwise_core::recording::Rung;
use haltwise_core::verify::settings::Parameter;
use haltwise_core::verify::tally::{Skip, Transition};
use haltwise_core::verify::{Did, Difference};
use serde::Serialize;

use super::SCHEMA;
use super::feed::Fed;
use crate::reading::opened::Opened;
use crate::reading::rule::{Origin, Setup};

#[derive(Debug, Serialize)]
pub(super) struct View {
    schema: u32,
    pub(super) capture: CaptureView,
    pub(super) rule: RuleView,
    pub(super) settings: Vec<SettingView>,
    pub(super) cap_ns: Option<u32>,
    pub(super) halts: u64,
    pub(super) checked: u64,
    pub(super) matched: u64,
    pub(super) differences: u64,
    pub(super) several_settings: u64,
    pub(super) vetoed: u64,
    pub(super) as_if_vetoed: u64,
    pub(super) ceiling_assumed: u64,
    pub(super) differences_assumed: u64,
    pub(super) transitions: BTreeMap<&'static str, CountView>,
    pub(super) skipped: BTreeMap<&'static str, u64>,
    pub(super) shown: Vec<DifferenceView>,
}

#[derive(Debug, Serialize)]
pub(super) struct CaptureView {
    pub(super) dir: String,
    pub(super) kernel_release: String,
    pub(super) rung: Rung,
    pub(super) vms: usize,
    pub(super) vcpus: usize,
    pub(super) lost: u64,
    pub(super) cut: bool,
    pub(super) damaged: bool,
    pub(super) notes: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct RuleView {
    pub(super) kernel: String,
    pub(super) arch: Arch,
    pub(super) arch_origin: Origin,
    pub(super) backports: Vec<String>,
    pub(super) backports_found: bool,
    pub(super) equally: Vec<String>,
    pub(super) undecided: Vec<String>,
    pub(super) differences_upstream: Option<u64>,
    pub(super) transcribed: bool,
    /// Some backport would make another rule of it.
    #[serde(skip)]
    pub(super) could_be_other: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct SettingView {
    pub(super) name: &'static str,
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) changes: usize,
    pub(super) origin: Origin,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct CountView {
    pub(super) checked: u64,
    pub(super) matched: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct DifferenceView {
    pub(super) vm: Option<u32>,
    pub(super) vm_name: Option<String>,
    pub(super) vcpu: Option<u32>,
    pub(super) tid: u32,
    pub(super) end_ns: u64,
    pub(super) after_start_ns: u64,
    pub(super) halt_ns: u64,
    pub(super) waited: bool,
    pub(super) valid: bool,
    pub(super) before_ns: u32,
    pub(super) ceiling_ns: u32,
    pub(super) settings: usize,
    pub(super) as_if_vetoed: bool,
    pub(super) expected: DidView,
    pub(super) found: DidView,
}

#[derive(Debug, Serialize)]
pub(super) struct DidView {
    pub(super) window_ns: Option<u32>,
    pub(super) change: &'static str,
    pub(super) old_ns: Option<u32>,
    pub(super) new_ns: Option<u32>,
    pub(super) next_ns: Option<u32>,
}

impl From<Did> for DidView {
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

impl View {
    /// Whether there was more than could be read.
    pub(super) fn is_partial(&self) -> bool {
        self.capture.cut || self.capture.damaged || self.capture.lost > 0
    }

    /// The reasons, most frequent first.
    pub(super) fn reasons(&self) -> Vec<(u64, Skip)> {
        let skipped = Skip::ALL.into_iter();
        let mut reasons: Vec<(u64, Skip)> = skipped
            .filter_map(|skip| Some((*self.skipped.get(skip.as_str())?, skip)))
            .filter(|(count, _)| *count > 0)
            .collect();
        reasons.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        reasons
    }

    /// Why nothing was checked, where that is so.
    pub(super) fn why_not_checked(&self) -> String {
        let reasons = self.reasons();
        if reasons.is_empty() {
            return "the capture contains no halts".to_owned();
        }
        let words = reasons
            .iter()
            .map(|(count, skip)| format!("{count} {}", skip.reason()));
        words.collect::<Vec<_>>().join(", ")
    }

    /// What to do about it.
    pub(super) fn hint_if_not_checked(&self) -> &'static str {
        match self.reasons().first() {
            None => "`haltwise doctor` lists possible reasons",
            Some((_, Skip::Window)) => {
                "windows are known after the first call of grow or shrink: the tracepoint \
                 kvm_halt_poll_ns must have been recorded too"
            }
            Some((_, Skip::Veto)) => {
                "on s390 a vCPU may not poll while more CPU time is stolen than halt_poll_max_steal allows"
            }
            Some((_, Skip::Unplaced)) => {
                "record while the VMs run, so that their threads can be placed"
            }
            Some(_) => "record for longer",
        }
    }
}

/// Says what was found.
pub(super) fn view(opened: &Opened, setup: &Setup, fed: &Fed) -> View {
    let tally = &fed.tally;
    let transitions = Transition::ALL.map(|it| {
        let count = tally.of(it);
        let view = CountView {
            checked: count.checked,
            matched: count.matched,
        };
        (it.as_str(), view)
    });
    let skipped = Skip::ALL.map(|it| (it.as_str(), tally.skipped.get(&it).copied().unwrap_or(0)));
    let settings = Parameter::ALL.into_iter().zip(setup.origins);
    let carried = setup.carried.as_ref();
    View {
        schema: SCHEMA,
        capture: capture_view(opened, setup, fed),
        rule: RuleView {
            kernel: setup.kernel.with(Backports::NONE).to_string(),
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
        },
        settings: settings
            .map(|(parameter, origin)| {
                let track = setup.core.settings.track(parameter);
                SettingView {
                    name: parameter.as_str(),
                    first: track.first(),
                    last: track.last(),
                    changes: track.changes(),
                    origin,
                }
            })
            .collect(),
        cap_ns: setup.core.cap,
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

/// Changes, each by its name.
fn words(backports: Backports) -> Vec<String> {
    backports.iter().map(|it| it.to_string()).collect()
}

fn capture_view(opened: &Opened, setup: &Setup, fed: &Fed) -> CaptureView {
    let info = opened.info();
    let (mut cut, mut damaged) = (false, false);
    let mut notes = Vec::new();
    for note in opened.capture().notes() {
        match note {
            Note::Cut => cut = true,
            Note::OutOfOrder { .. } | Note::Dropped(_) | Note::AsCounts { .. } => {
                notes.push(note.to_string())
            }
            _ => {
                damaged = true;
                notes.push(note.to_string());
            }
        }
    }
    for broken in setup.notes.iter().chain(&fed.notes) {
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
    CaptureView {
        dir: opened.named().display().to_string(),
        kernel_release: info.host.kernel_release.clone(),
        rung: info.rung,
        vms: info.roster.vms.len(),
        vcpus: info.roster.vcpus.len(),
        lost: lost.values().copied().fold(0, u64::saturating_add),
        cut,
        damaged,
        notes,
    }
}

fn difference_view(info: &CaptureInfo, difference: &Difference) -> DifferenceView {
    let halt = &difference.halt;
    let vm = info.roster.vms.iter().find(|vm| Some(vm.index) == halt.vm);
    DifferenceView {
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
