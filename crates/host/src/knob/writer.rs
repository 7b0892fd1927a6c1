//! The only writer of settings: intent on disk, change by change, result on disk.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::PathBuf;

use haltwise_core::parameter::Parameter;

use super::apply::{Proposal, Request};
use super::baseline::{Baseline, CutOff, Held, Intent};
use super::disk;
use super::error::KnobError;
use super::snapshot::Snapshot;
use super::store::Store;
use super::target::{Change, Target};
use super::undo::{Reversal, Why};
use crate::clock;
use crate::root::Root;

/// Holds the lock and changes settings. One for a host at a time.
#[derive(Debug)]
pub struct Writer {
    who: String,
    store: Store,
    set: Snapshot,
    ended: Vec<Target>,
}

impl Writer {
    /// Takes the lock and finds out what became of a change that was cut off. `who` is kept with what is
    /// set.
    ///
    /// # Errors
    /// If another holds the lock, or the baseline is damaged, or cannot be written.
    pub fn open(root: &Root, who: &str) -> Result<Self, KnobError> {
        let (store, before) = Store::open(root)?;
        let writer = Self {
            who: who.to_owned(),
            store,
            set: Snapshot::of(root, before.clone())?,
            ended: Vec::new(),
        };
        if before != writer.set.baseline {
            writer.record_settled(&before);
        }
        Ok(writer)
    }

    /// Finds out what became of what was cut off just now.
    fn settle(&mut self) -> Result<(), KnobError> {
        let before = self.set.settle()?;
        self.record_settled(&before);
        Ok(())
    }

    /// That this cannot be recorded (a full disk) is no reason not to undo: an apply records before it sets anything,
    /// an undo afterwards says that it could not.
    fn record_settled(&self, before: &Baseline) {
        let files = before.held.iter().filter(|it| it.intent.is_some());
        let mut files = files.filter_map(|it| it.target.file());
        let root = &self.set.machine.root;
        let cleared = files.try_for_each(|file| disk::clear(&root.path(file.path())));
        drop(cleared.and_then(|()| self.store.write(&self.set.baseline)));
    }

    /// The directories in which setting parameters writes, those that are there.
    pub fn writes(&self) -> Vec<PathBuf> {
        writes(&self.set.machine.root, &Parameter::ALL)
    }

    pub fn cut_off(&self) -> Option<&CutOff> {
        self.set.cut_off.as_ref()
    }

    /// Values that are set, and the values before.
    pub fn baseline(&self) -> &Baseline {
        &self.set.baseline
    }

    /// Ceilings, and parameters in guests, that were not set because their VMs have ended since it was looked.
    pub fn ended(&self) -> &[Target] {
        &self.ended
    }

    pub fn propose(&self, request: &Request) -> Result<Proposal, KnobError> {
        self.set.propose(request)
    }

    pub fn reversal(&self, take_over: bool) -> Result<Reversal, KnobError> {
        self.set.reversal(take_over)
    }

    /// A proposal, where the values now are those that the caller has read, or those that a failed attempt of this writer
    /// may have set.
    ///
    /// # Errors
    /// Also [`KnobError::Otherwise`], or [`KnobError::Follows`] of a VM without a ceiling of its own.
    pub fn propose_on(
        &self,
        request: &Request,
        expected: &[(Target, u32)],
        has_failed: bool,
    ) -> Result<Proposal, KnobError> {
        let proposal = self.propose(request)?;
        let failed_before = has_failed.then_some(&*self.who);
        proposal.rests_on(expected, &self.set.baseline, failed_before)?;
        Ok(proposal)
    }

    /// Does it; gives the number of the apply, `None` if there was nothing to do.
    pub fn apply(&mut self, proposal: &Proposal) -> Result<Option<u64>, KnobError> {
        if proposal.changes.is_empty() {
            return Ok(None);
        }
        let step = self.set.baseline.step + 1;
        self.set.baseline.step = step;
        for change in &proposal.changes {
            let new = self.held(change);
            let held = self.set.baseline.entry(change.target, || new.clone());
            if proposal.takes_over(change.target) {
                *held = new.clone();
            }
            held.intent = change.new.clone().map(Intent::Set);
            (held.step, held.who) = (new.step, new.who);
            (held.unix_ns, held.boot) = (new.unix_ns, new.boot);
            held.guest_boot = new.guest_boot;
        }
        self.make(&proposal.changes)?;
        for (target, value) in &proposal.already {
            if proposal.persists() || proposal.takes_over(*target) {
                self.keep(*target, *value);
            }
        }
        self.set.baseline.forget_restored();
        self.store.write(&self.set.baseline)?;
        Ok(Some(step))
    }

    /// Held entry of a target that has never been set.
    fn held(&self, change: &Change) -> Held {
        Held {
            target: change.target,
            before: change.old.clone(),
            followed: change.follows,
            ours: None,
            guest_boot: change.guest_boot.clone(),
            intent: None,
            left: false,
            boot: self.set.boot.clone(),
            step: self.set.baseline.step,
            who: self.who.clone(),
            unix_ns: clock::wall_ns(),
        }
    }

    /// A parameter that has its value already, and that a boot file sets from now on or that is taken over:
    /// what it is now is what undo leaves.
    fn keep(&mut self, target: Target, value: u32) {
        let value = Some(target.written(value));
        let new = self.held(&Change::of(target, value.clone(), value.clone()));
        let held = self.set.baseline.entry(target, || new.clone());
        if held.left
            || held
                .ours
                .as_ref()
                .is_some_and(|ours| Some(ours) != value.as_ref())
        {
            *held = new;
        }
        held.ours = value;
    }

