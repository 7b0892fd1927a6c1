//! Exits: what made a vCPU leave its guest, how often, and how long it took.
//!
//! A recorder counts them in the kernel and hands over an [`Exits`] for each vCPU, cause and
//! interval. [`account`] folds those into the account of a recording.
//!
//! | module | holds |
//! |---|---|
//! | [`account`] | exits by reason, VM, vCPU or second, with their times |
//! | [`cause`] | what is counted: [`Kind`], [`Isa`], [`Cause`] |
//! | [`names`] | what the kernel calls its reasons |

pub mod account;
pub mod cause;
pub mod names;

pub use cause::{Cause, Isa, Kind};

use serde::{Deserialize, Serialize};

use crate::hist::LogHist;
use crate::ids::{Tid, VcpuId, VmIndex};

/// What one vCPU thread did of one cause within one interval, counted in the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exits {
    /// End of the interval, on the host's `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// Its length.
    pub interval_ns: u64,
    /// The VM, where known.
    pub vm: Option<VmIndex>,
    /// The vCPU, where known.
    pub vcpu: Option<VcpuId>,
    /// The thread that ran the vCPU; 0 for [`Kind::Other`].
    pub tid: Tid,
    /// What was counted.
    pub cause: Cause,
    /// How often.
    pub count: u64,
    /// Of `handling_ns`, what was spent in user space.
    pub user_ns: u64,
    /// Times, of those whose time is known: from the exit to the next entry of the same vCPU in the
    /// same thread; of a userspace exit, from the return of `KVM_RUN` to the next one. Fewer than
    /// `count` where the next entry was not seen, or has not come yet.
    pub handling_ns: LogHist,
}

#[cfg(test)]
mod test;
