//! The only writer of settings: KVM's four parameters of halt polling, and the five of a guest's governor, now and at
//! boot.
//!
//! The old value is on disk before anything is set, so that it can be restored: after a crash, and
//! after a boot. Values that were modified externally since are left alone.
//!
//! `docs/journal.md` describes the file. Every path lies below a [`crate::root::Root`].

mod advice;
mod baseline;
mod disk;
pub mod effect;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod machine;
mod origin;
mod snapshot;
mod target;
mod writer;

pub use self::advice::{Remark, Settings, at_boot, remarks, without_effect};
pub use self::baseline::{Baseline, CutOff, Held, Outcome};
pub use self::disk::{PILOT, keep, kept, make_place};
pub use self::error::{Differs, Foreign, KnobError};
pub use self::machine::is_writable;
pub use self::origin::{Line, Reach, holder, lines, rivals};
pub use self::snapshot::{
    BASELINE, HeldNow, Left, Proposal, Request, Reversal, Snapshot, UndoneStep, Why,
};
pub use self::target::{BootFile, Change, Found, InGuest, Target};
pub use self::writer::{Writer, writes};

#[cfg(test)]
mod test;
