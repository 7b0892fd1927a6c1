//! The only writer of settings: intent on disk, change by change, result on disk.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::PathBuf;

use haltwise_core::parameter::Parameter;

use super::baseline::{Baseline, Held, Intent};
use super::disk::{self, Lock};
use super::error::KnobError;
use super::snapshot::{self, BASELINE, Proposal, Request, Reversal, Snapshot, Why};
use super::target::{Change, Found, Target};
use crate::clock;
use crate::root::Root;

/// Holds the lock and changes settings. One for a host at a time.
#[derive(Debug)]
pub struct Writer {
    who: String,
    _lock: Lock,
    now: Snapshot,
    ended: Vec<Target>,
}

impl Writer {
    /// Takes the lock and finds out what became of a change that was cut off. `who` is kept with what is
    /// set.
    ///
    /// # Errors
    /// If another holds the lock, or the baseline is damaged, or cannot be written.
    pub fn open(root: &Root, who: &str) -> Result<Self, KnobError> {
        let lock = Lock::take(root)?;
        let before = snapshot::read(root)?;
        // Not only when the directory was made just now: the process that made it may not have come that far.
        if let (None, Some(directory)) = (&before, root.path(BASELINE).parent()) {
            disk::flush_directory_of(directory)?;
        }
        let before = before.unwrap_or_default();
        let writer = Self {
            who: who.to_owned(),
            _lock: lock,
            now: Snapshot::of(root, before.clone())?,
            ended: Vec::new(),
        };
        if before != writer.now.baseline {
            writer.record_settled(&before);
        }
        Ok(writer)
    }

    pub fn now(&self) -> &Snapshot {
        &self.now
    }

    fn record(&self) -> Result<(), KnobError> {
        let text = serde_json::to_string_pretty(&self.now.baseline).map_err(KnobError::Encode)?;
        let path = self.now.machine.root.path(BASELINE);
        disk::replace(&path, &format!("{text}\n"), 0o600)
    }

    fn settle(&mut self) -> Result<(), KnobError> {
        let before = self.now.settle()?;
        self.record_settled(&before);
        Ok(())
    }

    /// That this cannot be recorded (a full disk) is no reason not to undo: an apply records before it sets anything,
    /// an undo afterwards says that it could not.
    fn record_settled(&self, before: &Baseline) {
        let files = before.held.iter().filter(|it| it.intent.is_some());
        let mut files = files.filter_map(|it| it.target.file());
        let root = &self.now.machine.root;
        let cleared = files.try_for_each(|file| disk::clear(&root.path(file.path())));
        drop(cleared.and_then(|()| self.record()));
    }

    /// The directories in which setting parameters writes, those that are there.
    pub fn writes(&self) -> Vec<PathBuf> {
        writes(&self.now.machine.root, &Parameter::ALL)
    }

    /// Ceilings, and parameters in guests, that were not set because their VMs have ended since it was looked.
    pub fn ended(&self) -> &[Target] {
        &self.ended
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
        let proposal = self.now.propose(request)?;
        let failed_before = has_failed.then_some(&*self.who);
        proposal.rests_on(expected, &self.now.baseline, failed_before)?;
        Ok(proposal)
    }

    /// Makes the changes; gives the number of the apply, `None` if there was nothing to do.
    pub fn apply(&mut self, proposal: &Proposal) -> Result<Option<u64>, KnobError> {
        let all = proposal.changes.iter().cloned();
        let (already, changes): (Vec<Change>, Vec<Change>) = all.partition(Change::is_made);
        if changes.is_empty() {
            return Ok(None);
        }
        let step = self.now.baseline.step + 1;
        self.now.baseline.step = step;
        for change in &changes {
            let new = self.held(change.target, &change.old);
            let held = self.now.baseline.entry(change.target, || new.clone());
            if proposal.takes_over(change.target) {
                *held = new.clone();
            }
            held.intent = change.new.clone().map(Intent::Set);
            (held.step, held.who) = (new.step, new.who);
            (held.unix_ns, held.boot) = (new.unix_ns, new.boot);
            held.guest_boot = new.guest_boot;
        }
        self.make(&changes)?;
        for change in already {
            if proposal.persists() || proposal.takes_over(change.target) {
                self.keep(change);
            }
        }
        self.now.baseline.forget_restored();
        self.record()?;
        Ok(Some(step))
    }

    fn held(&self, target: Target, found: &Found) -> Held {
        Held {
            target,
            before: found.value.clone(),
            followed: found.follows,
            ours: None,
            guest_boot: found.guest_boot.clone(),
            intent: None,
            left: false,
            boot: self.now.boot.clone(),
            step: self.now.baseline.step,
            who: self.who.clone(),
            unix_ns: clock::wall_ns(),
        }
    }

