//! `libhaltwise_preload.so`: preloaded into an unmodified VMM, it announces each VM that is created
//! (`haltwise-governor`), so that `haltwise apply --vm NAME --ceiling TIME` can set its ceiling.
//!
//! It stands in for `ioctl`, and passes every call on to the kernel as it is. On the way of `KVM_RUN` that is
//! one comparison. In a process that creates no VM it does nothing. A ceiling that the VMM sets itself is noted, so that
//! undo restores it.

#![expect(unsafe_code, reason = "it stands in for a function of the C library")]

use std::ffi::{c_int, c_ulong, c_void};
use std::panic::catch_unwind;

use haltwise_governor::{EnableCap, KVM_CAP_HALT_POLL, KVM_ENABLE_CAP};

const KVM_RUN: c_ulong = 0xae80;
const KVM_CREATE_VM: c_ulong = 0xae01;

/// The C library's `ioctl`. Its third argument may be absent; then what is passed on here is what the caller
/// left in its place, which the kernel does not read for such a request.
///
/// # Safety
/// As for `ioctl`: what `argument` means is between the caller and the kernel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    let pass = || {
        // SAFETY: the caller's own call, as it is.
        let result = unsafe { libc::syscall(libc::SYS_ioctl, fd, request, argument) };
        c_int::try_from(result).unwrap_or(-1)
    };
    if request == KVM_RUN {
        return pass();
    }
    let result = pass();
    match request {
        KVM_CREATE_VM if result >= 0 => created(result),
        KVM_ENABLE_CAP if result >= 0 => enabled(fd, argument.cast()),
        _ => {}
    }
    result
}

#[cold]
fn enabled(vm: c_int, cap: *const EnableCap) {
    if cap.is_null() {
        return;
    }
    // SAFETY: the kernel has just read as much from there, by the size in the request.
    let cap = unsafe { cap.read_unaligned() };
    if let (KVM_CAP_HALT_POLL, Ok(ns)) = (cap.cap, u32::try_from(cap.args[0])) {
        haltwise_governor::note_ceiling(&vm, ns);
    }
}

/// Announces a VM. Whatever goes wrong is no concern of the VMM's, `errno` included.
#[cold]
fn created(vm: c_int) {
    // SAFETY: gives where this thread's errno lies.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: it lies there as long as the thread lives.
    let errno = unsafe { place.read() };
    drop(catch_unwind(|| haltwise_governor::announce(&vm)));
    // SAFETY: as above.
    unsafe { place.write(errno) };
}
