//! Who is who: which thread runs a vCPU of which VM, as far as `/proc` and the events say.
//!
//! A thread that halts is a vCPU's, whatever its name; its process is looked up once. VMs that do not
//! halt are found by looking at all processes now and then.

use std::collections::{BTreeMap, BTreeSet};

use haltwise_core::decode::waker::{self, Kin, Waker};
use haltwise_core::event::{Halt, WakeSource};
use haltwise_core::ids::{Pid, Tid, VcpuId, VmIndex, VmKey, VmmKind};
use haltwise_core::recording::{Missing, Roster};

use crate::discovery::{self, RosterBuilder, VmLabel, VmProcess};
use crate::root::{Root, RootError};

/// The vCPU threads and VMM processes known.
#[derive(Debug)]
pub(super) struct Places {
    root: Root,
    /// The processes asked for; all if empty.
    wanted: BTreeSet<Pid>,
    roster: RosterBuilder,
    threads: BTreeMap<Tid, Thread>,
    processes: BTreeMap<Pid, Process>,
    /// Names of other processes that woke a vCPU, until the next look at all processes.
    comms: BTreeMap<Pid, String>,
    reused: Vec<Tid>,
    denied: usize,
    virtual_ipis: bool,
    changed: bool,
}

/// A thread that runs a vCPU.
#[derive(Debug, Clone, Copy)]
struct Thread {
    pid: Pid,
    vcpu: Option<VcpuId>,
    window: Option<u32>,
    ceiling: Option<u32>,
}

/// A process that runs VMs.
#[derive(Debug, Clone, Copy)]
struct Process {
    key: VmKey,
    vm: VmIndex,
    vfio: bool,
    several: bool,
}

impl Places {
    pub(super) fn new(root: Root, wanted: &[Pid]) -> Self {
        // With IPI virtualisation a vCPU wakes another one through a hard interrupt of the host.
        let virtual_ipis = root
            .value("sys/module/kvm_intel/parameters/enable_ipiv")
            .is_ok_and(|value| value == "Y");
        Self {
            root,
            wanted: wanted.iter().copied().collect(),
            roster: RosterBuilder::default(),
            threads: BTreeMap::new(),
            processes: BTreeMap::new(),
            comms: BTreeMap::new(),
            reused: Vec::new(),
            denied: 0,
            virtual_ipis,
            changed: true,
        }
    }

    /// Looks at all processes: learns new VMs and forgets those that ended. Gives the threads that
    /// are gone.
    pub(super) fn scan(&mut self) -> Result<Vec<Tid>, RootError> {
        let scan = discovery::scan(&self.root)?;
        self.denied = scan.denied;
        self.comms.clear();
        let alive: BTreeMap<Pid, VmKey> = scan.vms.iter().map(|vm| (vm.pid(), vm.key)).collect();
        self.processes
            .retain(|pid, process| alive.get(pid) == Some(&process.key));
        for vm in &scan.vms {
            if self.is_wanted(vm.pid()) {
                self.learn(vm);
            }
        }
        let mut gone = Vec::new();
        for (&tid, thread) in &self.threads {
            let task = format!("proc/{}/task/{tid}", thread.pid);
            if !self.processes.contains_key(&thread.pid) || !self.root.exists(task) {
                gone.push(tid);
            }
        }
        for tid in &gone {
            self.threads.remove(tid);
            self.changed = true;
        }
        Ok(gone)
    }

    /// A thread halts: learns it and its process if they are new. Whether they are wanted.
    pub(super) fn halts(&mut self, tid: Tid, pid: Pid) -> bool {
        match self.threads.get(&tid) {
            Some(thread) if thread.pid == pid => return true,
            // The number serves again, in another process.
            Some(_) => {
                self.threads.remove(&tid);
                self.reused.push(tid);
            }
            None => {}
        }
        if !self.is_wanted(pid) {
            return false;
        }
        self.look_up(pid);
        if !self.threads.contains_key(&tid) {
            self.add_thread(tid, pid, None);
        }
        true
    }

    /// Threads whose numbers now serve in other processes: what they did before is void.
    pub(super) fn take_reused(&mut self) -> Vec<Tid> {
        std::mem::take(&mut self.reused)
    }

    /// An event named the vCPU that a thread runs.
    pub(super) fn runs(&mut self, tid: Tid, vcpu: VcpuId) {
        if let Some(thread) = self.threads.get_mut(&tid)
            && thread.vcpu != Some(vcpu)
        {
            thread.vcpu = Some(vcpu);
            if let Some(process) = self.processes.get(&thread.pid) {
                self.roster.vcpu(process.vm, vcpu, tid);
            }
        }
    }

