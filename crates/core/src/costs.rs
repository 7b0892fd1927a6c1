//! Cost of every setting of a named grid for each VM, as figures that add up.
//!
//! A cost for any goal is `poll_ns + sleeps x switch_cpu_ns + weight x latency_ns`: linear in whole numbers that are
//! sums over halts. So they add up over vCPUs, VMs, hosts and days, and a fleet's question needs no halt but these sums.
//! The grid is the same for every host: a row of one host is added to the row of the same setting of another.
//!
//! **What adds up exactly.** Each capture is cut at half of its own time, and each vCPU's windows begin anew in each
//! capture. The figures of several captures are therefore the sums of their figures, in any order and to the unit. Of a
//! vCPU whose halts were cut into two captures, halts and recorded figures add up to those of one capture; replayed
//! figures differ by what its window would have been at the cut, until both windows are equal.

pub mod grid;
pub mod play;
pub mod table;

pub use grid::{GRID, Kind};
pub use play::{Figures, VmCosts, costs};

#[cfg(test)]
pub(crate) mod test;

crate::names! {
    /// The half of a capture's time that a figure is of.
    pub enum Half {
        /// The first: settings are chosen on it.
        Fit = "fit",
        /// The second: they are evaluated on it.
        Validate = "validate",
    }
}
