//! The machine's settings and the journal of what was set, as `host::knob` keeps it: what was there before is written
//! down before anything is set.

use std::collections::BTreeMap;

use haltwise_core::ids::VmKey;
use haltwise_core::pilot::decision::{Change, Refusal};
use haltwise_core::pilot::input::{Ceiling, Held, Scope};

use super::host::FOUND_NS;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Before; a VM that followed the host's parameter followed this.
    pub(crate) before: u32,
    pub(crate) ours: u32,
    /// It is a VM that followed the host's parameter, and takes after an undo what that is then.
    pub(crate) followed: bool,
}

/// The pilot has set 5 us in place of what was found.
pub(crate) const SET: Entry = Entry {
    before: FOUND_NS,
    ours: 5_000,
    followed: false,
};

#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) ceilings: BTreeMap<VmKey, Ceiling>,
    pub(crate) param_ns: u32,
    pub(crate) journal: BTreeMap<Scope, Entry>,
    pub(crate) theirs: BTreeMap<Scope, u32>,
    /// The ceiling that each VM came with.
    pub(crate) at_first: BTreeMap<VmKey, Ceiling>,
}

impl Machine {
    pub(crate) fn new() -> Self {
        Self {
            ceilings: BTreeMap::new(),
            param_ns: FOUND_NS,
            journal: BTreeMap::new(),
            theirs: BTreeMap::new(),
            at_first: BTreeMap::new(),
        }
    }

    pub(crate) fn comes(&mut self, vm: VmKey, ceiling: Ceiling) {
        self.ceilings.insert(vm, ceiling);
        self.at_first.insert(vm, ceiling);
    }

    pub(crate) fn goes(&mut self, vm: VmKey) {
        self.ceilings.remove(&vm);
        self.journal.remove(&Scope::Vm(vm));
        self.theirs.remove(&Scope::Vm(vm));
    }

    pub(crate) fn follows(&self, vm: VmKey) -> bool {
        !matches!(self.ceilings.get(&vm), Some(Ceiling::Own(_)))
    }

    pub(crate) fn is_theirs(&self, vm: VmKey) -> bool {
        self.theirs.contains_key(&Scope::Vm(vm))
    }

    pub(crate) fn in_force(&self, vm: VmKey) -> u32 {
        let ceiling = self.ceilings.get(&vm).copied().unwrap_or_default();
        ceiling.own().unwrap_or(self.param_ns)
    }

    /// The host's parameter as it would be without the pilot.
    pub(crate) fn param_without(&self) -> u32 {
        *self.theirs.get(&Scope::Host).unwrap_or(&FOUND_NS)
    }

    /// Ceiling that a VM would have without the pilot.
    pub(crate) fn without(&self, vm: VmKey) -> u32 {
        let first = self.at_first[&vm];
        first.own().unwrap_or(self.param_without())
    }

    /// The journal's entry for a target, as the pilot reads the entry.
    pub(crate) fn held(&self, scope: Scope) -> Option<Held<u32>> {
        let entry = self.journal.get(&scope)?;
        let param = self.journal.get(&Scope::Host);
        let followed = param.map_or(self.param_ns, |param| param.before);
        Some(Held {
            before: if entry.followed {
                followed
            } else {
                entry.before
            },
            ours: entry.ours,
        })
    }

    fn now(&self, scope: Scope) -> u32 {
        match scope {
            Scope::Vm(vm) => self.in_force(vm),
            Scope::Host => self.param_ns,
        }
    }

    fn write(&mut self, scope: Scope, ns: u32) {
        match scope {
            Scope::Vm(vm) => {
                let before = self.ceilings.insert(vm, Ceiling::Own(ns)).unwrap();
                assert!(before != Ceiling::Fixed, "it cannot be set: {vm:?}");
            }
            Scope::Host => self.param_ns = ns,
        }
    }

    pub(crate) fn is_set_by_human(&mut self, scope: Scope, ns: u32) {
        let has_it = match scope {
            Scope::Vm(vm) => self.ceilings[&vm] == Ceiling::Own(ns),
            Scope::Host => self.param_ns == ns,
        };
        if !has_it {
            self.write(scope, ns);
            self.theirs.insert(scope, ns);
        }
    }

    /// `haltwise undo`, while the pilot runs: what was restored is the user's from then on.
    pub(crate) fn is_undone_by_human(&mut self) {
        let ours = |(scope, entry): (&Scope, &Entry)| {
            let is_in_force = entry.ours == self.now(*scope);
            is_in_force.then_some(*scope)
        };
        let restored: Vec<Scope> = self.journal.iter().filter_map(ours).collect();
        self.undo();
        for scope in restored {
            self.theirs.insert(scope, self.now(scope));
        }
    }

    /// Sets a target of ours, if it is what the decision rests on.
    pub(crate) fn set(&mut self, scope: Scope, change: &Change) -> Result<(), Refusal> {
        let (from, to) = (change.from.halt_poll_ns, change.to.halt_poll_ns);
        let now = self.now(scope);
        let ours = self.journal.get(&scope).map(|entry| entry.ours);
        let is_theirs = ours.is_some_and(|ours| ours != now);
        let follows = matches!(scope, Scope::Vm(vm) if self.follows(vm));
        let is_made = change.is_unsure && [Some(to), ours].contains(&Some(now));
        if is_theirs || (now != from && !is_made && !follows) {
            return Err(Refusal::Theirs);
        }
        if now != from && follows {
            return Err(Refusal::Moved);
        }
        if change.is_unsure && now == to && !follows {
            return Ok(());
        }
        let entry = self.journal.entry(scope).or_insert(Entry {
            before: now,
            ours: to,
            followed: follows,
        });
        entry.ours = to;
        if entry.ours == entry.before && !entry.followed {
            self.journal.remove(&scope);
        }
        self.write(scope, to);
        Ok(())
    }

    /// After an undo everything is as it was; what a human has set stays.
    pub(crate) fn is_undone(&self) {
        let mut undone = self.clone();
        undone.undo();
        for vm in undone.ceilings.keys().filter(|vm| !undone.is_theirs(**vm)) {
            let (now, first) = (undone.in_force(*vm), undone.without(*vm));
            assert_eq!(now, first, "undo restores what was there first: {vm:?}");
        }
        assert_eq!(undone.param_ns, undone.param_without(), "of the host, too");
    }

    pub(crate) fn undo(&mut self) {
        let journal = std::mem::take(&mut self.journal);
        // The host's last: what it is then is what VMs take that followed it.
        let param = journal.get(&Scope::Host);
        let restored = param.filter(|entry| entry.ours == self.param_ns);
        let param_ns = restored.map_or(self.param_ns, |entry| entry.before);
        for (scope, entry) in journal {
            let is_here = match scope {
                Scope::Vm(vm) => self.ceilings.contains_key(&vm),
                Scope::Host => true,
            };
            if is_here && entry.ours == self.now(scope) {
                let before = if entry.followed {
                    param_ns
                } else {
                    entry.before
                };
                self.write(scope, before);
            }
        }
    }
}
