//! Samples, the stacks, frames and threads that they point to, and a book to look these up.

use std::collections::BTreeMap;

use crate::exit::Isa;
use crate::ids::{Pid, Tid, VcpuId, VmIndex};

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
    pub phase: Phase,
    /// Architecture of the exit's reason.
    pub isa: Isa,
    /// That reason, in [`Phase::Exit`].
    pub reason: Option<u32>,
}

crate::names! {
    /// Owner of a frame's code.
    pub enum Space {
        /// The host's kernel and its modules.
        Kernel = "kernel",
        /// User space: the VMM and its libraries.
        User = "user",
    }
}

/// A function, or an address that no symbol covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its number, from 1 on. Two may be equal in everything else.
    pub id: u64,
    pub space: Space,
    /// `kernel`, a kernel module's name, the path of a program or library, or `[vdso]` and the like;
    /// empty where nothing is known of the address.
    pub module: String,
    /// The function, without what a compiler appends to its name; demangled.
    pub symbol: Option<String>,
    /// Where there is no symbol: the address, in a file counted from its beginning.
    pub address: Option<u64>,
}

impl Frame {
    /// The last part of the module's path.
    pub fn module_name(&self) -> &str {
        let name = self.module.trim_end_matches(" (deleted)");
        name.rsplit('/').next().unwrap_or(name)
    }

    /// The function; without a symbol, module and address.
    pub fn name(&self) -> String {
        match (&self.symbol, self.address) {
            (Some(symbol), _) => symbol.clone(),
            (None, Some(address)) if self.module.is_empty() => format!("{address:#x}"),
            (None, Some(address)) => format!("{}+{address:#x}", self.module_name()),
            (None, None) if self.module.is_empty() => "[unknown]".to_owned(),
            (None, None) => format!("[{}]", self.module_name()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// Its number, from 1 on. Two may hold the same frames.
    pub id: u64,
    /// Numbers of its frames, the innermost first: the kernel's before those of user space.
    pub frames: Vec<u64>,
    /// Whether frames are missing at its outer end: an address that is no code, or the kernel's limit.
    pub cut: bool,
}

/// The name of a thread when it was first sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    pub vm: Option<VmIndex>,
    pub pid: Pid,
    pub tid: Tid,
    /// Its name (`/proc/PID/task/TID/comm`); `None` if it was gone.
    pub name: Option<String>,
}

/// Frames of a stack that are kept: the kernel walks 127 of its own and of user space unless its
/// `perf_event_max_stack` was raised.
const FRAMES_MOST: usize = 1024;

#[derive(Debug, Clone, Default)]
pub struct Book {
    frames: BTreeMap<u64, Frame>,
    stacks: BTreeMap<u64, Stack>,
    threads: BTreeMap<(Option<VmIndex>, Tid), Option<String>>,
}

impl Book {
    pub fn frame(&mut self, frame: Frame) {
        self.frames.insert(frame.id, frame);
    }

    /// Takes over a stack. Its frames must be there already; those that are not are left out.
    pub fn stack(&mut self, mut stack: Stack) {
        let named = stack.frames.len();
        stack.frames.retain(|id| self.frames.contains_key(id));
        let is_whole = stack.frames.len() == named;
        stack.cut |= !is_whole || stack.frames.len() > FRAMES_MOST;
        stack.frames.truncate(FRAMES_MOST);
        self.stacks.insert(stack.id, stack);
    }

    /// Takes over a thread's name; the first that is known stays.
    pub fn thread(&mut self, thread: Thread) {
        let name = self.threads.entry((thread.vm, thread.tid)).or_default();
        if name.is_none() {
            *name = thread.name;
        }
    }

    /// The frames of a stack, the innermost first.
    pub fn frames(&self, stack: u64) -> impl DoubleEndedIterator<Item = &Frame> {
        let frames = self.stacks.get(&stack).map(|stack| &stack.frames[..]);
        let frames = frames.unwrap_or_default().iter();
        frames.filter_map(|id| self.frames.get(id))
    }

    /// Whether frames are missing at the outer end of a stack; also if the stack itself is missing.
    pub fn is_cut(&self, stack: u64) -> bool {
        stack != 0 && self.stacks.get(&stack).is_none_or(|stack| stack.cut)
    }

    pub fn name(&self, vm: Option<VmIndex>, tid: Tid) -> Option<&str> {
        self.threads.get(&(vm, tid))?.as_deref()
    }
}
