//! Changes that an apply would make: looked up, compared, and refused where they are not ours to make. Writes nothing.

use haltwise_core::ids::VmKey;
use haltwise_core::parameter::Parameter;

use super::baseline::Baseline;
use super::error::{Foreign, KnobError};
use super::machine::Machine;
use super::persist;
use super::target::{Change, InGuest, Target};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    pub parameters: Vec<(Parameter, u32)>,
    /// VMs and the ceilings that they should have, in nanoseconds.
    pub ceilings: Vec<(VmKey, u32)>,
    /// Parameters of the governor haltpoll in the guests of VMs, and their values.
    pub guests: Vec<(InGuest, u32)>,
    pub persist: bool,
    pub take_over: bool,
}

impl Request {
    /// All that it sets in force, in order.
    fn wanted(&self) -> Vec<(Target, u32)> {
        let parameters = self.parameters.iter();
        let parameters = parameters.map(|(it, value)| (Target::Parameter(*it), *value));
        let ceilings = self.ceilings.iter();
        let ceilings = ceilings.map(|(vm, value)| (Target::Ceiling(*vm), *value));
        let guests = self.guests.iter();
        let guests = guests.map(|(it, value)| (Target::Guest(*it), *value));
        let mut wanted: Vec<_> = parameters.chain(ceilings).chain(guests).collect();
        // Ceilings first: a VM that gets its own never follows the new halt_poll_ns.
        wanted.sort_unstable_by_key(|(target, value)| (!target.is_ceiling(), *target, *value));
        wanted
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proposal {
    /// Changes to be made, in order.
    pub changes: Vec<Change>,
    /// Targets that have the wanted value already.
    pub already: Vec<(Target, u32)>,
    pub taken_over: Vec<Foreign>,
}

/// Looks what a request comes to. Fails where a parameter is not there, is read-only, or was
/// modified externally and is not to be taken over.
pub(super) fn propose(
    machine: &Machine,
    baseline: &Baseline,
    request: &Request,
) -> Result<Proposal, KnobError> {
    let mut proposal = Proposal::default();
    for (target, value) in request.wanted() {
        let found = machine.wanted(target, value)?;
        let foreign = baseline.foreign(target, found.text());
        proposal.taken_over.extend(foreign);
        let new = Some(target.written(value));
        if found.value == new && !found.follows {
            proposal.already.push((target, value));
        } else {
            proposal.changes.push(Change::of(target, found, new));
        }
    }
    if request.persist {
        persist(machine, baseline, request, &mut proposal)?;
    }
    if !proposal.taken_over.is_empty() && !request.take_over {
        return Err(KnobError::Theirs(proposal.taken_over));
    }
    Ok(proposal)
}

fn persist(
    machine: &Machine,
    baseline: &Baseline,
    request: &Request,
    proposal: &mut Proposal,
) -> Result<(), KnobError> {
    let files = persist::here(&machine.root);
    if files.is_empty() {
        return Err(KnobError::NoPlace);
    }
    let mut found = Vec::new();
    let mut values = baseline.persisted();
    for file in files {
        let target = Target::File(file);
        let old = machine.read(target)?.value;
        let foreign = baseline.foreign(target, old.as_deref());
        // Never merged, nor overwritten: undo could not bring it back as it was.
        if old.is_some() && (foreign.is_some() || baseline.get(target).is_none()) {
            let path = machine.root.path(file.path());
            return Err(KnobError::Occupied { path });
        }
        if foreign.is_some() {
            // A file that was removed since is not ours to write again.
            values.clear();
        }
        proposal.taken_over.extend(foreign);
        found.push((file, target, old));
    }
    values.extend(request.parameters.iter().copied());
    for (file, target, old) in found {
        let new = Some(file.text(&values));
        if old != new {
            proposal.changes.push(Change::of(target, old, new));
        }
    }
    Ok(())
}

impl Proposal {
    /// Present value of a target that is to be set, and whether the target is a VM without a ceiling of its own.
    fn found(&self, target: Target) -> Option<(Option<String>, bool)> {
        let mut changes = self.changes.iter().filter(|it| it.target == target);
        let mut already = self.already.iter().filter(|(it, _)| *it == target);
        match changes.next() {
            Some(change) => Some((change.old.clone(), change.follows)),
            None => already
                .next()
                .map(|(_, now)| (Some(target.written(*now)), false)),
        }
    }

    /// Fails where a target that is to be set has another value than the caller has read. With `failed_before`, the name of
    /// a writer whose attempt failed, the value wanted then, or the one in the journal, is accepted too.
    pub(super) fn rests_on(
        &self,
        expected: &[(Target, u32)],
        baseline: &Baseline,
        failed_before: Option<&str>,
    ) -> Result<(), KnobError> {
        for (target, value) in expected {
            let Some((found, follows)) = self.found(*target) else {
                continue;
            };
            let expected = target.written(*value);
            let is_already = self.already.iter().any(|(it, _)| it == target);
            let held = baseline.get(*target).filter(|it| it.ours == found);
            let is_held = |who: &str| held.is_some_and(|held| held.who == who);
            let is_made = !follows && failed_before.is_some_and(|who| is_already || is_held(who));
            if found.as_ref() == Some(&expected) || is_made {
                continue;
            }
            let name = target.name();
            let found = found.unwrap_or_else(|| "absent".to_owned());
            return Err(if follows {
                KnobError::Follows {
                    name,
                    expected,
                    found,
                }
            } else {
                KnobError::Otherwise {
                    name,
                    expected,
                    found,
                }
            });
        }
        Ok(())
    }

    pub fn targets(&self) -> impl Iterator<Item = Target> {
        let already = self.already.iter().map(|(target, _)| *target);
        self.changes.iter().map(|it| it.target).chain(already)
    }

    pub(super) fn takes_over(&self, target: Target) -> bool {
        self.taken_over.iter().any(|it| it.target == target)
    }

    pub(super) fn persists(&self) -> bool {
        self.changes.iter().any(|it| it.target.file().is_some())
    }
}
