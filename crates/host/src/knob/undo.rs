//! Changes that an undo would make: each target back to its baseline, unless modified externally. Writes nothing.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use haltwise_core::parameter::Parameter;
use serde::Serialize;

use super::baseline::{Baseline, Held};
use super::error::KnobError;
use super::snapshot::Snapshot;
use super::target::{Change, Found, Target};

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
