//! The baseline, and what a crash or a boot made of it: for `status`, and as the state of `writer`. Changes nothing.

use super::baseline::{Baseline, CutOff, Held, settle};
use super::error::{Foreign, KnobError};
use super::machine::Machine;
use super::own::{self, Lock};
use super::target::Target;
use crate::root::Root;

/// Where the baseline lies, below a [`Root`].
pub const BASELINE: &str = "var/lib/haltwise/baseline.json";

/// No baseline is read further than this, in bytes.
const LONGEST: u64 = 1 << 30;

/// The baseline on disk; `None` if nothing was ever set.
pub(super) fn read(root: &Root) -> Result<Option<Baseline>, KnobError> {
    let path = root.path(BASELINE);
    let Some(text) = own::read(&path, LONGEST)? else {
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
    /// Parameters that a boot has reset, and what was set of VMs that have ended.
    pub(super) gone: Vec<Held>,
    pub(super) boot: String,
    pub(super) machine: Machine,
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

    /// A baseline as it is now, in this boot.
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

    /// Targets that haltwise set and whose value is not known: the VMM, or the agent in the guest, does not say. With
    /// the answer given instead.
    pub fn unknown(&self) -> Vec<(Target, String)> {
        let targets = self.baseline.held.iter().map(|held| held.target);
        let unknown = targets.filter_map(|target| {
            let error = self.machine.read(target).err();
            let error = error.filter(KnobError::is_no_answer)?;
            Some((target, error.with_sources()))
        });
        unknown.collect()
    }

    /// Targets that haltwise set and that were modified externally since.
    pub fn foreign(&self) -> Result<Vec<Foreign>, KnobError> {
        let targets = self.baseline.held.iter().map(|held| held.target);
        let foreign = targets.map(|target| match self.machine.read(target) {
            Err(error) if error.is_no_answer() => Ok(None),
            found => Ok(self.baseline.foreign(target, found?.text())),
        });
        foreign.filter_map(Result::transpose).collect()
    }
}