    /// A parameter that has its value already, and that a boot file sets from now on or that is taken over:
    /// what it is now is what undo leaves.
    fn keep(&mut self, Change { target, old, new }: Change) {
        let entry = self.held(target, &old);
        let held = self.now.baseline.entry(target, || entry.clone());
        if held.left || held.ours.is_some() && held.ours != new {
            *held = entry;
        }
        held.ours = new;
    }

    /// Writes the intents down, then makes the changes. What was made is ours in the baseline, which is not
    /// on disk yet; after an error it is, as if we had been cut off.
    fn make(&mut self, changes: &[Change]) -> Result<(), KnobError> {
        let made = self.record().and_then(|()| self.change_all(changes));
        if made.is_err() {
            // The error is reported, whether or not settling succeeds.
            drop(self.settle());
            return made;
        }
        for change in changes {
            if self.ended.contains(&change.target) {
                self.now.baseline.forget(change.target);
            } else if let Some(held) = self.now.baseline.get_mut(change.target) {
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
            match self.now.machine.change(change) {
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
            if let Some(held) = self.now.baseline.get_mut(change.target) {
                held.intent = Some(Intent::Restore);
                // The same, unless the VM followed halt_poll_ns.
                held.before.clone_from(&change.new);
            }
        }
        let intended = self.record();
        let mut wrong = None;
        for change in &changes {
            match self.now.machine.change(change) {
                Ok(()) if change.target.parameter().is_none() => {
                    self.now.baseline.forget(change.target);
                }
                Err(error) if error.is_of_ended() => self.now.baseline.forget(change.target),
                Ok(()) => {
                    if let Some(held) = self.now.baseline.get_mut(change.target) {
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
                    if let Some(held) = self.now.baseline.get_mut(left.target) {
                        held.left = true;
                    }
                }
                Why::Theirs | Why::Restored | Why::Rebooted | Why::GuestBooted | Why::Ended => {
                    self.now.baseline.forget(left.target);
                }
                Why::NoAnswer => {}
            }
        }
        self.now.baseline.forget_restored();
        self.now.gone.clear();
        if let Some(error) = wrong {
            drop(self.settle());
            return Err(error);
        }
        let recorded = self.record();
        let unrecorded = |error| KnobError::Unrecorded(Box::new(error));
        intended.and(recorded).map_err(unrecorded)
    }

    /// Puts parameters back to what they were under an earlier baseline of this writer; gives those that
    /// were modified externally since, which are left alone.
    pub fn return_to(&mut self, earlier: &Baseline) -> Result<Vec<Target>, KnobError> {
        let held = self.now.baseline.held.iter().chain(&earlier.held);
        let targets: BTreeSet<Target> = held.map(|held| held.target).collect();
        let mut changes = Vec::new();
        let mut foreign = Vec::new();
        for target in targets {
            let (now, was) = (self.now.baseline.get(target), earlier.get(target));
            if now == was {
                continue;
            }
            // A target that is not held has the value from before.
            let ours = |held: &Held| held.ours.clone();
            let before = |held: &Held| held.before.clone();
            let expected = now.map(ours).or_else(|| was.map(before)).flatten();
            let wanted = was.map(ours).or_else(|| now.map(before)).flatten();
            let found = self.now.machine.read(target)?;
            if target.is_of_vm() && (found.value.is_none() || found.follows) {
                self.now.baseline.forget(target);
            } else if found.value == expected {
                changes.push(Change::of(target, found, wanted));
            } else {
                foreign.push(target);
            }
        }
        changes.sort_by_key(|change| !change.target.is_ceiling());
        for change in &changes {
            let new = self.held(change.target, &change.old);
            let held = self.now.baseline.entry(change.target, || new);
            held.intent = change.new.clone().map(Intent::Set);
        }
        if !changes.is_empty() {
            self.make(&changes)?;
        }
        for change in &changes {
            self.now.baseline.forget(change.target);
            if let Some(was) = earlier.get(change.target) {
                self.now.baseline.entry(change.target, || was.clone());
            }
        }
        self.record()?;
        Ok(foreign)
    }
}

/// The directories in which setting these parameters writes, those that are there: theirs and the baseline's.
pub fn writes(root: &Root, parameters: &[Parameter]) -> Vec<PathBuf> {
    let files = parameters.iter().map(|parameter| parameter.path());
    let files = files.chain([BASELINE]);
    let directories: BTreeSet<PathBuf> = files
        .filter_map(|file| Some(root.path(file).parent()?.to_owned()))
        .collect();
    // A host has no parameters of a guest's governor, or a guest none of KVM's.
    directories.into_iter().filter(|it| it.is_dir()).collect()
}
