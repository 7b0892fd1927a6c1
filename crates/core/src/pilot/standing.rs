//! State of the pilot, for display.

use std::collections::BTreeMap;
use std::ops::Add as _;

use super::decision::Kind;
use super::engine::Pilot;
use super::errors::Errors;
use super::evidence::Evidence;
use super::guards::Standing as GuardStanding;
use super::input::{Counts, Scope, VmSeen};
use super::member::Member;
use super::regret::Regret;
use super::target::{State, Target};
use crate::ids::VmKey;
use crate::stats::Interval;

#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    pub vms: Vec<OfVm>,
    pub guards: Vec<GuardStanding>,
    pub decided: BTreeMap<Kind, u64>,
    /// Changes that were refused or failed.
    pub failed: u64,
    /// Readings that could not be true.
    pub dropped: u64,
    pub halts_held: usize,
    /// How far predictions were off, in proofs and in trials.
    pub errors: Errors,
    /// How many of them were measured by proofs, and by trials.
    pub proofs: usize,
    /// See `proofs`.
    pub trials: usize,
}

/// Where it stands with a VM.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OfVm {
    /// The last reading of it.
    pub seen: VmSeen,
    /// Target that is set for the VM.
    pub scope: Option<Scope>,
    pub state: &'static str,
    pub for_ns: u64,
    pub why: String,
    /// Last decision on the VM since the start, periods of trials apart, and how long ago.
    pub decided: Option<(Kind, u64)>,
    /// The ceiling in force, in nanoseconds.
    pub ceiling_ns: Option<u32>,
    pub found_ns: Option<u32>,
    /// Where it only observes: the ceiling that it would set.
    pub would_set_ns: Option<u32>,
    /// Change of the cost of a halt, as a share, as predicted.
    pub predicted: Option<Interval>,
    pub measured: Option<Interval>,
    /// Savings, made or only possible (`is_saved`), in nanoseconds, since the target was first looked at.
    pub saved_ns: Option<Interval>,
    /// Whether settings in force saved it. Where the pilot only observes and nothing of its own is in force, it would have
    /// been saved.
    pub is_saved: bool,
    /// Loss, as a share.
    pub regret: Option<f64>,
    pub counts: Option<Counts>,
    /// Whether its halts have been recorded, or there were none to record, or it is left alone.
    pub has_been_looked_at: bool,
    /// Mean wake-up latency of a halt at the last look.
    pub latency_mean_ns: Option<f64>,
    /// How long the phase has lasted.
    pub phase_ns: u64,
}

impl<E: Evidence> Pilot<E> {
    pub fn standing(&self) -> Standing {
        let members = self.members.values();
        let held = members.flat_map(|it| it.chunks.iter().chain(it.tried.iter().flatten()));
        Standing {
            vms: (self.members.iter())
                .map(|(vm, member)| self.of_vm(*vm, member))
                .collect(),
            guards: self.guards.clone(),
            decided: self.decided.clone(),
            failed: self.failed,
            dropped: self.dropped,
            halts_held: held.map(E::size).sum(),
            errors: self.errors(),
            proofs: self.setup.proofs.count(),
            trials: self.setup.memory.errors.count(),
        }
    }

    fn targets_of(&self, vm: VmKey) -> impl Iterator<Item = &Target> {
        let targets = self.targets.values();
        targets.filter(move |target| target.observed.members.contains(&vm))
    }

    /// Whether the savings of a VM were made, and were not only possible. A setting that was set while the pilot
    /// might act stays in force where the pilot no longer may act.
    fn is_saved(&self, vm: VmKey) -> bool {
        self.setup.limits.may_act || self.targets_of(vm).any(|target| target.set.is_some())
    }

    /// Savings of a VM, made or only possible: by its own ceiling, and while it followed the host's parameters.
    fn saved_ns(&self, vm: VmKey, member: &Member<E::Chunk>) -> Option<Interval> {
        let saved = if self.is_saved(vm) {
            Regret::saved_ns
        } else {
            Regret::would_saved_ns
        };
        let targets = self.targets_of(vm);
        let parts = targets.map(|target| self.part(target, member, saved(&target.known.regret)));
        parts.reduce(Interval::add)
    }

    /// A VM's part of what a target saved, by its part of the halts, so that the parts add up to the whole.
    fn part(&self, target: &Target, member: &Member<E::Chunk>, saved: Interval) -> Interval {
        let members = target.observed.members_of(&self.members);
        let part = match members.map(Member::halts).sum::<u64>() {
            0 => 1.0 / target.observed.members.len().max(1) as f64,
            all => member.halts() as f64 / all as f64,
        };
        saved.map(|saved| saved * part)
    }

    fn of_vm(&self, vm: VmKey, member: &Member<E::Chunk>) -> OfVm {
        let seen = &member.seen;
        let (state, why) = match seen {
            seen if seen.goal.is_none() => ("excluded", "the configuration leaves it alone"),
            seen if seen.polls_itself => ("excluded", "its guest polls by itself"),
            _ => ("not-settable", "its ceiling cannot be set"),
        };
        let param = self.seen.host.knobs.map(|knobs| knobs.halt_poll_ns);
        let mut of = OfVm {
            seen: seen.clone(),
            state,
            why: why.to_owned(),
            ceiling_ns: seen.ceiling.own().or(param),
            is_saved: self.is_saved(vm),
            counts: member.counts,
            has_been_looked_at: member.looked_ns.is_some(),
            phase_ns: member.view.age_ns(self.now_ns),
            ..OfVm::default()
        };
        let mut targets = self.targets_of(vm);
        if let Some(target) = targets.find(|target| !target.observed.is_excluded) {
            let ago = |at_ns| self.now_ns.saturating_sub(at_ns);
            let is_kept = matches!(target.state, State::Kept);
            let answer = target.answer.as_ref();
            of = OfVm {
                scope: Some(target.scope),
                state: target.state.as_str(),
                for_ns: ago(target.since_ns),
                why: target.why.clone(),
                decided: target.decided.map(|(kind, at_ns)| (kind, ago(at_ns))),
                found_ns: Some(target.found.halt_poll_ns),
                would_set_ns: target.would.map(|would| would.halt_poll_ns),
                predicted: target.predicted.map(|predicted| -predicted),
                measured: target.known.measured.filter(|_| is_kept),
                saved_ns: self.saved_ns(vm, member),
                regret: Some(target.known.regret.share()),
                has_been_looked_at: of.has_been_looked_at || target.is_hands_off(),
                latency_mean_ns: answer.map(|answer| answer.latency_mean_ns),
                ..of
            };
            if target.owed.is_some() && !self.may_restore {
                of.why += ": `haltwise undo` restores";
            }
        }
        if member.is_blind() {
            (of.state, of.why) = ("no-data", "it can no longer be read".to_owned());
        }
        of
    }
}
