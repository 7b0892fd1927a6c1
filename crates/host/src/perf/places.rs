//! VMs and vCPUs of threads, as far as `/proc` and the events show them.
//!
//! A thread that halts is a vCPU's, whatever its name; its process is looked up at its first halt. VMs that
//! do not halt are found by looking at all processes now and then. Of several VMs of one process, names and
//! order of threads tell which thread is whose, as they do of imported text ([`group`]).

use std::collections::{BTreeMap, BTreeSet};

use haltwise_core::decode::group::{self, Known};
use haltwise_core::decode::waker::{self, Kin, Waker};
use haltwise_core::event::{Halt, WakeSource};
use haltwise_core::ids::{Pid, Tid, VcpuId, VmIndex, VmKey};
use haltwise_core::recording::{Missing, Roster};

use crate::discovery::{self, Presence, VmLabel, VmProcess};
use crate::root::{Root, RootError};

#[derive(Debug)]
pub(super) struct Places {
    pub(super) vms: Presence,
    wanted: BTreeSet<Pid>,
    threads: BTreeMap<Tid, Thread>,
    processes: BTreeMap<Pid, VmProcess>,
    /// Names of other processes that woke a vCPU, until the next look at all processes.
    comms: BTreeMap<Pid, String>,
    reused: Vec<Tid>,
    denied: usize,
    virtual_ipis: bool,
    changed: bool,
    halted: BTreeSet<VmIndex>,
}

#[derive(Debug, Clone)]
struct Thread {
    pid: Pid,
    comm: String,
    vm: VmIndex,
    /// Its halts were placed: it stays with its VM.
    halted: bool,
    vcpu: Option<VcpuId>,
    window: Option<u32>,
    ceiling: Option<u32>,
}

/// One of the VMs of a process.
fn nth(process: &VmProcess, ordinal: u32) -> VmKey {
    VmKey {
        ordinal,
        ..process.key
    }
}

impl Places {
    pub(super) fn new(root: Root, wanted: &[Pid]) -> Self {
        // With IPI virtualisation a vCPU wakes another one through a hard interrupt of the host.
        let virtual_ipis = root
            .value("sys/module/kvm_intel/parameters/enable_ipiv")
            .is_ok_and(|value| value == "Y");
        Self {
            vms: Presence::new(root, discovery::Known::ByNames(BTreeMap::new())),
            wanted: wanted.iter().copied().collect(),
            threads: BTreeMap::new(),
            processes: BTreeMap::new(),
            comms: BTreeMap::new(),
            reused: Vec::new(),
            denied: 0,
            virtual_ipis,
            changed: true,
            halted: BTreeSet::new(),
        }
    }

    pub(super) fn forget_ended(&mut self, before_ns: u64) -> usize {
        let ended = self.vms.forget_ended(before_ns);
        if ended.is_empty() {
            return 0;
        }
        self.threads.retain(|_, thread| !ended.contains(&thread.vm));
        self.halted.retain(|vm| !ended.contains(vm));
        self.changed = true;
        ended.len()
    }

    /// Looks at all processes: learns new VMs and forgets those that ended. Gives the threads that are gone.
    pub(super) fn scan(&mut self) -> Result<Vec<Tid>, RootError> {
        let scan = discovery::scan(&self.vms.root)?;
        self.denied = scan.denied;
        self.comms.clear();
        let alive: BTreeMap<Pid, VmKey> = scan.vms.iter().map(|vm| (vm.pid(), vm.key)).collect();
        self.processes
            .retain(|pid, process| alive.get(pid) == Some(&process.key));
        let mut gone = Vec::new();
        for (&tid, thread) in &self.threads {
            let task = format!("proc/{}/task/{tid}", thread.pid);
            if !self.processes.contains_key(&thread.pid) || !self.vms.root.exists(task) {
                gone.push(tid);
            }
        }
        for tid in &gone {
            self.threads.remove(tid);
            self.changed = true;
        }
        for vm in &scan.vms {
            if self.is_wanted(vm.pid()) {
                self.learn(vm);
            }
        }
        Ok(gone)
    }

