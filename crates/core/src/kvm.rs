//! KVM's handling of a halt: the reference model of its window rule, kernel by kernel.
//!
//! A vCPU that halts is polled for its window and blocked after that. When the halt is over, KVM moves
//! the window. Everything here says what the kernel does, its odd cases included; nothing says what it
//! should do. Opinions are policies and live elsewhere.
//!
//! Sources are named as functions and files of the kernel, or as its commits. Where the words *from
//! memory* or *inferred* stand, no source was at hand, and the number may be off by a release.
//!
//! Words: the **window** is `vcpu->halt_poll_ns`; the **ceiling** is what bounds it, see [`ceiling`].
//! All of it is `unsigned int` nanoseconds in the kernel, so it is `u32` here and wraps like there.
//!
//! ```
//! use haltwise_core::kvm::{Arch, Knobs, Observed, Rule, Version};
//!
//! let kernel: Version = "6.12.8-cloud-amd64".parse()?;
//! let (rule, knobs) = (Rule::of(kernel, Arch::X86), Knobs::defaults(kernel, Arch::X86));
//! let ceiling = knobs.halt_poll_ns;
//! let step = rule.after(&knobs, ceiling, 0, Observed::valid(60_000));
//! assert_eq!(step.window, 10_000);
//! # Ok::<(), haltwise_core::kvm::VersionParseError>(())
//! ```

pub mod arch;
pub mod backport;
pub mod ceiling;
pub mod distributor;
pub mod guest;
pub mod knobs;
pub mod rule;
pub mod step;
pub mod version;

pub use arch::{Arch, ArchParseError};
pub use backport::{Backport, BackportParseError, Backports};
pub use ceiling::Ceilings;
pub use distributor::Distributor;
pub use knobs::Knobs;
pub use rule::Rule;
pub use step::{Call, Observed, Step};
pub use version::{Version, VersionParseError};

#[cfg(test)]
mod test;