    /// Writes the intents down, then makes the changes. What was made is ours in the baseline, which is not
    /// on disk yet; after an error it is, as if we had been cut off.
    fn make(&mut self, changes: &[Change]) -> Result<(), KnobError> {
        let made = self
            .store
            .write(&self.set.baseline)
            .and_then(|()| self.change_all(changes));
        if made.is_err() {
            // The error is reported, whether or not settling succeeds.
            drop(self.settle());
            return made;
        }
        for change in changes {
            if self.ended.contains(&change.target) {
                self.set.baseline.forget(change.target);
            } else if let Some(held) = self.set.baseline.get_mut(change.target) {
                held.intent = None;
                held.ours.clone_from(&change.new);
            }
        }
        Ok(())
    }

    /// Makes each change. One of a VM that has ended is none, unless it is the only one.
    fn change_all(&mut self, changes: &[Change]) -> Result<(), KnobError> {
        self.ended.clear();
        for change in changes {
            match self.set.machine.change(change) {
                Err(error) if error.is_of_ended() && changes.len() > 1 => {
                    self.ended.push(change.target);
                }
                done => done?,
            }
        }
        Ok(())
    }

    /// Undoes. Restores also where nothing can be written down, as on a full disk, and then says so.
    pub fn undo(&mut self, reversal: &Reversal) -> Result<(), KnobError> {
        let steps = reversal.steps.iter();
        let mut changes: Vec<Change> = steps.flat_map(|step| &step.changes).cloned().collect();
        // Files first: nothing sets at a boot what has been restored.
        changes.sort_by_key(|change| Reverse(change.target));
        for change in &changes {
            if let Some(held) = self.set.baseline.get_mut(change.target) {
                held.intent = Some(Intent::Restore);
                // The same, unless the VM followed halt_poll_ns.
                held.before.clone_from(&change.new);
            }
        }
        let intended = self.store.write(&self.set.baseline);
        let mut wrong = None;
        for change in &changes {
            match self.set.machine.change(change) {
                Ok(()) if change.target.parameter().is_none() => {
                    self.set.baseline.forget(change.target);
                }
                Err(error) if error.is_of_ended() => self.set.baseline.forget(change.target),
                Ok(()) => {
                    if let Some(held) = self.set.baseline.get_mut(change.target) {
                        (held.intent, held.left) = (None, false);
                        held.ours.clone_from(&held.before);
                    }
                }
                Err(error) => wrong = wrong.or(Some(error)),
            }
        }
        for left in reversal.steps.iter().flat_map(|step| &step.left) {
            match left.why {
                Why::Theirs if left.target.file().is_none() => {
                    if let Some(held) = self.set.baseline.get_mut(left.target) {
                        held.left = true;
                    }
                }
                Why::Theirs | Why::Restored | Why::Rebooted | Why::GuestBooted | Why::Ended => {
                    self.set.baseline.forget(left.target);
                }
                Why::NoAnswer => {}
            }
        }
        self.set.baseline.forget_restored();
        self.set.gone.clear();
        if let Some(error) = wrong {
            drop(self.settle());
            return Err(error);
        }
        let recorded = self.store.write(&self.set.baseline);
        let unrecorded = |error| KnobError::Unrecorded(Box::new(error));
        intended.and(recorded).map_err(unrecorded)
    }

    /// Puts parameters back to what they were under an earlier baseline of this writer; gives those that
    /// were modified externally since, which are left alone.
    pub fn return_to(&mut self, earlier: &Baseline) -> Result<Vec<Target>, KnobError> {
        let held = self.set.baseline.held.iter().chain(&earlier.held);
        let targets: BTreeSet<Target> = held.map(|held| held.target).collect();
        let mut changes = Vec::new();
        let mut foreign = Vec::new();
        for target in targets {
            let (now, was) = (self.set.baseline.get(target), earlier.get(target));
            if now == was {
                continue;
            }
            // A target that is not held has the value from before.
            let ours = |held: &Held| held.ours.clone();
            let before = |held: &Held| held.before.clone();
            let expected = now.map(ours).or_else(|| was.map(before)).flatten();
            let wanted = was.map(ours).or_else(|| now.map(before)).flatten();
            let found = self.set.machine.read(target)?;
            if target.is_of_vm() && (found.value.is_none() || found.follows) {
                self.set.baseline.forget(target);
            } else if found.value == expected {
                changes.push(Change::of(target, found, wanted));
            } else {
                foreign.push(target);
            }
        }
        changes.sort_by_key(|change| !change.target.is_ceiling());
        for change in &changes {
            let new = self.held(change);
            let held = self.set.baseline.entry(change.target, || new);
            held.intent = change.new.clone().map(Intent::Set);
        }
        if !changes.is_empty() {
            self.make(&changes)?;
        }
        for change in &changes {
            self.set.baseline.forget(change.target);
            if let Some(was) = earlier.get(change.target) {
                self.set.baseline.entry(change.target, || was.clone());
            }
        }
        self.store.write(&self.set.baseline)?;
        Ok(foreign)
    }
}

/// The directories in which setting these parameters writes, those that are there: theirs and the baseline's.
pub fn writes(root: &Root, parameters: &[Parameter]) -> Vec<PathBuf> {
    let files = parameters.iter().map(|parameter| parameter.path());
    let files = files.chain([super::BASELINE]);
    let directories: BTreeSet<PathBuf> = files
        .filter_map(|file| Some(root.path(file).parent()?.to_owned()))
        .collect();
    // A host has no parameters of a guest's governor, or a guest none of KVM's.
    directories.into_iter().filter(|it| it.is_dir()).collect()
}
