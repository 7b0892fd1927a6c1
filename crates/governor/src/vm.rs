//! The two ioctls that are made on a VM's fd (`linux/kvm.h`), not by way of `ioctl`: the preloaded library
//! replaces that, and comes here itself.

#![expect(unsafe_code, reason = "ioctls of a VM")]

use std::ffi::{c_int, c_ulong};
use std::io;
use std::os::fd::RawFd;

const KVM_CHECK_EXTENSION: c_ulong = 0xae03;
pub const KVM_ENABLE_CAP: c_ulong = 0x4068_aea3;
pub const KVM_CAP_HALT_POLL: u32 = 182;

#[derive(Debug)]
#[repr(C)]
pub struct EnableCap {
    pub cap: u32,
    flags: u32,
    pub args: [u64; 4],
    pad: [u8; 64],
}

fn ioctl(fd: RawFd, request: c_ulong, argument: u64) -> io::Result<c_int> {
    // SAFETY: none of the requests that come here reads memory by this argument.
    let result = unsafe { libc::syscall(libc::SYS_ioctl, fd, request, argument) };
    match c_int::try_from(result) {
        Ok(result) if result >= 0 => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether this is a VM (or KVM itself) that has `KVM_CAP_HALT_POLL`.
pub(crate) fn has_ceiling(fd: RawFd) -> bool {
    ioctl(fd, KVM_CHECK_EXTENSION, KVM_CAP_HALT_POLL.into()).is_ok_and(|has| has > 0)
}

pub(crate) fn set_ceiling(fd: RawFd, ns: u32) -> io::Result<()> {
    let cap = EnableCap {
        cap: KVM_CAP_HALT_POLL,
        flags: 0,
        args: [ns.into(), 0, 0, 0],
        pad: [0; 64],
    };
    // SAFETY: KVM reads a `struct kvm_enable_cap` there, and `cap` is one that lives until it returns. A file
    // that is none of KVM's does not know the request (0xae is KVM's).
    let result = unsafe { libc::syscall(libc::SYS_ioctl, fd, KVM_ENABLE_CAP, &raw const cap) };
    if result == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}
