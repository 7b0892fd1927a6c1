//! Exits: what made a vCPU leave its guest, how often, and how long it took.
//!
//! A recorder counts them in the kernel and hands over an [`Exits`] for each vCPU, cause and
//! interval. [`account`] folds those into the account of a recording.

pub mod account;
pub mod cause;
pub mod halted;
pub mod names;

pub use cause::{Cause, Isa, Kind, SubKey};

use serde::{Deserialize, Serialize};

use crate::hist::LogHist;
use crate::ids::{Tid, VcpuId, VmIndex};

/// Events of one vCPU thread for one cause within one interval, counted in the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exits {
    /// End of the interval, on the host's `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    pub interval_ns: u64,
    pub vm: Option<VmIndex>,
    pub vcpu: Option<VcpuId>,
    /// The thread that ran the vCPU; 0 for [`Kind::Other`].
    pub tid: Tid,
    pub cause: Cause,
    pub count: u64,
    /// The part of `handling_ns` spent in user space.
    pub user_ns: u64,
    /// Times, of those whose time is known: from the exit to the next entry of the same vCPU in the
    /// same thread; of a userspace exit, from the return of `KVM_RUN` to the next one. Fewer than
    /// `count` where the next entry was not seen, or has not come yet.
    pub handling_ns: LogHist,
}

/// How exits were recorded: part of a capture that holds them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Recorded {
    #[serde(default)]
    pub sub_keys: Vec<SubKey>,
    /// Only these vCPUs, by number; empty for all.
    #[serde(default)]
    pub vcpus: Vec<u32>,
    /// Only exits of these reasons, as they were asked for; empty for all.
    #[serde(default)]
    pub reasons: Vec<String>,
    /// Names that the kernel has and the tables of this program do not have, or have otherwise.
    #[serde(default)]
    pub names: Vec<Named>,
}

/// The name of a reason, as a kernel printed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    pub isa: Isa,
    pub reason: u32,
    pub name: String,
}

impl Recorded {
    /// The names to print: the kernel's own before ours.
    pub fn names(&self) -> names::Names {
        let mut names = names::Names::default();
        for named in &self.names {
            names.tell(named.isa, named.reason, &named.name);
        }
        names
    }
}

#[cfg(test)]
mod test;
