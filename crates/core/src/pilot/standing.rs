//! State of the pilot, as it is shown and kept on disk.

use std::collections::BTreeMap;
use std::ops::Add as _;

use serde::{Deserialize, Serialize};

use super::decision::Kind;
use super::engine::Pilot;
use super::evidence::Evidence;
use super::guards::Guarded;
use super::input::Counts;
use super::member::Member;
use super::memory::Regret;
use super::target::{State, Target};
use crate::ids::VmKey;
use crate::stats::Interval;

#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    pub vms: BTreeMap<VmKey, PilotVm>,
    pub guards: Vec<Guarded>,
    pub decisions: Decisions,
    pub errors: PilotErrors,
    /// Readings that could not be true.
    pub dropped: u64,
    pub halts_held: usize,
    /// Halts of all VMs that the pilot can set something for have been recorded, or there were none to record.
    pub has_looked: bool,
}

/// Where it stands with a VM: times in nanoseconds, changes of the cost of a halt as shares.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PilotVm {
    pub vm: String,
    /// For the caller to fill in, as is `since_utc`.
    pub uuid: Option<String>,
    pub pid: u32,
    pub vcpus: u64,
    pub goal: String,
    pub state: VmState,
    pub ceiling_ns: Option<u32>,
    pub found_ns: Option<u32>,
    pub since_utc: String,
    pub state_ns: Option<u64>,
    pub why: String,
    /// Periods of trials apart.
    pub decision: Option<Kind>,
    pub decision_ago_ns: Option<u64>,
    /// Where it only observes.
    pub would_set_ns: Option<u32>,
    pub predicted: Option<Interval>,
    pub measured: Option<Interval>,
    /// Since the target was first looked at: made, or only possible (`is_saved`).
    pub saved_ns: Option<Interval>,
    pub is_saved: Option<bool>,
    pub regret: Option<f64>,
    pub halts_per_s: Option<f64>,
    pub poll_cpu_percent: Option<f64>,
    pub failed_poll_cpu_percent: Option<f64>,
    /// At the last look.
    pub latency_mean_ns: Option<u64>,
    pub phase_ns: u64,
}

crate::names! {
    pub enum VmState {
        Watching = "watching",
        Trial = "trial",
        Kept = "kept",
        /// The setting found is restored, or is to be; nothing is tried for a while.
        BackOff = "back-off",
        /// Another program set it.
        HandsOff = "hands-off",
        /// The configuration leaves it alone, or its guest polls by itself.
        Excluded = "excluded",
        NotSettable = "not-settable",
        NoData = "no-data",
    }
}

/// Decisions since the start, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Decisions {
    pub would_set: u64,
    pub tried: u64,
    pub kept: u64,
    pub went_back: u64,
    pub restored: u64,
    pub hands_off: u64,
    /// Changes that were refused or failed.
    pub failed: u64,
}

impl Decisions {
    pub(super) fn count(&mut self, kind: Kind) {
        let count = match kind {
            Kind::WouldSet => &mut self.would_set,
            Kind::Try => &mut self.tried,
            Kind::Keep | Kind::Again => &mut self.kept,
            Kind::GoBack => &mut self.went_back,
            Kind::Restore => &mut self.restored,
            Kind::HandsOff => &mut self.hands_off,
            Kind::On | Kind::Off => return,
        };
        *count += 1;
    }
}

/// How far predictions were off, in trials and in proofs.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct PilotErrors {
    /// How many trials, and proofs, measured one.
    pub trials: usize,
    pub proofs: Option<usize>,
    pub p50: Option<f64>,
    pub p90: Option<f64>,
}

impl<E: Evidence> Pilot<E> {
    pub fn standing(&self) -> Standing {
        let members = self.members.values();
        let held = members.flat_map(|it| it.chunks.iter().chain(it.tried.iter().flatten()));
        let errors = self.errors();
        Standing {
            vms: (self.members.iter())
                .map(|(vm, member)| (*vm, self.of_vm(*vm, member)))
                .collect(),
            guards: self.guards.clone(),
            decisions: self.decided,
            errors: PilotErrors {
                trials: self.setup.memory.errors.count(),
                proofs: Some(self.setup.proofs.count()),
                p50: errors.percentile(0.5),
                p90: errors.percentile(0.9),
            },
            dropped: self.dropped,
            halts_held: held.map(E::size).sum(),
            has_looked: (self.members.iter()).all(|(vm, member)| {
                let target = self.target_of(*vm);
                member.looked_ns.is_some() || target.is_none_or(Target::is_hands_off)
            }),
        }
    }

