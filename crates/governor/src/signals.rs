//! A thread that takes no signal: they are the VMM's.

#![expect(unsafe_code, reason = "signal masks by the C library")]

use std::mem::MaybeUninit;

/// All signals blocked while this lives, in the thread that made it and in those that it starts.
#[derive(Debug)]
pub(crate) struct Blocked {
    before: libc::sigset_t,
}

impl Blocked {
    /// Blocks them. `None` if the kernel refuses.
    pub(crate) fn all() -> Option<Self> {
        let mut all = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: `all` is room for a set of signals, which this fills.
        unsafe { libc::sigfillset(all.as_mut_ptr()) };
        // SAFETY: `all` was filled above, and `before` is room for another.
        let refused =
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
        if refused != 0 {
            return None;
        }
        // SAFETY: the call that succeeded has filled it.
        let before = unsafe { before.assume_init() };
        Some(Self { before })
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        let set = &raw const self.before;
        // SAFETY: `before` is the set that was in force, and nothing is to be written back.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, set, std::ptr::null_mut()) };
    }
}
