//! Threads, vCPUs and VMs as far as a text names them: which thread runs a vCPU of which VM.
//!
//! A thread that halts is a vCPU's. What a text says of it comes piece by piece: its process may be told
//! late, its vCPU's number with the first call of grow or shrink. So rows name the thread alone until
//! the text is at its end, by its place among all, and get their VM and vCPU on the way into the
//! capture: [`Places::settle`], by [`group`].

use std::collections::{BTreeMap, BTreeSet};

use haltwise_core::decode::group::{self, Group, Known};
use haltwise_core::decode::waker::{self, Kin, Waker};
use haltwise_core::event::{Observable, Vcpu, Vm, WakeSource};
use haltwise_core::ids::{Pid, Tid, VcpuId, VmIndex, VmKey, VmmKind};
use haltwise_core::recording::Roster;

use super::line::{Comm, Head, Process};
use crate::convert::Place;

/// Threads that halt in one recording, at most. A host runs some ten thousand vCPUs.
const THREADS: usize = 1 << 16;

#[derive(Debug, Default)]
pub(super) struct Places {
    now: BTreeMap<Tid, usize>,
    threads: Vec<Thread>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Doubt {
    /// Threads were taken for those of one VM by their names and numbers, for want of their process.
    Neighbours,
    /// A VM stands for a single thread, for want of its process.
    LoneThread,
    /// The process of a thread was never told.
    UnknownProcess,
    /// Two threads of a process run a vCPU of the same number.
    SharedProcess,
    /// The number of a vCPU was taken from its thread's name or the order of threads.
    Numbered,
}

#[derive(Debug, Default)]
struct Thread {
    tid: Tid,
    comm: Comm,
    process: Option<Pid>,
    has_process: bool,
    vcpu: Option<VcpuId>,
    moves: bool,
}

/// Status of a thread that halts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Halting {
    Known,
    /// It is another process's now: what was known of its number is void.
    Reused,
    Refused,
}

#[derive(Debug)]
pub(super) struct Settled {
    pub(super) roster: Roster,
    pub(super) places: Vec<Place>,
    pub(super) doubts: BTreeSet<Doubt>,
}

impl Places {
    /// Takes a thread that halts or runs a guest.
    pub(super) fn vcpu(&mut self, tid: Tid, process: Process, comm: Comm) -> Halting {
        let mut halting = Halting::Known;
        if let (Process::Is(pid), Some(&at)) = (process, self.now.get(&tid))
            && self.threads[at].process.is_some_and(|before| before != pid)
        {
            halting = Halting::Reused;
            self.now.remove(&tid);
        }
        let Some(thread) = self.vcpu_thread(tid) else {
            return Halting::Refused;
        };
        if thread.comm.is_empty() {
            thread.comm = comm;
        }
        thread.has_process |= process != Process::NotPrinted;
        if let Process::Is(pid) = process {
            thread.process = Some(pid);
        }
        halting
    }

    fn vcpu_thread(&mut self, tid: Tid) -> Option<&mut Thread> {
        let at = match self.now.get(&tid) {
            Some(at) => *at,
            None if self.threads.len() >= THREADS => return None,
            None => {
                self.threads.push(Thread {
                    tid,
                    ..Thread::default()
                });
                let at = self.threads.len() - 1;
                self.now.insert(tid, at);
                at
            }
        };
        self.threads.get_mut(at)
    }

    /// A thread runs a vCPU: this one, if that is known.
    pub(super) fn runs(&mut self, tid: Tid, vcpu: Option<VcpuId>) {
        if let Some(thread) = self.vcpu_thread(tid) {
            thread.moves |= thread.vcpu.zip(vcpu).is_some_and(|(was, is)| was != is);
            thread.vcpu = vcpu.or(thread.vcpu);
        }
    }

    /// Whether a thread was seen to run a vCPU.
    pub(super) fn knows(&self, tid: Tid) -> bool {
        self.now.contains_key(&tid)
    }

    pub(super) fn count(&self) -> usize {
        self.threads.len()
    }

    /// The place of a thread among all, which stands for its VM until the end, and its vCPU if that
    /// was reported.
    pub(super) fn of(&self, tid: Tid) -> (Option<VmIndex>, Option<VcpuId>) {
        let Some(&at) = self.now.get(&tid) else {
            return (None, None);
        };
        let place = u32::try_from(at).ok().map(VmIndex);
        (place, self.threads[at].vcpu)
    }