    /// A thread halts: learns it and its process if they are new. Whether they are wanted.
    pub(super) fn halts(&mut self, tid: Tid, pid: Pid) -> bool {
        match self.threads.get(&tid) {
            Some(thread) if thread.pid == pid && thread.halted => return true,
            Some(thread) if thread.pid == pid => {}
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
            let comm = discovery::comm_of(&self.vms.root, tid).unwrap_or_default();
            self.add_thread(tid, pid, comm, None);
            self.tell_apart(pid);
        }
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.halted = true;
            self.halted.insert(thread.vm);
        }
        true
    }

    /// Threads whose numbers now serve in other processes: what they did before is void.
    pub(super) fn take_reused(&mut self) -> Vec<Tid> {
        std::mem::take(&mut self.reused)
    }

    pub(super) fn runs(&mut self, tid: Tid, vcpu: VcpuId) {
        if let Some(thread) = self.threads.get_mut(&tid)
            && thread.vcpu != Some(vcpu)
        {
            thread.vcpu = Some(vcpu);
            self.vms.roster.vcpu(thread.vm, vcpu, tid);
        }
    }

    /// Writes into a halt where it belongs, and keeps its window for the roster.
    pub(super) fn place(&mut self, halt: &mut Halt) {
        let Some(thread) = self.threads.get_mut(&halt.tid) else {
            return;
        };
        halt.vm = Some(thread.vm);
        halt.vcpu = halt.vcpu.or(thread.vcpu);
        thread.window = halt.window_next_ns.or(thread.window);
        thread.ceiling = halt.ceiling_ns.or(thread.ceiling);
    }

    pub(super) fn vm_of(&self, tid: Tid) -> Option<VmIndex> {
        self.threads.get(&tid).map(|thread| thread.vm)
    }

    /// By what a vCPU thread was woken; `None` if that thread runs no vCPU.
    pub(super) fn source(&mut self, woken: Tid, waker: Waker, pid: Pid) -> Option<WakeSource> {
        let thread = self.threads.get(&woken)?;
        let vfio = self.processes.get(&thread.pid).is_some_and(|p| p.vfio);
        let same_vmm = pid == thread.pid;
        if !same_vmm && !self.comms.contains_key(&pid) {
            let comm = discovery::comm_of(&self.vms.root, Tid(pid.0)).unwrap_or_default();
            self.comms.insert(pid, comm);
        }
        let kin = Kin {
            vcpu_of_same_vm: same_vmm
                && waker.tid != woken
                && (self.threads.get(&waker.tid)).is_some_and(|waker| waker.vm == thread.vm),
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

    pub(super) fn refresh_roster(&mut self) {
        for (&tid, thread) in &self.threads {
            if let Some(vcpu) = thread.vcpu {
                let row = self.vms.roster.vcpu(thread.vm, vcpu, tid);
                row.window_ns = thread.window.or(row.window_ns);
                row.ceiling_ns = thread.ceiling.or(row.ceiling_ns);
            }
        }
    }

    pub(super) fn roster(&self) -> &Roster {
        self.vms.roster.roster()
    }

    pub(super) fn missing(&self) -> Vec<Missing> {
        let mut missing = Vec::new();
        for (pid, process) in &self.processes {
            if process.has_several() {
                let apart = self.vms.roster.find(&nth(process, 1)).is_some();
                let how = if apart {
                    "they are told apart by the names and the order of their threads"
                } else {
                    "nothing tells them apart: all their vCPUs are counted to the first"
                };
                let reason = format!("process {pid} runs several VMs, and {how}");
                missing.push(Missing::new("vm", reason));
            }
        }
        if self.denied > 0 {
            let reason = format!(
                "processes not accessible: {}; a VM in one of them is seen only when it halts",
                self.denied
            );
            missing.push(Missing::new("vm", reason));
        }
        missing
    }

    fn is_wanted(&self, pid: Pid) -> bool {
        self.wanted.is_empty() || self.wanted.contains(&pid)
    }

    fn look_up(&mut self, pid: Pid) {
        if let Some(vm) = discovery::identify(&self.vms.root, pid) {
            self.learn(&vm);
            return;
        }
        if self.processes.contains_key(&pid) {
            return;
        }
        // It ended, or is closed to us. Its number and perhaps its start are all that is known.
        let key = discovery::key_of(&self.vms.root, pid);
        let key = key.unwrap_or(VmKey::first(pid, 0));
        let label = VmLabel::named(format!("process-{pid}"));
        self.vms.roster.vm(key, || label.clone());
        let process = VmProcess {
            key,
            label,
            ..VmProcess::default()
        };
        self.processes.insert(pid, process);
    }

    fn learn(&mut self, found: &VmProcess) {
        let pid = found.pid();
        let several = found.has_several();
        let label = || found.label.clone().of_one(0, several);
        let first = self.vms.roster.vm(found.key, label);
        self.processes.insert(pid, found.clone());
        if !several {
            self.vms.expect(first, found.vcpus.len());
        }
        for thread in &found.threads {
            if !self.threads.contains_key(&thread.tid) {
                self.add_thread(thread.tid, pid, thread.comm.clone(), Some(thread.id));
            }
        }
        self.tell_apart(pid);
        self.refresh_roster();
    }

    /// A thread of a process that is known, of its first VM as long as nothing says otherwise.
    fn add_thread(&mut self, tid: Tid, pid: Pid, comm: String, vcpu: Option<VcpuId>) {
        let Some(vm) =
            (self.processes.get(&pid)).and_then(|process| self.vms.roster.find(&process.key))
        else {
            return;
        };
        let thread = Thread {
            pid,
            comm,
            vm,
            halted: false,
            vcpu,
            window: None,
            ceiling: None,
        };
        self.threads.insert(tid, thread);
        self.changed = true;
    }

    /// Gives the threads of a process with several VMs to these. One whose halts were placed stays where it
    /// is, and so do those of the same VM.
    fn tell_apart(&mut self, pid: Pid) {
        let Some(process) = self
            .processes
            .get(&pid)
            .filter(|it| it.has_several())
            .cloned()
        else {
            return;
        };
        let of_process = self.threads.iter().filter(|(_, thread)| thread.pid == pid);
        let known: Vec<Known> = of_process
            .map(|(tid, thread)| Known {
                tid: *tid,
                process: Some(pid),
                name: group::name_of(&thread.comm),
                told: thread.vcpu.filter(|_| thread.halted),
                moves: false,
            })
            .collect();
        let groups = group::groups(&known);
        let members = |group: &group::Group| -> Vec<Tid> {
            group.threads.iter().map(|&at| known[at].tid).collect()
        };
        let groups: Vec<Vec<Tid>> = groups.iter().map(members).collect();
        let mut given = self.halted.clone();
        for tids in groups {
            let vm = (self.vm_of_any(&tids)).unwrap_or_else(|| self.free_vm(&process, &given));
            given.insert(vm);
            for tid in &tids {
                if let Some(thread) = self.threads.get_mut(tid).filter(|thread| !thread.halted) {
                    thread.vm = vm;
                }
            }
        }
    }

    fn vm_of_any(&self, tids: &[Tid]) -> Option<VmIndex> {
        let threads = tids.iter().filter_map(|tid| self.threads.get(tid));
        threads
            .filter(|thread| thread.halted)
            .map(|thread| thread.vm)
            .next()
    }

    fn free_vm(&mut self, process: &VmProcess, given: &BTreeSet<VmIndex>) -> VmIndex {
        let mut ordinal = 0;
        loop {
            let label = || process.label.clone().of_one(ordinal, true);
            let vm = self.vms.roster.vm(nth(process, ordinal), label);
            if !given.contains(&vm) {
                return vm;
            }
            ordinal += 1;
        }
    }
}

#[cfg(test)]
mod test;