    /// Writes into a halt where it belongs, and keeps its window for the roster.
    pub(super) fn place(&mut self, halt: &mut Halt) {
        let Some(thread) = self.threads.get_mut(&halt.tid) else {
            return;
        };
        halt.vm = self.processes.get(&thread.pid).map(|p| p.vm);
        halt.vcpu = halt.vcpu.or(thread.vcpu);
        thread.window = halt.window_next_ns.or(thread.window);
        thread.ceiling = halt.ceiling_ns.or(thread.ceiling);
    }

    /// Where a thread belongs.
    pub(super) fn vm_of(&self, tid: Tid) -> Option<VmIndex> {
        let thread = self.threads.get(&tid)?;
        self.processes.get(&thread.pid).map(|process| process.vm)
    }

    /// By what a vCPU thread was woken; `None` if that thread runs no vCPU.
    pub(super) fn source(&mut self, woken: Tid, waker: Waker, pid: Pid) -> Option<WakeSource> {
        let thread = *self.threads.get(&woken)?;
        let vfio = self.processes.get(&thread.pid).is_some_and(|p| p.vfio);
        let same_vmm = pid == thread.pid;
        if !same_vmm && !self.comms.contains_key(&pid) {
            let comm = discovery::comm_of(&self.root, Tid(pid.0)).unwrap_or_default();
            self.comms.insert(pid, comm);
        }
        let kin = Kin {
            vcpu_of_same_vm: same_vmm
                && waker.tid != woken
                && self.threads.contains_key(&waker.tid),
            same_vmm,
            comm: self.comms.get(&pid).map_or("", String::as_str),
            hard_interrupts_are_timers: !vfio && !self.virtual_ipis,
        };
        Some(waker::source(waker, kin))
    }

    /// The vCPU threads, if they are others than at the last call.
    pub(super) fn take_changed(&mut self) -> Option<Vec<Tid>> {
        std::mem::take(&mut self.changed).then(|| self.threads.keys().copied().collect())
    }

    /// Writes the windows last seen into the roster.
    pub(super) fn refresh_roster(&mut self) {
        for (&tid, thread) in &self.threads {
            if let (Some(vcpu), Some(process)) = (thread.vcpu, self.processes.get(&thread.pid)) {
                let row = self.roster.vcpu(process.vm, vcpu, tid);
                row.window_ns = thread.window.or(row.window_ns);
                row.ceiling_ns = thread.ceiling.or(row.ceiling_ns);
            }
        }
    }

    pub(super) fn roster(&self) -> &Roster {
        self.roster.roster()
    }

    /// What cannot be told of these processes.
    pub(super) fn missing(&self) -> Vec<Missing> {
        let mut missing = Vec::new();
        for (pid, process) in &self.processes {
            if process.several {
                missing.push(Missing {
                    field: "vm".to_owned(),
                    reason: format!(
                        "process {pid} runs several VMs, which this rung cannot tell apart: \
                         all their vCPUs are counted to the first"
                    ),
                });
            }
        }
        if self.denied > 0 {
            missing.push(Missing {
                field: "vm".to_owned(),
                reason: format!(
                    "processes closed to us: {}; a VM in one of them is seen only when it halts",
                    self.denied
                ),
            });
        }
        missing
    }

    fn is_wanted(&self, pid: Pid) -> bool {
        self.wanted.is_empty() || self.wanted.contains(&pid)
    }

    fn look_up(&mut self, pid: Pid) {
        if let Some(vm) = discovery::identify(&self.root, pid) {
            self.learn(&vm);
            return;
        }
        if self.processes.contains_key(&pid) {
            return;
        }
        // It ended, or is closed to us. Its number and perhaps its start are all that is known.
        let key = discovery::key_of(&self.root, pid).unwrap_or(VmKey {
            pid,
            start_ticks: 0,
            ordinal: 0,
        });
        let vm = self.roster.vm(key, || VmLabel {
            name: format!("process-{pid}"),
            vmm: VmmKind::Other,
        });
        let process = Process {
            key,
            vm,
            vfio: false,
            several: false,
        };
        self.processes.insert(pid, process);
    }

    fn learn(&mut self, found: &VmProcess) {
        let pid = found.pid();
        let process = Process {
            key: found.key,
            vm: self.roster.vm(found.key, || found.label()),
            vfio: found.vfio,
            several: found.has_several(),
        };
        self.processes.insert(pid, process);
        for thread in &found.threads {
            if !self.threads.contains_key(&thread.tid) {
                self.add_thread(thread.tid, pid, Some(thread.id));
            }
        }
    }

    fn add_thread(&mut self, tid: Tid, pid: Pid, vcpu: Option<VcpuId>) {
        let thread = Thread {
            pid,
            vcpu: None,
            window: None,
            ceiling: None,
        };
        self.threads.insert(tid, thread);
        self.changed = true;
        if let Some(vcpu) = vcpu {
            self.runs(tid, vcpu);
        }
    }
}

#[cfg(test)]
mod test;
