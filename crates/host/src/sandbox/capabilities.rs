//! Capabilities of a thread: kept or dropped for good. They are each thread's own, so that all must be dropped
//! before a second one is started.

use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets};

fn is_known(capability: CapabilitySet) -> bool {
    rustix::thread::capability_is_in_bounding_set(capability).is_ok()
}

/// One capability, and what stood for it on kernels before it.
fn or_before(capability: CapabilitySet) -> CapabilitySet {
    if is_known(capability) {
        capability
    } else {
        CapabilitySet::SYS_ADMIN
    }
}

/// Capability to open `/proc/PID/map_files` (`CAP_SYS_ADMIN` before Linux 5.9).
pub(super) fn to_open_mapped_files() -> CapabilitySet {
    or_before(CapabilitySet::CHECKPOINT_RESTORE)
}

/// Capabilities to read the data of programs and events, and to open the events of a CPU that comes online
/// (`CAP_SYS_ADMIN` before Linux 5.8).
pub(super) fn to_trace() -> CapabilitySet {
    or_before(CapabilitySet::BPF) | or_before(CapabilitySet::PERFMON) | CapabilitySet::IPC_LOCK
}

/// Capabilities to look into processes: whose VM it is, its vCPUs and its mappings.
pub(super) fn to_look() -> CapabilitySet {
    CapabilitySet::SYS_PTRACE | CapabilitySet::DAC_READ_SEARCH
}

/// Capabilities to write into a directory of another user, and to give files to that user.
pub(super) fn to_write_for_another() -> CapabilitySet {
    CapabilitySet::CHOWN | CapabilitySet::DAC_OVERRIDE
}

/// Drops all but these from this thread; gains none.
pub(super) fn keep(kept: CapabilitySet) -> io::Result<()> {
    let now = rustix::thread::capabilities(None)?;
    let permitted = now.permitted & kept;
    let sets = CapabilitySets {
        effective: permitted,
        permitted,
        // The ambient set shrinks with it.
        inheritable: now.inheritable & kept,
    };
    rustix::thread::set_capabilities(None, sets)?;
    Ok(())
}
