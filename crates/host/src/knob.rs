//! The only hand that writes to the machine: KVM's four parameters of the polling window.
//!
//! Everything it does is in a journal first, so that it can be undone: step by step or all at once,
//! after a crash, and after a boot. It never fights: what somebody else has set since is theirs.
//!
//! | module | holds |
//! |---|---|
//! | `parameter` | the four parameters and the values they take |
//! | `advice` | values that are allowed and likely to be a slip or to cost |
//! | `entry`, `line` | what the journal holds, and its bytes |
//! | `book` | the journal on disk, held by one writer |
//! | `own` | which files are ours to believe and to lock |
//! | `state` | what the journal comes to |
//! | `machine` | what the machine says now |
//! | `disk` | each single effect on the machine, with the ways it can end |
//! | `boot_files` | what makes a setting outlast a boot |
//! | `propose` | what an apply or an undo would do |
//! | `keeper` | does it |
//! | [`effect`] | whether running VMs follow, found out by watching them |
//!
//! `docs/journal.md` is the journal's format. Every path lies below a [`crate::root::Root`].

mod advice;
mod book;
mod boot_files;
mod disk;
pub mod effect;
mod entry;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod keeper;
mod line;
mod machine;
mod own;
mod parameter;
mod propose;
mod state;

pub use self::advice::advice;
pub use self::book::JOURNAL;
pub use self::boot_files::{Rival, persisted, rivals};
pub use self::disk::Fault;
pub use self::entry::{Act, BootFile, End, Entry, Form, Intent, Left, Outcome, Target, Turn, Why};
pub use self::error::{Foreign, KnobError};
pub use self::keeper::{Keeper, Look, Settled};
pub use self::line::Damage;
pub use self::parameter::{Parameter, ValueError};
pub use self::propose::{Proposal, Reversal, Which, Wish};
pub use self::state::{Contradiction, Held, Lost, Open, State, Step};

#[cfg(test)]
mod test;
