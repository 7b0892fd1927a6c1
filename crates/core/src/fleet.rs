//! Settings recommended for a fleet: one setting for all hosts, one for each cohort, or ceilings for each VM, from
//! costs tables ([`crate::costs`]) alone.
//!
//! | module | holds |
//! |---|---|
//! | [`cohort`] | by what VMs are put together |
//! | [`cell`] | the sums of a cohort in a unit, setting by setting |
//! | [`gather`] | tables added up, in any order |
//! | [`choose`] | the best setting, and how sure a difference is |
//! | [`vms`] | a second pass, VM by VM: ceilings, and who would lose |
//! | [`answer`] | all of it together |
//!
//! Settings are chosen on the first half of each capture and evaluated on the second. Differences have an interval by the
//! jackknife over units: hosts, or where there are few, days, or single captures. Memory grows with hosts times cohorts and
//! with VMs, not with days or halts.

pub mod answer;
pub mod cell;
pub mod choose;
pub mod cohort;
pub mod gather;
pub mod vms;

pub use answer::Answer;
pub use cohort::{By, Cohort};
pub use gather::{Fleet, Part};

#[cfg(test)]
mod test;
