//! The result of a verification: each figure with its name, unit and meaning.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use haltwise_capture::info::CaptureInfo;
use haltwise_capture::note::Note;
use haltwise_core::event::WindowCall;
use haltwise_core::kvm::{Arch, Backports, Distributor, Version};
use haltwise_core::parameter::Parameter;
use haltwise_core::recording::{Rung, Side};
use haltwise_core::stats::total;
use haltwise_core::verify::settings::Settings;
use haltwise_core::verify::tally::{Count, Skip, Transition};
use haltwise_core::verify::{Did, Difference};
use haltwise_document::figure::named;
use haltwise_document::{Figure, Unit, figures};

use super::SCHEMA;
use super::feed::Fed;
use crate::reading::opened::Opened;
use crate::reading::recording::is_damage;
use crate::reading::rule::{GuestSetup, Origin, Setup};

pub(crate) const ABOUT: &[&str] = &[
    "Lengths, windows and points in time are whole nanoseconds; points in time are on the host's \
     `CLOCK_MONOTONIC`, as in the capture.",
    "`null` means that it was not recorded.",
];

figures! {
    /// Everything that is said of a verified capture.
    pub(crate) struct Verified {
        /// Version of this layout: 1.
        pub(crate) schema: u32 = Number,
        /// Capture that was read.
        pub(crate) capture: VerifiedCapture = Record(VerifiedCapture::FIGURES),
        /// The algorithm that halts were checked against.
        pub(crate) rule: Algorithm = Record(Algorithm::FIGURES),
        /// The parameters of the module `kvm`, or of `haltpoll` in a guest, as they were taken.
        pub(crate) settings: Vec<TakenParameter> = List(TakenParameter::FIGURES),
        /// The ceiling of every VM, where `--cap` specified it; else `null`, and each halt has its own.
        pub(crate) cap_ns: Option<u32> = Nanos,
        /// Halts in the capture.
        pub(crate) halts: u64 = Count,
        /// Those of them that could be checked.
        pub(crate) checked: u64 = Count,
        /// Those of them that match the algorithm.
        pub(crate) matched: u64 = Count,
        /// The others: `checked` minus `matched`.
        pub(crate) differences: u64 = Count,
        /// Halts checked while settings were changing: one of those possible explains each match.
        pub(crate) several_settings: u64 = Count,
        /// Halts matched of vCPUs whose guest disabled host polling: KVM left their windows alone, as it must.
        pub(crate) vetoed: u64 = Count,
        /// Differences in which KVM left the window alone, as for a vCPU that may not poll.
        pub(crate) as_if_vetoed: u64 = Count,
        /// Halts whose ceiling was not recorded: the parameter `halt_poll_ns` was taken.
        pub(crate) ceiling_assumed: u64 = Count,
        /// Differences among these: such a VM may have a ceiling of its own.
        pub(crate) differences_assumed: u64 = Count,
        /// Halts by action. A halt counts in `silent` and in `grow` or `shrink` if its window was cut where it
        /// began and called for where it ended.
        pub(crate) transitions: BTreeMap<&'static str, Count> = Record(TRANSITIONS),
        /// Halts that were not checked, by reason.
        pub(crate) skipped: BTreeMap<&'static str, u64> = Record(SKIPPED),
        /// The differences: the first 20, or as many as `--rows` says.
        pub(crate) shown: Vec<DifferentHalt> = List(DifferentHalt::FIGURES),
    }

    pub(crate) struct VerifiedCapture {
        /// The capture.
        pub(crate) dir: String = Name,
        /// `uname -r` of the recorded host.
        pub(crate) kernel_release: String = Name,
        /// `bpf`, `tracepoints` or `import`; all but the first know windows by calls of grow and shrink only.
        pub(crate) rung: Rung = Word,
        /// VMs that were seen.
        pub(crate) vms: usize = Count,
        /// vCPUs that were seen.
        pub(crate) vcpus: usize = Count,
        /// Events lost.
        pub(crate) lost: u64 = Count,
        /// The recorder did not end the recording itself.
        pub(crate) cut: bool = Flag,
        /// A part cannot be read.
        pub(crate) damaged: bool = Flag,
        /// Other findings of the reader of the capture.
        pub(crate) notes: Vec<String> = Words,
    }

    pub(crate) struct Algorithm {
        /// Side of the rule: KVM's (`host`), or that of the governor haltpoll in a guest (`guest`).
        pub(crate) polls: Side = Word,
        /// Policy that was checked instead of the kernel's algorithm.
        pub(crate) policy: Option<String> = Name,
        /// The kernel.
        pub(crate) kernel: String = Name,
        /// Builder of the recorded kernel, where its release shows it: upstream's algorithm is assumed for it.
        pub(crate) distributor: Option<&'static str> = Name,
        /// The architecture.
        pub(crate) arch: Arch = Word,
        /// `recorded`, `told` (an option), or `assumed`: imported text seldom names the machine.
        pub(crate) arch_origin: Origin = Word,
        /// Changes of later kernels that the kernel carries: specified by `--backport`, or found.
        pub(crate) backports: Vec<String> = Words,
        /// They were found: with these, and none fewer, the algorithm explains the recording.
        pub(crate) backports_found: bool = Flag,
        /// Other changes that explain it just as well.
        pub(crate) equally: Vec<String> = Words,
        /// Changes that it may carry besides: with each the recording is explained just as well.
        pub(crate) undecided: Vec<String> = Words,
        /// Differences from the algorithm of the kernel's number, where changes were sought; `null` if they were
        /// specified, or the kernel is too new to carry any.
        pub(crate) differences_upstream: Option<u64> = Count,
        /// The algorithm of this kernel is known; else the nearest was taken.
        pub(crate) transcribed: bool = Flag,
        /// A backport that it does not carry would change it: differences may come of one.
        pub(crate) could_be_other: bool = Flag,
    }

    pub(crate) struct TakenParameter {
        /// KVM's name for the parameter.
        pub(crate) name: &'static str = Word,
        /// Its value at the start.
        pub(crate) first: u32 = Number,
        /// Its value at the end.
        pub(crate) last: u32 = Number,
        /// How often it changed.
        pub(crate) changes: usize = Count,
        /// `recorded`, `told` (an option) or `assumed` (the kernel's default).
        pub(crate) origin: Origin = Word,
    }
}

