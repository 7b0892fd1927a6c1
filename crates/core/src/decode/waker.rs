//! Source of a wake-up, from the context in which the thread was woken.
//!
//! A tracepoint shows the waker, not the interrupt. A hard interrupt is taken for a timer's only where
//! nothing else raises guest interrupts from there (see [`Kin::hard_interrupts_are_timers`]); a thread
//! of the VMM may also have sent a signal, which cannot be told from a device's interrupt.

use crate::event::WakeSource;
use crate::ids::Tid;

/// `TRACE_FLAG_HARDIRQ`, `TRACE_FLAG_SOFTIRQ` and `TRACE_FLAG_NMI` of `include/linux/trace_events.h`.
pub const HARDIRQ: u8 = 0x08;
/// See [`HARDIRQ`].
pub const SOFTIRQ: u8 = 0x10;
/// See [`HARDIRQ`].
pub const NMI: u8 = 0x40;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waker {
    /// The thread that ran, or that was interrupted.
    pub tid: Tid,
    pub flags: u8,
}

/// Known relation of the waker to the woken vCPU.
#[derive(Debug, Clone, Copy)]
pub struct Kin<'a> {
    pub vcpu_of_same_vm: bool,
    pub same_vmm: bool,
    /// The name of its process, where it belongs to another; empty if that could not be read.
    pub comm: &'a str,
    /// Neither devices passed through (VFIO) nor virtualised IPIs raise interrupts of this VM.
    pub hard_interrupts_are_timers: bool,
}

/// Source of the wake-up that ended the halt.
pub fn source(waker: Waker, kin: Kin<'_>) -> WakeSource {
    if waker.flags & NMI != 0 {
        WakeSource::Other
    } else if waker.flags & HARDIRQ != 0 {
        if kin.hard_interrupts_are_timers {
            WakeSource::Timer
        } else {
            WakeSource::Unknown
        }
    } else if waker.flags & SOFTIRQ != 0 || waker.tid.0 == 0 {
        WakeSource::Unknown
    } else if kin.vcpu_of_same_vm {
        WakeSource::Ipi
    } else if kin.same_vmm {
        WakeSource::Device
    } else {
        by_name(kin.comm)
    }
}

/// Kernel threads that inject interrupts, and other processes: back-ends that write to an irqfd.
fn by_name(comm: &str) -> WakeSource {
    if comm.starts_with("kvm-pit/") {
        WakeSource::Timer
    } else if comm.is_empty() || comm.starts_with("ksoftirqd/") || comm.starts_with("migration/") {
        WakeSource::Unknown
    } else {
        // vhost-PID, kworker (deferred irqfd), irq/N-…, vhost-user back-ends.
        WakeSource::Device
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const STRANGER: Kin<'static> = Kin {
        vcpu_of_same_vm: false,
        same_vmm: false,
        comm: "",
        hard_interrupts_are_timers: true,
    };

    fn told(tid: u32, flags: u8, kin: Kin<'_>) -> WakeSource {
        let tid = Tid(tid);
        source(Waker { tid, flags }, kin)
    }

    #[test]
    fn interrupts_come_first_whoever_they_interrupted() {
        let mut kin = STRANGER;
        kin.vcpu_of_same_vm = true;
        assert_eq!(told(5, HARDIRQ, kin), WakeSource::Timer);
        assert_eq!(told(0, HARDIRQ | 0x25, STRANGER), WakeSource::Timer);
        assert_eq!(told(5, NMI | HARDIRQ, kin), WakeSource::Other);
        assert_eq!(told(5, SOFTIRQ, kin), WakeSource::Unknown);
        let mut vfio = STRANGER;
        vfio.hard_interrupts_are_timers = false;
        assert_eq!(told(5, HARDIRQ, vfio), WakeSource::Unknown);
    }

    #[test]
    fn threads_are_told_by_their_kin() {
        let [mut vcpu, mut vmm] = [STRANGER; 2];
        (vcpu.vcpu_of_same_vm, vcpu.same_vmm) = (true, true);
        vmm.same_vmm = true;
        assert_eq!(told(5, 0, vcpu), WakeSource::Ipi);
        assert_eq!(told(5, 1, vmm), WakeSource::Device);
        for (comm, expected) in [
            ("kvm-pit/123", WakeSource::Timer),
            ("vhost-123", WakeSource::Device),
            ("kworker/0:1-kvm", WakeSource::Device),
            ("ovs-vswitchd", WakeSource::Device),
            ("ksoftirqd/0", WakeSource::Unknown),
            ("", WakeSource::Unknown),
        ] {
            assert_eq!(told(5, 0, Kin { comm, ..STRANGER }), expected, "{comm}");
        }
        assert_eq!(told(0, 0, STRANGER), WakeSource::Unknown);
    }
}
