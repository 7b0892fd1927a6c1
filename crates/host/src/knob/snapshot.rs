//! What is set, as anybody who may read the baseline sees it. Changes nothing.

use super::apply::{self, Proposal, Request};
use super::baseline::{Baseline, CutOff, Held, settle};
use super::error::{Foreign, KnobError};
use super::machine;
use super::store;
use super::target::Target;
use super::undo::{self, Reversal};
use crate::guest_agent::Sessions;
use crate::root::Root;

#[derive(Debug)]
pub struct Snapshot {
    /// What is set in this boot, and what was there before.
    pub baseline: Baseline,
    /// A change that was cut off, and what became of it by what can be seen.
    pub cut_off: Option<CutOff>,
    /// Parameters that a boot has reset, and what was set of VMs that have ended.
    gone: Vec<Held>,
    root: Root,
    agents: Sessions,
}

impl Snapshot {
    /// Reads it. `None`: another haltwise is writing it just now.
    pub fn read(root: &Root) -> Result<Option<Self>, KnobError> {
        let Some(baseline) = store::look(root)? else {
            return Ok(None);
        };
        let agents = Sessions::default();
        let boot = machine::boot(root)?;
        let settled = settle(&baseline, &boot, |it| machine::read(root, &agents, it))?;
        Ok(Some(Self {
            baseline: settled.baseline,
            cut_off: settled.cut_off,
            gone: settled.gone,
            root: root.clone(),
            agents,
        }))
    }

    pub fn propose(&self, request: &Request) -> Result<Proposal, KnobError> {
        apply::propose(&self.root, &self.agents, &self.baseline, request)
    }

    pub fn reversal(&self, take_over: bool) -> Result<Reversal, KnobError> {
        let read = |target| machine::read(&self.root, &self.agents, target);
        undo::propose(&self.baseline, &self.gone, take_over, read)
    }

    /// What haltwise set and whose value is not known: its VMM, or the agent in its guest, does not say. With what it
    /// said instead.
    pub fn unknown(&self) -> Vec<(Target, String)> {
        let targets = self.baseline.held.iter().map(|held| held.target);
        let unknown =
            targets.filter_map(
                |target| match machine::read(&self.root, &self.agents, target) {
                    Err(error @ (KnobError::Ceiling(_) | KnobError::Agent(_))) => {
                        Some((target, error.with_sources()))
                    }
                    _ => None,
                },
            );
        unknown.collect()
    }

    /// What haltwise set and was modified externally since.
    pub fn foreign(&self) -> Result<Vec<Foreign>, KnobError> {
        let targets = self.baseline.held.iter().map(|held| held.target);
        let foreign = targets.map(|target: Target| {
            let found = match machine::read(&self.root, &self.agents, target) {
                Err(KnobError::Ceiling(_) | KnobError::Agent(_)) => return Ok(None),
                found => found?,
            };
            Ok(self.baseline.foreign(target, found.text()))
        });
        let foreign: Result<Vec<_>, KnobError> = foreign.collect();
        Ok(foreign?.into_iter().flatten().collect())
    }
}