    fn targets_of(&self, vm: VmKey) -> impl Iterator<Item = &Target> {
        let targets = self.targets.values();
        targets.filter(move |target| target.observed.members.contains(&vm))
    }

    /// The target that is set for a VM.
    fn target_of(&self, vm: VmKey) -> Option<&Target> {
        self.targets_of(vm).find(|it| !it.observed.is_excluded)
    }

    /// Savings of a VM, made or only possible: by its own ceiling, and while it followed the host's parameters. Its part of
    /// what a target saved is its part of the halts, so that the parts add up to the whole.
    fn saved_ns(&self, vm: VmKey, member: &Member<E::Chunk>, is_saved: bool) -> Option<Interval> {
        let saved = if is_saved {
            Regret::saved_ns
        } else {
            Regret::would_saved_ns
        };
        let of_target = |target: &Target| {
            let members = target.observed.members_of(&self.members);
            let part = match members.map(Member::halts).sum::<u64>() {
                0 => 1.0 / target.observed.members.len().max(1) as f64,
                all => member.halts() as f64 / all as f64,
            };
            saved(&target.known.regret).map(|saved| saved * part)
        };
        let all = self.targets_of(vm).map(of_target).reduce(Interval::add);
        all.filter(Interval::is_known)
    }

    fn of_vm(&self, vm: VmKey, member: &Member<E::Chunk>) -> PilotVm {
        let seen = &member.seen;
        let ago = |at_ns| self.now_ns.saturating_sub(at_ns);
        let target = self.target_of(vm);
        let (state, mut why) = match target {
            Some(target) => (target.state.named(), target.why.clone()),
            None if seen.goal.is_none() => (
                VmState::Excluded,
                "the configuration leaves it alone".to_owned(),
            ),
            None if seen.polls_itself => {
                (VmState::Excluded, "its guest polls by itself".to_owned())
            }
            None => (VmState::NotSettable, "its ceiling cannot be set".to_owned()),
        };
        if target.is_some_and(|it| it.owed.is_some()) && !self.may_restore {
            why += ": `haltwise undo` restores";
        }
        let (state, why) = if member.is_blind() {
            (VmState::NoData, "it can no longer be read".to_owned())
        } else {
            (state, why)
        };
        let decided = target.and_then(|it| it.decided);
        // A setting that was set while the pilot might act stays in force where the pilot no longer may act.
        let is_saved = self.setup.limits.may_act || self.targets_of(vm).any(|it| it.set.is_some());
        let param = self.seen.host.knobs.map(|knobs| knobs.halt_poll_ns);
        let counts = member.counts.as_ref();
        let percent = |of: fn(&Counts) -> u64| counts.map(|it| 100.0 * it.per_s(of(it)) / 1e9);
        let measured = target.filter(|it| matches!(it.state, State::Kept));
        let latency_ns = target.and_then(|it| Some(it.answer.as_ref()?.latency_mean_ns));
        PilotVm {
            vm: seen.name.clone(),
            uuid: None,
            pid: vm.pid.0,
            vcpus: seen.vcpus,
            goal: (seen.goal.as_ref())
                .map_or("excluded", |goal| &goal.name)
                .to_owned(),
            state,
            ceiling_ns: seen.ceiling.own().or(param),
            found_ns: target.map(|it| it.found.halt_poll_ns),
            since_utc: String::new(),
            state_ns: Some(target.map_or(0, |it| ago(it.since_ns))),
            why,
            decision: decided.map(|(kind, _)| kind),
            decision_ago_ns: decided.map(|(_, at_ns)| ago(at_ns)),
            would_set_ns: target.and_then(|it| Some(it.would?.halt_poll_ns)),
            predicted: target
                .and_then(|it| it.predicted)
                .map(|it| -it)
                .filter(Interval::is_known),
            measured: measured
                .and_then(|it| it.known.measured)
                .filter(Interval::is_known),
            saved_ns: target.and_then(|_| self.saved_ns(vm, member, is_saved)),
            is_saved: Some(is_saved),
            regret: target.map(|it| it.known.regret.share()),
            halts_per_s: counts.map(|it| it.per_s(it.halts)),
            poll_cpu_percent: percent(|it| it.poll_ns),
            failed_poll_cpu_percent: percent(|it| it.failed_poll_ns),
            latency_mean_ns: latency_ns.map(whole),
            phase_ns: member.view.age_ns(self.now_ns),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and a latency is not negative"
)]
fn whole(ns: f64) -> u64 {
    ns.round() as u64
}
