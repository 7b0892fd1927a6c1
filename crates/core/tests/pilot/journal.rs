//! The machine's settings and the journal of what was set, as `host::knob` keeps it: what was there before is written
//! down before anything is set.

use std::collections::BTreeMap;

use haltwise_core::ids::VmKey;

/// What the journal has of a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Before; a VM that followed the host's parameter followed this.
    pub(crate) before: u32,
    pub(crate) ours: Option<u32>,
    pub(crate) intent: Option<u32>,
}

/// Ceilings, and the journal.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    /// Of each VM its own; `None`: it follows the parameter.
    pub(crate) ceilings: BTreeMap<VmKey, Option<u32>>,
    pub(crate) param_ns: u32,
    pub(crate) journal: BTreeMap<VmKey, Entry>,
    /// VMs that a human has set.
    pub(crate) theirs: BTreeMap<VmKey, u32>,
    /// What each VM had when it came.
    pub(crate) at_first: BTreeMap<VmKey, u32>,
}

/// Where the daemon dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    BeforeIntent,
    BeforeWrite,
    AfterWrite,
    AfterResult,
}

impl Machine {
    pub(crate) fn in_force(&self, vm: VmKey) -> u32 {
        self.ceilings
            .get(&vm)
            .copied()
            .flatten()
            .unwrap_or(self.param_ns)
    }

    /// Sets a ceiling of ours, as far as the daemon lives. `Err(true)`: it died; `Err(false)`: it is somebody else's.
    pub(crate) fn set(
        &mut self,
        vm: VmKey,
        from: u32,
        to: u32,
        death: Option<Death>,
    ) -> Result<(), bool> {
        self.settle();
        let now = self.in_force(vm);
        let entry = self.journal.get(&vm).copied();
        let is_theirs = entry.is_some_and(|entry| entry.ours.is_some_and(|ours| ours != now));
        if is_theirs || now != from {
            return Err(false);
        }
        if death == Some(Death::BeforeIntent) {
            return Err(true);
        }
        let entry = self.journal.entry(vm).or_insert(Entry {
            before: now,
            ours: None,
            intent: None,
        });
        entry.intent = Some(to);
        if death == Some(Death::BeforeWrite) {
            return Err(true);
        }
        self.ceilings.insert(vm, Some(to));
        if death == Some(Death::AfterWrite) {
            return Err(true);
        }
        self.settle();
        if death == Some(Death::AfterResult) {
            Err(true)
        } else {
            Ok(())
        }
    }

    /// What became of a change that was cut off.
    pub(crate) fn settle(&mut self) {
        let param_ns = self.param_ns;
        for (vm, entry) in &mut self.journal {
            let now = self.ceilings.get(vm).copied().flatten().unwrap_or(param_ns);
            if let Some(intent) = entry.intent.take()
                && now == intent
            {
                entry.ours = Some(intent);
            }
        }
        self.journal
            .retain(|_, entry| entry.ours.is_some_and(|ours| ours != entry.before));
    }

    /// `haltwise undo`.
    pub(crate) fn undo(&mut self) {
        self.settle();
        for (vm, entry) in std::mem::take(&mut self.journal) {
            if entry.ours == Some(self.in_force(vm)) && self.ceilings.contains_key(&vm) {
                self.ceilings.insert(vm, Some(entry.before));
            }
        }
    }
}
