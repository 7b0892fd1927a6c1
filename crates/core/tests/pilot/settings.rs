//! The settings of a machine and the journal, as `host::knob` keeps it.

use std::collections::BTreeMap;

use haltwise_core::pilot::decision::{Change, Refusal};
use haltwise_core::pilot::input::{Ceiling, Held, Scope};

/// The host's parameter and the VMs' own ceilings before the pilot sets anything.
pub(crate) const FOUND: u32 = 200_000;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    /// `None`: a VM that follows the host's parameter.
    pub(crate) own: Option<u32>,
    pub(crate) is_fixed: bool,
    /// As it would be without the pilot.
    first: Option<u32>,
    /// The journal: the setting before, and the one that the pilot made.
    pub(crate) entry: Option<(Option<u32>, u32)>,
    /// Another program has set it.
    pub(crate) is_theirs: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Settings(pub(crate) BTreeMap<Scope, Setting>);

impl Settings {
    pub(crate) fn comes(&mut self, scope: Scope, ceiling: Ceiling) {
        let setting = Setting {
            own: ceiling.own(),
            is_fixed: ceiling == Ceiling::Fixed,
            first: ceiling.own(),
            entry: None,
            is_theirs: false,
        };
        self.0.insert(scope, setting);
    }

    pub(crate) fn get(&mut self, scope: Scope) -> &mut Setting {
        self.0.get_mut(&scope).unwrap()
    }

    pub(crate) fn in_force(&self, scope: Scope) -> u32 {
        self.0[&scope].own.or(self.0[&Scope::Host].own).unwrap()
    }

    pub(crate) fn ceiling(&self, scope: Scope) -> Ceiling {
        match &self.0[&scope] {
            setting if setting.is_fixed => Ceiling::Fixed,
            setting => setting.own.map_or(Ceiling::Follows, Ceiling::Own),
        }
    }

    /// The setting that would be in force without the pilot.
    pub(crate) fn without(&self, scope: Scope) -> u32 {
        self.0[&scope].first.or(self.0[&Scope::Host].first).unwrap()
    }

    pub(crate) fn held(&self, scope: Scope) -> Option<Held<u32>> {
        let ((before, ours), host) = (self.0[&scope].entry?, self.0[&Scope::Host]);
        let followed = host.entry.map_or(host.own, |(before, _)| before);
        let before = before.or(followed).unwrap();
        Some(Held { before, ours })
    }

    pub(crate) fn is_set_by_another(&mut self, scope: Scope, ns: u32) {
        let setting = self.get(scope);
        if setting.own != Some(ns) {
            (setting.own, setting.first, setting.is_theirs) = (Some(ns), Some(ns), true);
        }
    }

    /// Makes a change if the setting in force is the one that the decision rests on.
    pub(crate) fn set(&mut self, scope: Scope, change: &Change) -> Result<(), Refusal> {
        let (from, to) = (change.from.halt_poll_ns, change.to.halt_poll_ns);
        let now = self.in_force(scope);
        let setting = self.get(scope);
        assert!(!setting.is_fixed, "it cannot be set: {scope:?}");
        let (ours, follows) = (setting.entry.map(|(_, ours)| ours), setting.own.is_none());
        let is_made = change.is_unsure && [Some(to), ours].contains(&Some(now));
        if ours.is_some_and(|ours| ours != now) || (now != from && !is_made && !follows) {
            return Err(Refusal::Theirs);
        }
        if now != from && follows {
            return Err(Refusal::Moved);
        }
        if !change.is_unsure || setting.own != Some(to) {
            let before = setting.entry.map_or(setting.own, |(before, _)| before);
            setting.entry = (before != Some(to)).then_some((before, to));
            setting.own = Some(to);
        }
        Ok(())
    }

    /// `haltwise undo`, by another program: restores what the pilot set and nothing else has changed since.
    pub(crate) fn undo(&mut self) {
        // The host's first: VMs that followed it take the restored value.
        for scope in self.0.keys().rev().copied().collect::<Vec<_>>() {
            let host = self.0[&Scope::Host].own;
            let setting = self.get(scope);
            if let Some((before, ours)) = setting.entry.take()
                && setting.own == Some(ours)
            {
                (setting.own, setting.is_theirs) = (before.or(host), true);
            }
        }
    }

    /// An undo restores everything but the settings of other programs.
    pub(crate) fn can_be_undone(&self) {
        let mut undone = self.clone();
        undone.undo();
        for (scope, setting) in &self.0 {
            if *scope == Scope::Host || !setting.is_theirs {
                let [now, first] = [undone.in_force(*scope), self.without(*scope)];
                assert_eq!(now, first, "undo restores the first setting: {scope:?}");
            }
        }
    }
}
