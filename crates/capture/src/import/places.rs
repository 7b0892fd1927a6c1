//! Who is who, as far as text says: which thread runs a vCPU of which VM.
//!
//! A thread that halts is a vCPU's. Threads of one process are one VM. Where the text does not name
//! processes, each thread stands for a VM of its own: nothing tells which belong together, and a guess
//! would mix what should be told apart.

use std::collections::BTreeMap;

use haltwise_core::decode::waker::{self, Kin, Waker};
use haltwise_core::event::{CeilingSource, Observable, Vcpu, Vm, WakeSource};
use haltwise_core::ids::{Pid, Tid, VcpuId, VmIndex, VmKey, VmmKind};
use haltwise_core::recording::Roster;

use super::line::{Comm, Head, Process};

/// Threads that halt in one recording, at most. A host runs some ten thousand vCPUs.
const THREADS: usize = 1 << 16;

/// The vCPU threads known.
#[derive(Debug, Default)]
pub(super) struct Places {
    threads: BTreeMap<Tid, Thread>,
    vms: BTreeMap<VmId, VmIndex>,
    roster: Vec<Vm>,
    /// Whether the text names processes, each thread, or anything twice.
    seen: Seen,
}

/// What was seen of the text as a whole.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    /// A VM stands for a single thread, for want of its process.
    pub(super) lone_threads: bool,
    /// A process was to be told later, or never.
    pub(super) unknown_process: bool,
    /// Two threads of a process run a vCPU of the same number.
    pub(super) shared_process: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum VmId {
    Process(Pid),
    Thread(Tid),
}

#[derive(Debug, Default)]
struct Thread {
    comm: Comm,
    process: Option<Pid>,
    vm: Option<VmIndex>,
    vcpu: Option<VcpuId>,
}

/// What became of a thread that halts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Halting {
    /// It is the one it was.
    Known,
    /// It is another process's now: what was known of its number is void.
    Reused,
    /// There are too many threads.
    Refused,
}

impl Places {
    /// A thread halts.
    pub(super) fn halts(&mut self, tid: Tid, process: Process, comm: Comm) -> Halting {
        let Some(thread) = self.vcpu_thread(tid) else {
            return Halting::Refused;
        };
        if thread.comm.is_empty() {
            thread.comm = comm;
        }
        let mut halting = Halting::Known;
        let id = match process {
            Process::Is(pid) => {
                if thread.process.is_some_and(|before| before != pid) {
                    halting = Halting::Reused;
                    *thread = Thread::default();
                    thread.comm = comm;
                }
                thread.process = Some(pid);
                VmId::Process(pid)
            }
            // It may be told later; what was told before still holds.
            Process::NotKnown => {
                self.seen.unknown_process |= thread.process.is_none();
                return halting;
            }
            Process::NotPrinted if thread.process.is_some() => return halting,
            Process::NotPrinted => VmId::Thread(tid),
        };
        if thread.vm.is_none() {
            let comm = thread.comm;
            let vm = self.vm(id, comm);
            if let Some(thread) = self.threads.get_mut(&tid) {
                thread.vm = Some(vm);
            }
        }
        halting
    }

    fn vm(&mut self, id: VmId, comm: Comm) -> VmIndex {
        if let Some(index) = self.vms.get(&id) {
            return *index;
        }
        let index = VmIndex(u32::try_from(self.roster.len()).unwrap_or(u32::MAX));
        let comm = comm.text();
        let kind = vmm_of(&comm);
        let (pid, name) = match id {
            VmId::Process(pid) if kind != VmmKind::Other => (pid, format!("{kind}-{pid}")),
            VmId::Process(pid) => (pid, format!("process-{pid}")),
            VmId::Thread(tid) => {
                self.seen.lone_threads = true;
                let comm = if comm.is_empty() { "thread" } else { &comm };
                (Pid(tid.0), format!("{comm}-{tid}"))
            }
        };
        self.vms.insert(id, index);
        self.roster.push(Vm {
            index,
            key: VmKey {
                pid,
                start_ticks: 0,
                ordinal: 0,
            },
            name,
            vmm: kind,
            observable: Observable::Yes,
        });
        index
    }

    fn vcpu_thread(&mut self, tid: Tid) -> Option<&mut Thread> {
        if !self.threads.contains_key(&tid) && self.threads.len() >= THREADS {
            return None;
        }
        Some(self.threads.entry(tid).or_default())
    }

