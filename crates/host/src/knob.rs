//! The only writer of settings: KVM's four parameters of halt polling, and the five of a guest's governor, now and at
//! boot.
//!
//! The old value is on disk before anything is set, so that it can be restored: after a crash, and
//! after a boot. Values that were modified externally since are left alone.
//!
//! | module | holds |
//! |---|---|
//! | `target` | what can be set: parameters and boot files; a change of it |
//! | `advice` | settings without effect, and values that are likely to be a slip or to cost |
//! | `origin` | lines of files that set parameters: at boot, by scripts, or without effect |
//! | `baseline` | what is set and what was there before; what a crash or a boot made of it |
//! | `own` | files that are ours to trust and to lock |
//! | `machine` | the machine: settings read, changed, and read back |
//! | `disk` | each single effect on the machine, with the ways it can end |
//! | `persist` | the files that set parameters at boot |
//! | `snapshot` | the baseline on disk, and what a crash or a boot made of it: for `status`, and inside `writer` |
//! | `apply`, `undo` | changes that either would make |
//! | `writer` | makes them, one writer at a time |
//! | `state` | state of the pilot |
//! | [`effect`] | whether running VMs follow, found out by watching them |
//!
//! `docs/journal.md` describes the file. Every path lies below a [`crate::root::Root`].

mod advice;
mod apply;
mod baseline;
mod disk;
pub mod effect;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod machine;
mod origin;
mod own;
mod persist;
mod snapshot;
mod state;
mod target;
mod undo;
mod writer;

pub use self::advice::{Remark, Settings, at_boot, remarks, without_effect};
pub use self::apply::{Proposal, Request};
pub use self::baseline::{Baseline, CutOff, Held, Outcome};
pub use self::error::{Foreign, KnobError};
pub use self::machine::is_writable;
pub use self::origin::{Line, Reach, holder, lines, rivals};
pub use self::snapshot::{BASELINE, HeldNow, Snapshot};
pub use self::state::{PILOT, keep, kept, make_place};
pub use self::target::{BootFile, Change, Found, InGuest, Target};
pub use self::undo::{Left, Reversal, UndoneStep, Why};
pub use self::writer::{Writer, writes};

#[cfg(test)]
mod test;
