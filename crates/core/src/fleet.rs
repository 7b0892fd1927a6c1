//! Settings recommended for a fleet: one setting for all hosts, one for each cohort, or ceilings for each VM, from
//! costs tables ([`crate::costs`]) alone.
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
