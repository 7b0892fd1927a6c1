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
    first: Option<u32>,
    /// The journal: the setting before, and the one that the pilot made.
    pub(crate) entry: Option<(Option<u32>, u32)>,
    /// The value that another program has set.
    pub(crate) theirs: Option<u32>,
}

#[derive(Debug, Clone)]
pub(crate) struct Settings(pub(crate) BTreeMap<Scope, Setting>);

impl Settings {
    pub(crate) fn of_host(ns: u32) -> Self {
        let mut settings = Self(BTreeMap::new());
        settings.comes(Scope::Host, Ceiling::Own(ns));
        settings
    }

    pub(crate) fn comes(&mut self, scope: Scope, ceiling: Ceiling) {
        let setting = Setting {
            own: ceiling.own(),
            is_fixed: ceiling == Ceiling::Fixed,
            first: ceiling.own(),
            entry: None,
            theirs: None,
        };
        self.0.insert(scope, setting);
    }

    pub(crate) fn get(&mut self, scope: Scope) -> &mut Setting {
        self.0.get_mut(&scope).unwrap()
    }

    pub(crate) fn in_force(&self, scope: Scope) -> u32 {
        let of_host = || self.0[&Scope::Host].own;
        self.0[&scope].own.or_else(of_host).unwrap()
    }

    pub(crate) fn ceiling(&self, scope: Scope) -> Ceiling {
        match &self.0[&scope] {
            setting if setting.is_fixed => Ceiling::Fixed,
            setting => setting.own.map_or(Ceiling::Follows, Ceiling::Own),
        }
    }

    /// The setting that would be in force without the pilot.
    pub(crate) fn without(&self, scope: Scope) -> u32 {
        let host = self.0[&Scope::Host];
        let first = self.0[&scope].first.filter(|_| scope != Scope::Host);
        first.or(host.theirs).or(host.first).unwrap()
    }

    pub(crate) fn held(&self, scope: Scope) -> Option<Held<u32>> {
        let ((before, ours), host) = (self.0[&scope].entry?, self.0[&Scope::Host]);
        let followed = host.entry.map_or(host.own, |(before, _)| before);
        Some(Held {
            before: before.or(followed).unwrap(),
            ours,
        })
    }

    pub(crate) fn is_set_by_another(&mut self, scope: Scope, ns: u32) {
        let setting = self.get(scope);
        if setting.own != Some(ns) {
            (setting.own, setting.theirs) = (Some(ns), Some(ns));
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

    /// `haltwise undo`: restores what the pilot set and nothing else has changed since; gives which.
    pub(crate) fn undo(&mut self) -> Vec<Scope> {
        let is_ours = |(_, setting): &(&Scope, &Setting)| {
            setting
                .entry
                .is_some_and(|(_, ours)| setting.own == Some(ours))
        };
        let ours: Vec<Scope> = self
            .0
            .iter()
            .filter(is_ours)
            .map(|(scope, _)| *scope)
            .collect();
        // The host's first: VMs that followed it take the restored value.
        for scope in ours.iter().rev() {
            let (before, _) = self.0[scope].entry.unwrap();
            self.get(*scope).own = Some(before.unwrap_or(self.in_force(Scope::Host)));
        }
        self.0.values_mut().for_each(|setting| setting.entry = None);
        ours
    }

    pub(crate) fn is_undone_by_another(&mut self) {
        for scope in self.undo() {
            let setting = self.get(scope);
            setting.theirs = setting.own;
        }
    }

    /// An undo restores everything but the settings of other programs.
    pub(crate) fn can_be_undone(&self) {
        let mut undone = self.clone();
        undone.undo();
        for (scope, setting) in &undone.0 {
            if *scope == Scope::Host || setting.theirs.is_none() {
                let [now, first] = [undone.in_force(*scope), undone.without(*scope)];
                assert_eq!(now, first, "undo restores the first setting: {scope:?}");
            }
        }
    }
}
