//! The KVM ioctls for which kvm-ioctls has no safe wrapper, and RDTSC.
//!
//! All `unsafe` of this crate is here, but for one line of `event`.

#![expect(unsafe_code, reason = "ioctls without wrappers, and RDTSC")]

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::Context as _;
use kvm_bindings::{
    KVM_MEM_LOG_DIRTY_PAGES, KVM_VCPU_TSC_CTRL, KVM_VCPU_TSC_OFFSET, KVMIO, kvm_device_attr,
    kvm_interrupt, kvm_reinject_control, kvm_userspace_memory_region,
};
use kvm_ioctls::{VcpuFd, VmFd};
use vmm_sys_util::ioctl::{_IOC_NONE, _IOC_WRITE, ioctl, ioctl_expr, ioctl_with_ref};

use crate::memory::{GuestMemory, MEMORY_BYTES};

const KVM_REINJECT_CONTROL: u32 = 0x71;
const KVM_INTERRUPT: u32 = 0x86;
const KVM_GET_STATS_FD: u32 = 0xce;
const KVM_GET_DEVICE_ATTR: u32 = 0xe2;

fn request(nr: u32) -> std::ffi::c_ulong {
    ioctl_expr(_IOC_NONE, KVMIO, nr, 0)
}

fn done(result: std::ffi::c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// A file from which the binary statistics of a VM or a vCPU are read.
pub fn stats_fd(of: &impl AsRawFd) -> io::Result<OwnedFd> {
    // SAFETY: KVM_GET_STATS_FD takes no argument; on a file of another kind it fails with ENOTTY.
    let fd = unsafe { ioctl(of, request(KVM_GET_STATS_FD)) };
    done(fd)?;
    // SAFETY: the kernel has just opened this descriptor for us, and no other code knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Lets PIT ticks that a halted or slow guest missed be lost, as real hardware does.
pub fn disable_pit_reinjection(vm: &VmFd) -> io::Result<()> {
    let control = kvm_reinject_control {
        pit_reinject: 0,
        reserved: [0; 31],
    };
    // SAFETY: the kernel reads one kvm_reinject_control, which outlives the call.
    done(unsafe { ioctl_with_ref(vm, request(KVM_REINJECT_CONTROL), &control) })
}

/// Queues an interrupt for a vCPU that has no local APIC in the kernel and takes interrupts.
pub fn interrupt(vcpu: &VcpuFd, vector: u8) -> io::Result<()> {
    let interrupt = kvm_interrupt { irq: vector.into() };
    let size = u32::try_from(size_of::<kvm_interrupt>()).unwrap_or(0);
    let request = ioctl_expr(_IOC_WRITE, KVMIO, KVM_INTERRUPT, size);
    // SAFETY: the kernel reads one kvm_interrupt, which outlives the call.
    done(unsafe { ioctl_with_ref(vcpu, request, &interrupt) })
}

/// Ticks by which a vCPU's TSC is ahead of the host's; fails before 5.16.
pub fn tsc_offset(vcpu: &VcpuFd) -> io::Result<u64> {
    let mut offset = 0_u64;
    let attribute = kvm_device_attr {
        group: KVM_VCPU_TSC_CTRL,
        attr: KVM_VCPU_TSC_OFFSET.into(),
        addr: (&raw mut offset).expose_provenance() as u64,
        flags: 0,
    };
    let size = u32::try_from(size_of::<kvm_device_attr>()).unwrap_or(0);
    let request = ioctl_expr(_IOC_WRITE, KVMIO, KVM_GET_DEVICE_ATTR, size);
    // SAFETY: the kernel reads one kvm_device_attr and writes eight bytes to the u64 that it points
    // to; both outlive the call.
    done(unsafe { ioctl_with_ref(vcpu, request, &attribute) })?;
    Ok(offset)
}

pub fn host_tsc() -> u64 {
    // SAFETY: every x86-64 CPU has RDTSC, and Linux does not forbid it to user space.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Gives a guest's memory to KVM as slot 0 at guest-physical address 0.
///
/// The VM takes a clone of `memory` along (see `vm::Vm`), so that the mapping lives as long as KVM uses it.
pub fn set_memory(vm: &VmFd, memory: &GuestMemory) -> anyhow::Result<()> {
    set_slot(vm, memory, 0, 0..WHOLE, 0)
}

/// Cuts a window out of slot 0 of a VM that does not run: what lies below it stays slot 0, and nothing is
/// behind what lies above. The window itself is slot `logged`, with its writes logged, or nothing.
pub fn cut_window(
    vm: &VmFd,
    memory: &GuestMemory,
    window: &Range<u32>,
    logged: Option<u32>,
) -> anyhow::Result<()> {
    // A slot can be moved and deleted, but not made smaller.
    set_slot(vm, memory, 0, 0..0, 0)?;
    set_slot(vm, memory, 0, 0..window.start, 0)?;
    logged.map_or(Ok(()), |slot| {
        set_slot(vm, memory, slot, window.clone(), KVM_MEM_LOG_DIRTY_PAGES)
    })
}

const WHOLE: u32 = {
    assert!(MEMORY_BYTES <= 1 << 30, "addresses are of 32 bits");
    #[allow(clippy::cast_possible_truncation, reason = "asserted above")]
    let bytes = MEMORY_BYTES as u32;
    bytes
};

fn set_slot(
    vm: &VmFd,
    memory: &GuestMemory,
    slot: u32,
    part: Range<u32>,
    flags: u32,
) -> anyhow::Result<()> {
    assert!(part.end <= WHOLE, "a part of the memory");
    let region = kvm_userspace_memory_region {
        slot,
        flags,
        guest_phys_addr: part.start.into(),
        memory_size: part.len() as u64,
        userspace_addr: memory.host_address()? + u64::from(part.start),
    };
    // SAFETY: the region is part of one mapping of MEMORY_BYTES, kept alive by the VM object that owns both.
    unsafe { vm.set_user_memory_region(region) }.context("set a memory slot")
}
