//! Changes that an apply would make: looked up, compared, and refused where they are not ours to make. Writes nothing.

use haltwise_core::parameter::Values;

use super::baseline::Baseline;
use super::error::{Differs, Foreign, KnobError};
use super::snapshot::Snapshot;
use super::target::{Change, Target, here};

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
    /// Changes that a request takes. Fails where a parameter does not exist, is read-only, or was modified externally and
    /// is not to be taken over.
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
