//! Cost that the recorded halts would have had under another policy.
//!
//! A replay holds fixed what the guest's world decided, the gap between the start of a halt and its
//! wake event, and lets a policy choose anew how long to poll. For a gap `g` under a window `w`:
//!
//! ```text
//! g <= w + r:  it is met.  cpu = g               latency = 0         halt_ns = g
//! g >  w + r:  it blocks.  cpu = w + switch_cpu  latency = L(g - w)  halt_ns = g + L(g - w)
//! ```
//!
//! `r` is the [`overrun`] of the host. Where `w` is 0 nothing is polled.
//!
//! The policy then sees that `halt_ns`, just as KVM's rule does: with the wake-up latency in it. That
//! is what makes a ceiling a little above the gaps lock polling out, which no histogram of gaps shows.
//!
//! **Assumptions.** How far the next gap depends on how soon the vCPU ran is taken from the recording,
//! see [`arrivals`]. A poll of the host that another task cut short is cut at the same length. One of the
//! guest is not: KVM ends none that runs as guest code. The vCPU stays runnable, the scheduler shares the
//! CPU, and how late that makes a wake-up is not in a recording; such polls are counted
//! ([`Outcome::contended_polls`]). A poll of the guest that meets the wake spares the exit on HLT and, of a
//! vCPU of the same guest, the sender's IPI (`TIF_POLLING_NRFLAG`); a timer's interrupt costs a running guest
//! an exit instead. That of a device is taken to be posted, which costs none. Sleeps of
//! a length that never was recorded wake as fast as those of the nearest length that was. How many
//! halts each of these touched is counted in [`outcome::Doubts`].

pub mod arrivals;
pub mod calibration;
pub mod cost;
pub mod grid;
pub mod latency;
pub mod outcome;
pub mod overrun;
pub mod run;
pub mod sample;
pub mod session;
mod sums;

pub use arrivals::Arrivals;
pub use cost::{Cost, GoalName};
pub use outcome::{Doubts, Outcome};
pub use sample::Sample;
pub use session::{Session, VcpuKey};
pub use sums::Sums;

#[cfg(test)]
pub(crate) mod test;