    /// Source of a thread's wake-up, judged from the head of the waker's event.
    ///
    /// Where the tool does not print in which context that ran, an interrupt looks like the thread that
    /// it interrupted. Then only those are believed who have to do with VMs: threads of the VMM, by
    /// process or by name, and the kernel's own that inject interrupts.
    pub(super) fn source(&self, woken: Tid, head: &Head) -> WakeSource {
        let (Some(&woken), Some(waker)) = (self.now.get(&woken), head.tid) else {
            return WakeSource::Unknown;
        };
        let woken = &self.threads[woken];
        let comm = head.comm.text();
        let same_process = match (head.process, woken.process) {
            (Process::Is(pid), Some(process)) => Some(pid == process),
            _ => None,
        };
        let is_vcpu = self.now.contains_key(&waker) || group::name_of(&comm).1.is_some();
        let related = same_process.unwrap_or_else(|| is_related(&comm, &woken.comm.text()));
        let believed = related || is_vcpu || is_kernels(&comm) || is_vmms(&comm);
        let Some(flags) = head.flags.or(believed.then_some(0)) else {
            return WakeSource::Unknown;
        };
        let kin = Kin {
            // vCPUs of different VMs do not wake each other but through a device that they share.
            vcpu_of_same_vm: is_vcpu && same_process != Some(false),
            same_vmm: same_process == Some(true),
            comm: &comm,
            // Text does not tell which devices of a VM are passed through.
            hard_interrupts_are_timers: false,
        };
        waker::source(Waker { tid: waker, flags }, kin)
    }

    pub(super) fn settle(&self) -> Settled {
        let mut doubts = BTreeSet::new();
        let mut known = Vec::new();
        let mut of_known = Vec::new();
        for (at, thread) in self.threads.iter().enumerate() {
            if thread.has_process && thread.process.is_none() {
                doubts.insert(Doubt::UnknownProcess);
                continue;
            }
            of_known.push(at);
            known.push(Known {
                tid: thread.tid,
                process: thread.process,
                name: group::name_of(&thread.comm.text()),
                told: thread.vcpu,
                moves: thread.moves,
            });
        }
        let mut places = vec![Place::default(); self.threads.len()];
        let mut roster = Roster::default();
        for (index, group) in (0..).map(VmIndex).zip(group::groups(&known)) {
            let shared = group.split.then_some(Doubt::SharedProcess);
            let numbered = group.numbered.then_some(Doubt::Numbered);
            let first = group.threads.first().map(|&at| &known[at]);
            let nameless = first.is_some_and(|thread| thread.process.is_none());
            let alone = nameless.then_some(match group.threads.len() {
                1 => Doubt::LoneThread,
                _ => Doubt::Neighbours,
            });
            doubts.extend([shared, numbered, alone].into_iter().flatten());
            roster.vms.push(self.vm(index, &group, &of_known));
            for (&at, vcpu) in group.threads.iter().zip(&group.vcpus) {
                let at = of_known[at];
                let vm = Some(index);
                places[at] = Place { vm, vcpu: *vcpu };
                roster
                    .vcpus
                    .extend(vcpu_row(index, &self.threads[at], *vcpu));
            }
        }
        roster
            .vcpus
            .sort_by_key(|vcpu| (vcpu.vm, vcpu.id, vcpu.tid));
        // A vCPU that changed threads is one.
        roster.vcpus.dedup_by_key(|vcpu| (vcpu.vm, vcpu.id));
        Settled {
            roster,
            places,
            doubts,
        }
    }

    fn vm(&self, index: VmIndex, group: &Group, of_known: &[usize]) -> Vm {
        let mut threads = group.threads.iter().map(|&at| &self.threads[of_known[at]]);
        let (comm, tid, process) = match threads.next() {
            Some(first) => (first.comm.text(), first.tid, first.process),
            None => (String::new(), Tid(0), None),
        };
        let kind = vmm_of(&comm);
        let several = group.threads.len() > 1;
        let mut name = match process {
            Some(pid) if kind != VmmKind::Other => format!("{kind}-{pid}"),
            Some(pid) => format!("process-{pid}"),
            None if several && kind != VmmKind::Other => format!("{kind}-{tid}"),
            None if several => format!("{}-{tid}", group::name_of(&comm).0),
            None if comm.is_empty() => format!("thread-{tid}"),
            None => format!("{comm}-{tid}"),
        };
        if group.split {
            name = format!("{name}-{}", group.ordinal);
        }
        Vm {
            index,
            key: VmKey {
                pid: process.unwrap_or(Pid(tid.0)),
                start_ticks: 0,
                ordinal: group.ordinal,
            },
            name,
            vmm: kind,
            observable: Observable::Yes,
            ..Vm::default()
        }
    }
}

fn vcpu_row(vm: VmIndex, thread: &Thread, vcpu: Option<VcpuId>) -> Option<Vcpu> {
    Some(Vcpu {
        vm,
        id: vcpu.or(thread.vcpu)?,
        tid: thread.tid,
        ..Vcpu::default()
    })
}

/// Whether two threads have names as those of one VMM have: the same, or with the same beginning
/// (`vm0-vcpu0`, `vm0-host0`).
fn is_related(one: &str, other: &str) -> bool {
    let beginning = |name: &str| name.split(['-', '/']).next().unwrap_or("").to_owned();
    !one.is_empty() && !other.is_empty() && beginning(one) == beginning(other)
}

/// Threads of the kernel that inject interrupts, whose names no VMM's thread has.
fn is_kernels(comm: &str) -> bool {
    ["kvm-pit/", "vhost-", "kworker/", "irq/"]
        .iter()
        .any(|name| comm.starts_with(name))
}

fn is_vmms(comm: &str) -> bool {
    vmm_of(comm) != VmmKind::Other || comm.starts_with("IO ") || comm.starts_with("iothread")
}

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
