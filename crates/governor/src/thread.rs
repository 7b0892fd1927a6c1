//! A detached thread with a small stack, started by the C library alone: what Rust's standard library may do
//! around a thread (its name, the guard of its stack) takes system calls that a VMM's seccomp list need not allow.

#![expect(unsafe_code, reason = "a thread of the C library")]

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

/// Starts a detached thread; whether that worked.
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
