//! A signal that one thread sends another, to which nothing happens.
//!
//! The only file of this measurement with unsafe code. JUSTIFICATION: neither the standard library nor `rustix` has a
//! call for a handler, or for a signal to one thread.
#![expect(unsafe_code, reason = "system calls without wrappers")]

use std::io;
use std::mem::MaybeUninit;

use rustix::process::getpid;
use rustix::thread::Pid;

/// The one: of the real-time signals, since these are queued one by one.
fn number() -> libc::c_int {
    libc::SIGRTMIN() + 3
}

extern "C" fn arrived(_: libc::c_int) {}

#[derive(Debug)]
pub(super) struct Handled {
    before: libc::sigaction,
}

impl Handled {
    pub(super) fn install() -> io::Result<Self> {
        let empty = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: all fields are numbers, pointers or sets of bits, for which zeroes are valid.
        let mut own = unsafe { empty.assume_init() };
        own.sa_sigaction = arrived as *const () as usize;
        own.sa_flags = libc::SA_RESTART;
        let mut before = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: `own` has a function that takes what a handler without SA_SIGINFO is given, and touches nothing;
        // `before` is room for what was there.
        let failed = unsafe { libc::sigaction(number(), &raw const own, before.as_mut_ptr()) };
        if failed != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call that succeeded has filled it.
        let before = unsafe { before.assume_init() };
        Ok(Self { before })
    }
}

impl Drop for Handled {
    fn drop(&mut self) {
        let before = &raw const self.before;
        // SAFETY: `before` is what was in force, and nothing is to be written back. No signal is under way: its
        // receiver took all before it ended.
        unsafe { libc::sigaction(number(), before, std::ptr::null_mut()) };
    }
}

pub(super) fn send(thread: Pid) -> io::Result<()> {
    let (process, thread) = (
        getpid().as_raw_nonzero().get(),
        thread.as_raw_nonzero().get(),
    );
    // SAFETY: three numbers; the kernel checks that the thread is one of the process.
    let failed = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, number()) };
    if failed == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

pub(super) fn block(is_blocked: bool) -> io::Result<()> {
    let how = if is_blocked {
        libc::SIG_BLOCK
    } else {
        libc::SIG_UNBLOCK
    };
    let set = alone();
    // SAFETY: `set` is a set of signals, and nothing is to be written back.
    let error = unsafe { libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut()) };
    if error == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(error))
    }
}

pub(super) fn drain() {
    let set = alone();
    let at_once = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    loop {
        // SAFETY: `set` and `at_once` live through the call, and no information is to be written.
        let taken =
            unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const at_once) };
        let is_interrupted =
            taken < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
        if taken < 0 && !is_interrupted {
            return;
        }
    }
}

fn alone() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `set` is room for a set of signals, which this fills.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: the call above has filled it, and cannot fail.
    let mut set = unsafe { set.assume_init() };
    // SAFETY: `set` is a set of signals, and the number is that of a real-time signal.
    unsafe { libc::sigaddset(&raw mut set, number()) };
    set
}