    /// A thread runs a vCPU: this one, if that is known.
    pub(super) fn runs(&mut self, tid: Tid, vcpu: Option<VcpuId>) {
        if let Some(thread) = self.vcpu_thread(tid) {
            thread.vcpu = vcpu.or(thread.vcpu);
        }
    }

    /// Whether a thread was seen to run a vCPU.
    pub(super) fn knows(&self, tid: Tid) -> bool {
        self.threads.contains_key(&tid)
    }

    /// The VM and vCPU of a thread.
    pub(super) fn of(&self, tid: Tid) -> (Option<VmIndex>, Option<VcpuId>) {
        let thread = self.threads.get(&tid);
        thread.map_or((None, None), |thread| (thread.vm, thread.vcpu))
    }

    /// What woke a thread, told by the head of the waker's event. Where the tool does not print in
    /// which context that ran, it may have been interrupted, and nothing can be told.
    pub(super) fn source(&self, woken: Tid, head: &Head) -> WakeSource {
        let (Some(woken), Some(flags), Some(waker)) =
            (self.threads.get(&woken), head.flags, head.tid)
        else {
            return WakeSource::Unknown;
        };
        let comm = head.comm;
        let process = match head.process {
            Process::Is(pid) => Some(pid),
            Process::NotKnown | Process::NotPrinted => None,
        };
        let same_vmm = process.is_some() && process == woken.process;
        let is_vcpu = self.threads.contains_key(&waker);
        if !same_vmm && (process.is_none() || woken.process.is_none()) && !is_kernels(comm) {
            // It may be a thread of the same VMM, or of another.
            return by_context(waker, flags);
        }
        let kin = Kin {
            vcpu_of_same_vm: same_vmm && is_vcpu,
            same_vmm,
            comm: &comm.text(),
            // Text does not tell which devices of a VM are passed through.
            hard_interrupts_are_timers: false,
        };
        waker::source(Waker { tid: waker, flags }, kin)
    }

    /// Everyone seen.
    pub(super) fn roster(&mut self) -> Roster {
        let mut vcpus: Vec<Vcpu> = self
            .threads
            .iter()
            .filter_map(|(tid, thread)| {
                Some(Vcpu {
                    vm: thread.vm?,
                    id: thread.vcpu?,
                    tid: *tid,
                    window_ns: None,
                    ceiling_ns: None,
                    ceiling_source: CeilingSource::Unknown,
                    guest_veto: None,
                })
            })
            .collect();
        vcpus.sort_by_key(|vcpu| (vcpu.vm, vcpu.id, vcpu.tid));
        let twice = |pair: &[Vcpu]| pair[0].vm == pair[1].vm && pair[0].id == pair[1].id;
        self.seen.shared_process |= vcpus.windows(2).any(twice);
        Roster {
            vms: self.roster.clone(),
            vcpus,
        }
    }

    /// The VMs seen so far.
    pub(super) fn vms(&self) -> &[Vm] {
        &self.roster
    }

    /// What was seen of the text as a whole, complete after [`Places::roster`].
    pub(super) fn seen(&self) -> Seen {
        self.seen
    }
}

/// What the interrupted context alone tells.
fn by_context(waker: Tid, flags: u8) -> WakeSource {
    let kin = Kin {
        vcpu_of_same_vm: false,
        same_vmm: false,
        comm: "",
        hard_interrupts_are_timers: false,
    };
    waker::source(Waker { tid: waker, flags }, kin)
}

/// Threads of the kernel that inject interrupts, whose names no VMM's thread has.
fn is_kernels(comm: Comm) -> bool {
    let comm = comm.text();
    ["kvm-pit/", "vhost-", "kworker/", "irq/"]
        .iter()
        .any(|name| comm.starts_with(name))
}

/// Which VMM names its vCPU threads so.
fn vmm_of(comm: &str) -> VmmKind {
    let known = [
        ("CPU ", VmmKind::Qemu),
        ("qemu-system-", VmmKind::Qemu),
        ("fc_vcpu", VmmKind::Firecracker),
        ("firecracker", VmmKind::Firecracker),
        ("crosvm_vcpu", VmmKind::Crosvm),
        ("cloud-hyperviso", VmmKind::CloudHypervisor),
    ];
    let known = known.iter().find(|(name, _)| comm.starts_with(name));
    known.map_or(VmmKind::Other, |(_, kind)| *kind)
}
