//! One sample: whose, when, what it hit, what it stands for.

use crate::exit::Isa;
use crate::ids::{Tid, VcpuId, VmIndex};

crate::names! {
    /// Sampled event. A name is perf's own, but for `dtlb-misses` (`dTLB-load-misses`).
    pub enum Event {
        /// Nanoseconds of a CPU (`PERF_COUNT_SW_CPU_CLOCK`). Its timer is an interrupt: code that runs
        /// with interrupts off is seen where they are let in again.
        CpuClock = "cpu-clock",
        /// CPU cycles, not counted while a CPU is halted.
        Cycles = "cycles",
        /// Instructions retired.
        Instructions = "instructions",
        /// Misses of the last level of cache.
        CacheMisses = "cache-misses",
        /// Loads whose translation the first TLB did not hold.
        DtlbMisses = "dtlb-misses",
        /// Page faults of the host's own (`PERF_COUNT_SW_PAGE_FAULTS`).
        PageFaults = "page-faults",
    }
}

impl Event {
    /// Unit that the event counts, in the plural.
    pub fn unit(self) -> &'static str {
        match self {
            Self::CpuClock => "ns",
            Self::Cycles => "cycles",
            Self::Instructions => "instructions",
            Self::CacheMisses | Self::DtlbMisses => "misses",
            Self::PageFaults => "faults",
        }
    }
}

crate::names! {
    /// CPU mode in which a sample was taken, as reported by perf (`PERF_RECORD_MISC_CPUMODE_MASK`).
    pub enum Hit {
        Unknown = "unknown",
        /// The host's kernel.
        Kernel = "kernel",
        /// User space: the VMM.
        User = "user",
        /// A hypervisor below this host.
        Hypervisor = "hypervisor",
        GuestKernel = "guest-kernel",
        /// The guest, in its user space.
        GuestUser = "guest-user",
    }
}

impl Hit {
    /// Whether the guest ran.
    pub fn is_guest(self) -> bool {
        matches!(self, Self::GuestKernel | Self::GuestUser)
    }
}

crate::names! {
    /// Where the thread of a vCPU was between guest and host, as its last `kvm_entry` or `kvm_exit`
    /// tells.
    pub enum Phase {
        /// Not told: exits were not counted, none was seen of this thread, or it runs no vCPU.
        Unknown = "unknown",
        /// The last was an entry: in the guest, or on the way in or out.
        Entered = "entered",
        /// The last was an exit, which is being handled: in the kernel or in the VMM.
        Exit = "exit",
    }
}

/// One sample of one thread of a VMM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// When, on the host's `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// The VM. A thread that runs no vCPU belongs to the first VM of its process.
    pub vm: Option<VmIndex>,
    /// The vCPU that the thread runs, where it was known to run one.
    pub vcpu: Option<VcpuId>,
    pub tid: Tid,
    pub cpu: u32,
    pub event: Event,
    /// Weight of the sample: ns of the CPU clock, or a number of events.
    pub weight: u64,
    pub hit: Hit,
    /// The row of its stack in the table of stacks; 0 where there is none: the guest's is not walked.
    pub stack: u64,
    /// Between guest and host.
    pub phase: Phase,
    /// Architecture of the exit's reason.
    pub isa: Isa,
    /// That reason, in [`Phase::Exit`].
    pub reason: Option<u32>,
}
