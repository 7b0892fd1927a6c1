//! The baseline, what a crash or a boot made of it, and the changes that an apply or an undo would make: for `status`, and as
//! the state of `writer`. Changes nothing.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use haltwise_core::parameter::{Parameter, Values};
use serde::Serialize;

use super::baseline::{Baseline, CutOff, Held, settle};
use super::disk::{self, Lock};
use super::error::{Differs, Foreign, KnobError};
use super::machine::Machine;
use super::target::{Change, Found, Target, here};
use crate::root::Root;

/// Where the baseline lies, below a [`Root`].
pub const BASELINE: &str = "var/lib/haltwise/baseline.json";

const LONGEST: u64 = 1 << 30;

/// The baseline on disk; `None` if nothing was ever set.
pub(super) fn read(root: &Root) -> Result<Option<Baseline>, KnobError> {
    let path = root.path(BASELINE);
    let Some(text) = disk::read_ours(&path, LONGEST)? else {
        return Ok(None);
    };
    let baseline = serde_json::from_slice(&text).map_err(|error| error.to_string());
    let checked = baseline.and_then(|it: Baseline| it.check().map(|()| it));
    checked
        .map(Some)
        .map_err(|what| KnobError::Damaged { path, what })
}

#[derive(Debug)]
pub struct Snapshot {
    /// Values that are set in this boot, and the values before.
    pub baseline: Baseline,
    /// A change that was cut off, and what became of it by what can be seen.
    pub cut_off: Option<CutOff>,
    pub(super) gone: Vec<Held>,
    pub(super) boot: String,
    pub(super) machine: Machine,
}

/// Targets that haltwise set and that have no longer its value, as far as that is known.
#[derive(Debug, Default)]
pub struct HeldNow {
    pub foreign: Vec<Foreign>,
    /// The VMM, or the agent in the guest, does not report the value. With its answer.
    pub unknown: Vec<(Target, String)>,
}

impl Snapshot {
    /// Reads the baseline and what became of it.
    ///
    /// # Errors
    /// Also [`KnobError::Busy`], if another process writes it just now.
    pub fn read(root: &Root) -> Result<Self, KnobError> {
        let lock = Lock::share(root)?;
        let baseline = read(root)?;
        // Not held while VMMs and agents are asked, which may take seconds.
        drop(lock);
        Self::of(root, baseline.unwrap_or_default())
    }

    pub(super) fn of(root: &Root, baseline: Baseline) -> Result<Self, KnobError> {
        let machine = Machine::new(root);
        let mut snapshot = Self {
            baseline,
            cut_off: None,
            gone: Vec::new(),
            boot: machine.boot()?,
            machine,
        };
        snapshot.settle()?;
        Ok(snapshot)
    }

    /// Finds out what became of what was cut off; gives the baseline as it was before.
    pub(super) fn settle(&mut self) -> Result<Baseline, KnobError> {
        let settled = settle(&self.baseline, &self.boot, |it| self.machine.read(it))?;
        self.cut_off = settled.cut_off;
        self.gone = settled.gone;
        Ok(std::mem::replace(&mut self.baseline, settled.baseline))
    }

