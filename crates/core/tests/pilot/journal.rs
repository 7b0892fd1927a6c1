//! The machine's settings and the journal of what was set, as `host::knob` keeps it: what was there before is written
//! down before anything is set.

use std::collections::BTreeMap;

use haltwise_core::pilot::decision::{Change, Refusal};
use haltwise_core::pilot::input::{Ceiling, Held, Scope};

use super::world::FOUND_NS;

/// The journal's record of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Before; `None`: it was a VM that followed the host's parameter, and takes after an undo what that is then.
    pub(crate) before: Option<u32>,
    pub(crate) ours: u32,
}

/// A target, and its setting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// `None`: it follows the host's parameter.
    pub(crate) own: Option<u32>,
    pub(crate) is_settable: bool,
    first: Option<u32>,
    pub(crate) entry: Option<Entry>,
    /// The value that another program has set.
    pub(crate) theirs: Option<u32>,
}

#[derive(Debug, Clone)]
pub(crate) struct Machine(BTreeMap<Scope, Place>);

impl Machine {
    pub(crate) fn new() -> Self {
        let mut machine = Self(BTreeMap::new());
        machine.comes(Scope::Host, Ceiling::Own(FOUND_NS));
        machine
    }

    pub(crate) fn comes(&mut self, scope: Scope, ceiling: Ceiling) {
        let place = Place {
            own: ceiling.own(),
            is_settable: ceiling != Ceiling::Fixed,
            first: ceiling.own(),
            entry: None,
            theirs: None,
        };
        self.0.insert(scope, place);
    }

    pub(crate) fn goes(&mut self, scope: Scope) {
        self.0.remove(&scope);
    }

    pub(crate) fn of(&self, scope: Scope) -> &Place {
        &self.0[&scope]
    }

    pub(crate) fn of_mut(&mut self, scope: Scope) -> &mut Place {
        self.0.get_mut(&scope).unwrap()
    }

    pub(crate) fn param_ns(&self) -> u32 {
        self.of(Scope::Host).own.unwrap()
    }

    pub(crate) fn in_force(&self, scope: Scope) -> u32 {
        self.of(scope).own.unwrap_or_else(|| self.param_ns())
    }

    pub(crate) fn ceiling(&self, scope: Scope) -> Ceiling {
        match self.of(scope) {
            Place { own: Some(ns), .. } => Ceiling::Own(*ns),
            place if place.is_settable => Ceiling::Follows,
            _ => Ceiling::Fixed,
        }
    }

    /// The setting that a target would have without the pilot.
    pub(crate) fn without(&self, scope: Scope) -> u32 {
        let param = self.of(Scope::Host).theirs.unwrap_or(FOUND_NS);
        match scope {
            Scope::Host => param,
            Scope::Vm(_) => self.of(scope).first.unwrap_or(param),
        }
    }

    /// The journal's entry for a target, as the pilot reads the entry.
    pub(crate) fn held(&self, scope: Scope) -> Option<Held<u32>> {
        let entry = self.of(scope).entry?;
        let param = self.of(Scope::Host).entry.and_then(|param| param.before);
        let followed = || param.unwrap_or_else(|| self.param_ns());
        Some(Held {
            before: entry.before.unwrap_or_else(followed),
            ours: entry.ours,
        })
    }

    pub(crate) fn is_set_by_human(&mut self, scope: Scope, ns: u32) {
        let place = self.of_mut(scope);
        if place.own != Some(ns) {
            (place.own, place.theirs) = (Some(ns), Some(ns));
        }
    }

    /// Sets a target, if its setting is what the decision rests on.
    pub(crate) fn set(&mut self, scope: Scope, change: &Change) -> Result<(), Refusal> {
        let (from, to) = (change.from.halt_poll_ns, change.to.halt_poll_ns);
        let now = self.in_force(scope);
        let place = self.of_mut(scope);
        assert!(place.is_settable, "it cannot be set: {scope:?}");
        let ours = place.entry.map(|entry| entry.ours);
        let follows = place.own.is_none();
        let is_made = change.is_unsure && [Some(to), ours].contains(&Some(now));
        if ours.is_some_and(|ours| ours != now) || (now != from && !is_made && !follows) {
            return Err(Refusal::Theirs);
        }
        if now != from && follows {
            return Err(Refusal::Moved);
        }
        if change.is_unsure && place.own == Some(to) {
            return Ok(());
        }
        let before = place.entry.map_or(place.own, |entry| entry.before);
        place.entry = (before != Some(to)).then_some(Entry { before, ours: to });
        place.own = Some(to);
        Ok(())
    }

    /// `haltwise undo`: restores what was there before, of what is still the pilot's. Gives what was restored.
    pub(crate) fn undo(&mut self) -> Vec<Scope> {
        let is_ours = |(scope, place): (&Scope, &Place)| {
            let entry = place.entry?;
            (entry.ours == self.in_force(*scope)).then_some(*scope)
        };
        let ours: Vec<Scope> = self.0.iter().filter_map(is_ours).collect();
        // The host's first: VMs that followed it take what it is then.
        for scope in ours.iter().rev() {
            let param_ns = self.param_ns();
            let place = self.of_mut(*scope);
            let before = place.entry.and_then(|entry| entry.before);
            place.own = Some(before.unwrap_or(param_ns));
        }
        for place in self.0.values_mut() {
            place.entry = None;
        }
        ours
    }

    /// An undo while the pilot runs: what it restored is the user's from then on.
    pub(crate) fn is_undone_by_human(&mut self) {
        for scope in self.undo() {
            let place = self.of_mut(scope);
            place.theirs = place.own;
        }
    }

    /// After an undo everything is as it was; what another program has set stays.
    pub(crate) fn can_be_undone(&self) {
        let mut undone = self.clone();
        undone.undo();
        let ours = undone.0.iter();
        for (scope, _) in
            ours.filter(|(scope, place)| **scope == Scope::Host || place.theirs.is_none())
        {
            let now = undone.in_force(*scope);
            assert_eq!(
                now,
                undone.without(*scope),
                "undo restores what was there first: {scope:?}"
            );
        }
    }

    /// Nothing is set that the journal does not know.
    pub(crate) fn is_known(&self) {
        for (scope, place) in self.0.iter().filter(|(_, place)| place.own.is_some()) {
            let known = [
                place.first,
                place.theirs,
                place.entry.map(|entry| entry.ours),
            ];
            assert!(
                known.contains(&place.own),
                "not in the journal: {scope:?} {place:?}"
            );
        }
    }
}
