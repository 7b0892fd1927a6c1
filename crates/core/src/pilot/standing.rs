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
use super::unit::{State, Unit};
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
#[derive(Debug, Clone, PartialEq)]
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
    /// Whether its halts have been recorded, or there were none to record.
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
            vms: self
                .members
                .keys()
                .filter_map(|vm| self.of_vm(*vm))
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

    fn units_of(&self, vm: VmKey) -> impl Iterator<Item = &Unit> {
        let units = self.units.values();
        units.filter(move |unit| unit.place.members.contains(&vm))
    }

    /// Whether the savings of a VM were made, and were not only possible. A setting that was set while the pilot
    /// might act stays in force where the pilot no longer may act.
    fn is_saved(&self, vm: VmKey) -> bool {
        self.setup.limits.may_act || self.units_of(vm).any(|unit| unit.set.is_some())
    }

    /// Savings of a VM, made or only possible: by its own ceiling, and while it followed the host's parameters.
    fn saved_ns(&self, vm: VmKey, member: &Member<E::Chunk>) -> Option<Interval> {
        let saved = if self.is_saved(vm) {
            Regret::saved_ns
        } else {
            Regret::would_saved_ns
        };
        let units = self.units_of(vm);
        let parts = units.map(|unit| self.part(unit, member, saved(&unit.known.regret)));
        parts.reduce(Interval::add)
    }

    /// A VM's part of what a target saved, by its part of the halts, so that the parts add up to the whole.
    fn part(&self, unit: &Unit, member: &Member<E::Chunk>, saved: Interval) -> Interval {
        let part = match self.members_of(unit).map(Member::halts).sum::<u64>() {
            0 => 1.0 / unit.place.members.len().max(1) as f64,
            all => member.halts() as f64 / all as f64,
        };
        saved.map(|saved| saved * part)
    }

    fn of_vm(&self, vm: VmKey) -> Option<OfVm> {
        let member = self.members.get(&vm)?;
        let seen = &member.seen;
        let unit = self
            .units
            .values()
            .find(|unit| !unit.place.is_excluded && unit.place.members.contains(&vm));
        let param = self.seen.host.knobs.map(|knobs| knobs.halt_poll_ns);
        let (state, why) = match unit {
            _ if member.is_blind() => ("no-data", "it can no longer be read".to_owned()),
            Some(unit) if unit.owed.is_some() && !self.may_restore => {
                let why = format!("{}: `haltwise undo` restores", unit.why);
                (unit.state.as_str(), why)
            }
            Some(unit) => (unit.state.as_str(), unit.why.clone()),
            None if seen.goal.is_none() => {
                ("excluded", "the configuration leaves it alone".to_owned())
            }
            None if seen.polls_itself => ("excluded", "its guest polls by itself".to_owned()),
            None => ("not-settable", "its ceiling cannot be set".to_owned()),
        };
        Some(OfVm {
            seen: seen.clone(),
            scope: unit.map(|unit| unit.scope),
            state,
            for_ns: unit.map_or(0, |unit| self.now_ns.saturating_sub(unit.since_ns)),
            why,
            decided: unit.and_then(|unit| {
                let (kind, at_ns) = unit.decided?;
                Some((kind, self.now_ns.saturating_sub(at_ns)))
            }),
            ceiling_ns: seen.ceiling.own().or(param),
            found_ns: unit.map(|unit| unit.found.halt_poll_ns),
            would_set_ns: unit.and_then(|unit| Some(unit.would?.halt_poll_ns)),
            predicted: unit.and_then(|unit| Some(-unit.predicted?)),
            measured: unit
                .filter(|unit| matches!(unit.state, State::Kept))
                .and_then(|unit| unit.known.measured),
            saved_ns: unit.and_then(|_| self.saved_ns(vm, member)),
            is_saved: self.is_saved(vm),
            regret: unit.map(|unit| unit.known.regret.share()),
            counts: member.counts,
            has_been_looked_at: member.looked_ns.is_some(),
            latency_mean_ns: unit.and_then(|unit| Some(unit.answer.as_ref()?.latency_mean_ns)),
            phase_ns: member.view.age_ns(self.now_ns),
        })
    }
}