    pub fn held_now(&self) -> Result<HeldNow, KnobError> {
        let mut now = HeldNow::default();
        for held in &self.baseline.held {
            let target = held.target;
            match self.machine.read(target) {
                Err(error) if error.is_no_answer() => {
                    now.unknown.push((target, error.with_sources()));
                }
                found => {
                    let foreign = self.baseline.foreign(target, found?.text());
                    now.foreign.extend(foreign);
                }
            }
        }
        Ok(now)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// Targets and the values that they should have, times in nanoseconds.
    pub wanted: Vec<(Target, u32)>,
    pub persist: bool,
    pub take_over: bool,
}

impl Request {
    pub fn parameters(&self) -> Values {
        let wanted = self.wanted.iter();
        let of_machine = wanted.filter_map(|(target, value)| Some((target.parameter()?, *value)));
        of_machine.collect()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proposal {
    /// A change for each target, in the order in which they are made; also where the target has the value already.
    pub changes: Vec<Change>,
    pub taken_over: Vec<Foreign>,
}

impl Snapshot {
    /// Changes that a request takes. Fails where a parameter does not exist, is read-only, or was modified externally.
    pub fn propose(&self, request: &Request) -> Result<Proposal, KnobError> {
        let mut wanted = request.wanted.clone();
        // Ceilings first: a VM that gets its own never follows the new halt_poll_ns.
        wanted.sort_unstable_by_key(|(target, value)| (!target.is_ceiling(), *target, *value));
        let mut proposal = Proposal::default();
        for (target, value) in wanted {
            let found = self.machine.wanted(target, value)?;
            let foreign = self.baseline.foreign(target, found.text());
            proposal.taken_over.extend(foreign);
            let new = Some(target.written(value));
            proposal.changes.push(Change::of(target, found, new));
        }
        if request.persist {
            self.persist(request, &mut proposal)?;
        }
        if !proposal.taken_over.is_empty() && !request.take_over {
            return Err(KnobError::Theirs(proposal.taken_over));
        }
        Ok(proposal)
    }

    fn persist(&self, request: &Request, proposal: &mut Proposal) -> Result<(), KnobError> {
        let root = &self.machine.root;
        let files = here(root);
        if files.is_empty() {
            return Err(KnobError::NoPlace);
        }
        let mut found = Vec::new();
        let mut values = self.baseline.persisted();
        for file in files {
            let target = Target::File(file);
            let old = self.machine.read(target)?;
            let foreign = self.baseline.foreign(target, old.text());
            // Never merged, nor overwritten: undo could not bring it back as it was.
            if old.value.is_some() && (foreign.is_some() || self.baseline.get(target).is_none()) {
                let path = root.path(file.path());
                return Err(KnobError::Occupied { path });
            }
            if foreign.is_some() {
                // A file that was removed since is not ours to write again.
                values = Values::default();
            }
            proposal.taken_over.extend(foreign);
            found.push((file, old));
        }
        values = request.parameters().over(values);
        for (file, old) in found {
            let new = Some(file.text(&values));
            if old.value != new {
                let change = Change::of(Target::File(file), old, new);
                proposal.changes.push(change);
            }
        }
        Ok(())
    }
}

impl Proposal {
    /// Fails where a target that is to be set has another value than the caller has read. With `failed_before`, the name of
    /// a writer whose attempt failed, the value wanted then, or the one in the journal, is accepted too.
    pub(super) fn rests_on(
        &self,
        expected: &[(Target, u32)],
        baseline: &Baseline,
        failed_before: Option<&str>,
    ) -> Result<(), KnobError> {
        for (target, value) in expected {
            let mut changes = self.changes.iter();
            let Some(change) = changes.find(|it| it.target == *target) else {
                continue;
            };
            let (found, follows) = (&change.old.value, change.old.follows);
            let expected = target.written(*value);
            let held = baseline.get(*target).filter(|it| it.ours == *found);
            let is_held = |who: &str| held.is_some_and(|held| held.who == who);
            let is_made =
                !follows && failed_before.is_some_and(|who| change.is_made() || is_held(who));
            if found.as_ref() == Some(&expected) || is_made {
                continue;
            }
            let differs = Differs {
                name: target.name(),
                expected,
                found: found.clone().unwrap_or_else(|| "absent".to_owned()),
            };
            return Err(if follows {
                KnobError::Follows(differs)
            } else {
                KnobError::Otherwise(differs)
            });
        }
        Ok(())
    }

    pub(super) fn takes_over(&self, target: Target) -> bool {
        self.taken_over.iter().any(|it| it.target == target)
    }

    pub(super) fn persists(&self) -> bool {
        self.changes.iter().any(|it| it.target.file().is_some())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reversal {
    /// By the apply that set it last, newest first.
    pub steps: Vec<UndoneStep>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoneStep {
    pub step: u64,
    pub who: String,
    pub changes: Vec<Change>,
    pub left: Vec<Left>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    pub target: Target,
    pub found: Option<String>,
    pub why: Why,
    pub said: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    Theirs,
    /// It has its value from before already: restored by hand, by an undo that a full disk kept from recording that, or by a
    /// boot of a guest that does not say in which boot it is.
    Restored,
    /// The machine has booted since, or KVM was loaded again, which reset it.
    Rebooted,
    GuestBooted,
    Ended,
    /// Its VMM, or the agent in its guest, does not answer, or denies it; the next undo tries again.
    NoAnswer,
}

impl Snapshot {
    pub fn reversal(&self, take_over: bool) -> Result<Reversal, KnobError> {
        let (baseline, machine) = (&self.baseline, &self.machine);
        let mut steps: BTreeMap<Reverse<u64>, UndoneStep> = BTreeMap::new();
        let mut step = |held: &Held, change: Option<Change>, left: Option<Left>| {
            let step = steps
                .entry(Reverse(held.step))
                .or_insert_with(|| UndoneStep {
                    step: held.step,
                    who: held.who.clone(),
                    changes: Vec::new(),
                    left: Vec::new(),
                });
            step.changes.extend(change);
            step.left.extend(left);
        };
        let parameter = halt_poll_ns_after(self, take_over)?;
        for held in baseline.held.iter().rev() {
            let target = held.target;
            let found = match machine.read(target) {
                Err(error) if error.is_no_answer() => {
                    let left = Left {
                        said: Some(error.with_sources()),
                        ..Left::new(target, None, Why::NoAnswer)
                    };
                    step(held, None, Some(left));
                    continue;
                }
                found => found?,
            };
            match left_for(baseline, held, &found, take_over) {
                // An undo before has said so.
                Some(Why::Theirs) if held.left => {}
                Some(why) => {
                    step(held, None, Some(Left::new(target, found.value, why)));
                }
                None => {
                    let before = match &parameter {
                        Some(_) if held.followed => parameter.clone(),
                        _ => held.before.clone(),
                    };
                    step(held, Some(Change::of(target, found, before)), None);
                }
            }
        }
        for held in self.gone.iter().rev() {
            let target = held.target;
            let (found, why) = match target {
                Target::Guest(_) => match machine.read(target) {
                    Ok(found) if held.is_of_earlier_boot(&found) => (found.value, Why::GuestBooted),
                    _ => (None, Why::Ended),
                },
                Target::Ceiling(_) => (None, Why::Ended),
                _ => (machine.read(target)?.value, Why::Rebooted),
            };
            step(held, None, Some(Left::new(target, found, why)));
        }
        if steps.is_empty() {
            return Err(KnobError::Nothing);
        }
        let steps = steps.into_values().collect();
        Ok(Reversal { steps })
    }
}

/// Why a target with this value is not restored, if it is not.
fn left_for(baseline: &Baseline, held: &Held, found: &Found, take_over: bool) -> Option<Why> {
    let target = held.target;
    let module_gone = found.value.is_none() && target.file().is_none();
    let foreign = baseline.foreign(target, found.text()).is_some();
    let is_restored = foreign && found.value == held.before && !held.followed;
    if module_gone {
        Some(Why::Rebooted)
    } else if is_restored {
        Some(Why::Restored)
    } else {
        // No baseline has the text of a file that others changed: undo would lose it.
        let may_overwrite = take_over && target.file().is_none();
        (foreign && !may_overwrite).then_some(Why::Theirs)
    }
}

/// Value of `halt_poll_ns` once all is restored: the ceiling of a VM that followed it.
fn halt_poll_ns_after(set: &Snapshot, take_over: bool) -> Result<Option<String>, KnobError> {
    let target = Target::Parameter(Parameter::HaltPollNs);
    let (baseline, found) = (&set.baseline, set.machine.read(target)?);
    let is_restored = baseline.foreign(target, found.text()).is_none() || take_over;
    let held = baseline.get(target).filter(|_| is_restored);
    Ok(held.map_or(found.value, |held| held.before.clone()))
}

impl Left {
    const fn new(target: Target, found: Option<String>, why: Why) -> Self {
        Self {
            target,
            found,
            why,
            said: None,
        }
    }
}

impl Reversal {
    /// Whether something is left that is still set: modified externally, or of a VMM that does not answer.
    pub fn is_partial(&self) -> bool {
        let mut left = self.steps.iter().flat_map(|step| &step.left);
        left.any(|left| matches!(left.why, Why::Theirs | Why::NoAnswer))
    }
}
