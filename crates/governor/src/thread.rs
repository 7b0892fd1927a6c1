//! A detached thread with a small stack, started by the C library alone: what Rust's standard library may do
//! around a thread (its name, the guard of its stack) takes system calls that a VMM's seccomp list need not allow. It
//! takes no signal: they are the VMM's.
#![expect(unsafe_code, reason = "a thread and signal masks of the C library")]

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};

/// Stack size of a thread that only receives and sends.
const STACK: usize = 64 << 10;

type Work = fn(&OwnedFd);

struct Start {
    socket: i32,
    work: Work,
}

pub(crate) fn start(socket: OwnedFd, work: Work) -> bool {
    let mut attributes = MaybeUninit::uninit();
    // SAFETY: room for attributes, which this fills.
    if unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) } != 0 {
        return false;
    }
    let attributes = attributes.as_mut_ptr();
    // SAFETY: filled above. What cannot be set stays as it is by default.
    unsafe { libc::pthread_attr_setstacksize(attributes, STACK) };
    // SAFETY: as above.
    unsafe { libc::pthread_attr_setdetachstate(attributes, libc::PTHREAD_CREATE_DETACHED) };
    let socket = socket.into_raw_fd();
    let start = Box::into_raw(Box::new(Start { socket, work }));
    let mut thread = MaybeUninit::uninit();
    // SAFETY: the attributes are filled, `run` has the type that is called, and `start` is its own.
    let refused =
        unsafe { libc::pthread_create(thread.as_mut_ptr(), attributes, run, start.cast()) };
    // SAFETY: filled above, and used for the last time.
    unsafe { libc::pthread_attr_destroy(attributes) };
    if refused == 0 {
        return true;
    }
    // SAFETY: no thread was started that could have taken it.
    let start = unsafe { Box::from_raw(start) };
    // SAFETY: its owner gave it to us above.
    drop(unsafe { OwnedFd::from_raw_fd(start.socket) });
    false
}

extern "C" fn run(start: *mut c_void) -> *mut c_void {
    // SAFETY: `start` gave it to this thread alone.
    let start = unsafe { Box::from_raw(start.cast::<Start>()) };
    let Start { socket, work } = *start;
    // SAFETY: its owner gave it to `start`.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    work(&socket);
    // It may be closed already, and its number another file's.
    let _ = socket.into_raw_fd();
    std::ptr::null_mut()
}

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
