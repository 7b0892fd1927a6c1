//! Lets the halt polling ceiling of a KVM VM be set from outside its VMM.
//!
//! `KVM_CAP_HALT_POLL` belongs to the process that created the VM: every ioctl of another process on its fd
//! fails with `EIO`. So the VMM keeps one end of a socket, and a thread of it answers there. The other end
//! has no name on disk and no port: a process that may `ptrace` the VMM (root) takes a duplicate of it by
//! `pidfd_getfd`, and no other process can.
//!
//! A VMM calls [`announce`] once for each VM that it creates. An unmodified VMM is given
//! `libhaltwise_preload.so`, which does so for it. `haltwise apply --vm NAME --ceiling TIME` is the other side;
//! [`protocol`] describes what is exchanged.
//!
//! The thread makes no allocation, opens no file and prints nothing. It blocks all signals. Where a VM has
//! no `KVM_CAP_HALT_POLL` (before Linux 5.8), or the socket cannot be made, nothing is there and nothing fails.

pub mod protocol;
mod serve;
mod table;
mod thread;
mod vm;

use std::os::fd::AsRawFd;

pub use vm::{EnableCap, KVM_CAP_HALT_POLL, KVM_ENABLE_CAP};

/// A ceiling for each VM that is announced, in nanoseconds, until another is set: it holds from the first halt.
pub const ENVIRONMENT: &str = "HALTWISE_HALT_POLL_NS";

/// Announces a VM that was just created: a `VmFd` of kvm-ioctls, or a raw fd. It is forgotten when its fd is
/// closed, or used for another file. One that is no VM of this process is not announced.
///
/// Gives whether the VM's ceiling can be set from outside from now on: not of the VMs of a process beyond
/// [`protocol::MAX_VMS`].
pub fn announce(vm: &impl AsRawFd) -> bool {
    let vm = vm.as_raw_fd();
    if !vm::has_ceiling(vm) {
        return false;
    }
    serve::start();
    table::VMS.announce(vm, first_ceiling()) && serve::is_served()
}

/// Sets the ceiling of a VM of this process, in nanoseconds. Undo of a controller's later change restores it.
///
/// Fails with `EINVAL` where the kernel has no `KVM_CAP_HALT_POLL`.
pub fn set_ceiling(vm: &impl AsRawFd, ns: u32) -> std::io::Result<()> {
    vm::set_ceiling(vm.as_raw_fd(), ns)?;
    note_ceiling(vm, ns);
    Ok(())
}

/// Notes a ceiling that the VMM has set in another way, for the same purpose.
pub fn note_ceiling(vm: &impl AsRawFd, ns: u32) {
    table::VMS.note(vm.as_raw_fd(), ns);
}

fn first_ceiling() -> Option<u32> {
    std::env::var(ENVIRONMENT).ok()?.parse().ok()
}
