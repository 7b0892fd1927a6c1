//! What an apply would do: looked up, compared, and refused where it is not ours to do. Writes nothing.

use haltwise_core::ids::VmKey;
use haltwise_core::parameter::Parameter;

use super::baseline::Baseline;
use super::error::{Foreign, KnobError};
use super::machine;
use super::persist::{self, Values};
use super::target::{BootFile, Change, InGuest, Target};
use crate::guest_agent::Sessions;
use crate::root::Root;

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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// What would be set, in order.
    pub changes: Vec<Change>,
    /// Targets that have the wanted value already.
    pub already: Vec<(Target, u32)>,
    pub taken_over: Vec<Foreign>,
    pub(super) takes_over: Vec<Target>,
}

/// Looks what a request comes to. Fails where a parameter is not there, is read-only for everybody, or was
/// modified externally and is not to be taken over.
pub(super) fn propose(
    root: &Root,
    agents: &Sessions,
    baseline: &Baseline,
    request: &Request,
) -> Result<Proposal, KnobError> {
    let parameters = request.parameters.iter();
    let parameters = parameters.map(|(parameter, value)| (Target::Parameter(*parameter), *value));
    let ceilings = request.ceilings.iter();
    let ceilings = ceilings.map(|(vm, value)| (Target::Ceiling(*vm), *value));
    let guests = request.guests.iter();
    let guests = guests.map(|(it, value)| (Target::Guest(*it), *value));
    let mut wanted: Vec<(Target, u32)> = parameters.chain(ceilings).chain(guests).collect();
    // Ceilings first: a VM that gets its own never follows the new halt_poll_ns.
    wanted.sort_unstable_by_key(|(target, value)| (!target.is_ceiling(), *target, *value));
    let mut proposal = Proposal {
        changes: Vec::new(),
        already: Vec::new(),
        taken_over: Vec::new(),
        takes_over: Vec::new(),
    };
    for (target, value) in wanted {
        let found = machine::wanted(root, agents, target, value)?;
        let foreign = baseline.foreign(target, found.text());
        proposal.taken_over.extend(foreign);
        let new = Some(target.written(value));
        if found.value == new && !found.follows {
            proposal.already.push((target, value));
        } else {
            proposal.changes.push(Change::plain(target, found, new));
        }
    }
    if request.persist {
        persist(root, agents, baseline, request, &mut proposal)?;
    }
    if !proposal.taken_over.is_empty() && !request.take_over {
        return Err(KnobError::Theirs(proposal.taken_over));
    }
    let foreign = proposal.taken_over.iter().map(|foreign| foreign.target);
    proposal.takes_over.extend(foreign);
    Ok(proposal)
}

fn persist(
    root: &Root,
    agents: &Sessions,
    baseline: &Baseline,
    request: &Request,
    proposal: &mut Proposal,
) -> Result<(), KnobError> {
    let files = persist::here(root);
    if files.is_empty() {
        return Err(KnobError::NoPlace);
    }
    let mut found = Vec::new();
    for file in files {
        let target = Target::File(file);
        found.push((file, target, machine::read(root, agents, target)?.value));
    }
    // What a file said that somebody else has changed since is not ours to say again.
    let is_ours = |(_, target, text): &(BootFile, Target, Option<String>)| {
        baseline.foreign(*target, text.as_deref()).is_none()
    };
    let mut values = if found.iter().all(is_ours) {
        baseline.persisted()
    } else {
        Values::new()
    };
    values.extend(request.parameters.iter().copied());
    for (file, target, old) in found {
        let new = Some(file.text(&values));
        if baseline.get(target).is_some() {
            let foreign = baseline.foreign(target, old.as_deref());
            proposal.taken_over.extend(foreign);
        } else if old.is_some() {
            if !request.take_over {
                let path = root.path(file.path());
                return Err(KnobError::Occupied { path });
            }
            proposal.takes_over.push(target);
        }
        if old != new {
            let old_form = match &old {
                Some(text) if !file.is_ours(text) => Some(machine::kept_form(root, file, text)?),
                _ => None,
            };
            proposal.changes.push(Change {
                old_form,
                ..Change::plain(target, old, new)
            });
        }
    }
    Ok(())
}

impl Proposal {
    /// What is there now of a target that is to be set, and whether that is a VM without a ceiling of its own.
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

    /// Says so where what is there now is not what whoever asks has read, of a target that is to be set. With
    /// `failed_before`, by whom an attempt before has failed, what that may have set will do as well: the wanted value, or
    /// what the journal has of it.
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

    pub(super) fn persists(&self) -> bool {
        self.changes.iter().any(|it| it.target.file().is_some())
    }
}
