//! The process that writes, and the owner of its files.

use std::os::fd::AsFd;

use rustix::fs::{Gid, Uid};

use super::Refused;

/// Only the owner of a file takes it away: `/tmp`.
const STICKY: u32 = 0o1000;
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Writer {
    pub(super) us: Account,
    /// The user who ran us as root by `sudo`: the owner of our files.
    pub(super) by: Option<Account>,
}

impl Writer {
    pub(super) fn us() -> Self {
        let us = Account {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        };
        let number = |name| std::env::var(name).ok()?.parse().ok();
        let by = number("SUDO_UID").zip(number("SUDO_GID"));
        Self::of(us, by.map(|(uid, gid)| Account { uid, gid }))
    }

    /// The variables of `sudo` are used only as root: any other user may set them to anything.
    pub(super) fn of(us: Account, by: Option<Account>) -> Self {
        let is_another =
            |by: &Account| us.uid == 0 && by.uid != 0 && is_id(by.uid) && is_id(by.gid);
        Self {
            us,
            by: by.filter(is_another),
        }
    }

    /// Whether a user is who has run us by `sudo`.
    pub(super) fn is_for(self, uid: u32) -> bool {
        self.by.is_some_and(|by| by.uid == uid)
    }

    /// The account that gets a file made in a directory of this owner; in one of root's alone it stays ours.
    pub(super) fn files_in(self, owner: u32, mode: u32) -> Option<Account> {
        self.by.filter(|by| by.uid == owner || mode & STICKY != 0)
    }

    /// Refuses a directory that is neither ours alone nor that of who has run us by `sudo`.
    pub(super) fn must_own(self, owner: u32, mode: u32) -> Result<(), Refused> {
        let mode = mode & 0o7777;
        if owner != self.us.uid && !self.is_for(owner) {
            return Err(Refused::Foreign {
                owner,
                us: self.us.uid,
            });
        }
        if mode & (GROUP_WRITES | OTHERS_WRITE) != 0 {
            return Err(Refused::Open { mode });
        }
        Ok(())
    }

    /// Refuses a directory in which another user could change what we write.
    pub(super) fn may_use(self, owner: u32, group: u32, mode: u32) -> Result<(), Refused> {
        if owner != self.us.uid && owner != 0 && !self.is_for(owner) {
            return Err(Refused::Foreign {
                owner,
                us: self.us.uid,
            });
        }
        let others = mode & OTHERS_WRITE != 0 || mode & GROUP_WRITES != 0 && group != self.us.gid;
        if others && mode & STICKY == 0 && !self.is_for(owner) {
            return Err(Refused::Open {
                mode: mode & 0o7777,
            });
        }
        Ok(())
    }
}

/// `chown` takes the highest number for "leave it".
fn is_id(id: u32) -> bool {
    id != u32::MAX
}

/// Gives a file or directory that we have just made to an account, by its descriptor.
///
/// Best effort: where that is not permitted (some network file systems) it stays ours, and closed to others.
pub(super) fn give(file: impl AsFd, to: Option<Account>) {
    if let Some(Account { uid, gid }) = to {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        let _ = rustix::fs::fchown(file, Some(uid), Some(gid));
    }
}
