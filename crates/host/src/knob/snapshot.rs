//! The baseline, and what a crash or a boot made of it: for `status`, and as the state of `writer`. Changes nothing.

use super::baseline::{Baseline, CutOff, Held, settle};
use super::disk::{self, Lock};
use super::error::{Foreign, KnobError};
use super::machine::Machine;
use super::target::Target;
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