figures! {
    pub(crate) const COUNT: Count {
        /// Those that could be checked.
        checked: u64 = Count,
        /// Those of them that match.
        matched: u64 = Count,
    }
}

figures! {
    pub(crate) struct ResultLine {
        /// Action that was taken.
        pub(crate) what: &'static str = Word " ",
        /// Halts that could be checked.
        pub(crate) checked: u64 = Number,
        /// Those of them that match.
        pub(crate) matched: u64 = Number,
    }
}

const TRANSITIONS: &[Figure] = &named(Transition::NAMED, Unit::Record(COUNT));

const SKIPPED: &[Figure] = &named(Skip::NAMED, Unit::Count);

figures! {
    /// A halt that does not match.
    pub(crate) struct DifferentHalt {
        /// The VM's number in the capture.
        pub(crate) vm: Option<u32> = Number,
        /// The VM's name.
        pub(crate) vm_name: Option<String> = Name "VM",
        /// The vCPU.
        pub(crate) vcpu: Option<u32> = Number,
        /// The thread.
        pub(crate) tid: u32 = Number,
        /// When it ended.
        pub(crate) end_ns: u64 = Number,
        /// The same since the recording began.
        pub(crate) after_start_ns: u64 = Number,
        /// Its length, as the tracepoint `kvm_vcpu_wakeup` reports it.
        pub(crate) halt_ns: u64 = Nanos,
        /// Whether the vCPU was scheduled out, as the tracepoint reports it.
        pub(crate) waited: bool = Flag,
        /// Whether the wake-up was valid, as the tracepoint reports it.
        pub(crate) valid: bool = Flag,
        /// The window that the halt before left.
        pub(crate) before_ns: u32 = Nanos,
        /// The ceiling that the algorithm was given.
        pub(crate) ceiling_ns: u32 = Nanos,
        /// How many settings were tried.
        pub(crate) settings: usize = Count,
        /// KVM did as for a vCPU that may not poll.
        pub(crate) as_if_vetoed: bool = Flag,
        /// Step of the algorithm, under the newest settings.
        pub(crate) expected: WindowStep = Record(WindowStep::FIGURES),
        /// Step that was recorded.
        pub(crate) found: WindowStep = Record(WindowStep::FIGURES),
    }

    pub(crate) struct WindowStep {
        /// The window in force.
        pub(crate) window_ns: Option<u32> = Nanos,
        /// `grow`, `shrink` or `none`.
        pub(crate) change: &'static str = Word,
        /// From which window.
        pub(crate) old_ns: Option<u32> = Nanos,
        /// To which window.
        pub(crate) new_ns: Option<u32> = Nanos,
        /// The window left behind.
        pub(crate) next_ns: Option<u32> = Nanos,
    }
}

impl Verified {
    pub(crate) fn is_partial(&self) -> bool {
        self.capture.cut || self.capture.damaged || self.capture.lost > 0
    }

    pub(crate) fn reasons(&self) -> Vec<(u64, Skip)> {
        let skipped = Skip::ALL.into_iter();
        let mut reasons: Vec<(u64, Skip)> = skipped
            .filter_map(|skip| Some((*self.skipped.get(skip.as_str())?, skip)))
            .filter(|(count, _)| *count > 0)
            .collect();
        reasons.sort_by_key(|(count, _)| Reverse(*count));
        reasons
    }

    pub(crate) fn why_not_checked(&self) -> String {
        let reasons = self.reasons();
        if reasons.is_empty() {
            return "the capture contains no halts".to_owned();
        }
        let words = reasons
            .iter()
            .map(|(count, skip)| format!("{count} {}", skip.reason()));
        words.collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn hint_if_not_checked(&self) -> &'static str {
        match self.reasons().first() {
            None => "`haltwise status --check` lists possible reasons",
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
        if note == Note::Cut {
            cut = true;
            continue;
        }
        damaged |= is_damage(&note);
        notes.push(note.to_string());
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
