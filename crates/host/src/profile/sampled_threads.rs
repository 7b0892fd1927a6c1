//! Which processes are sampled, and whose threads they are.

use std::collections::{BTreeMap, BTreeSet};

use haltwise_core::ids::{Pid, VcpuId, VmIndex, VmKey};
use haltwise_core::recording::Roster;

use crate::discovery;
use crate::root::Root;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Whose {
    pub(super) vm: VmIndex,
    pub(super) vcpu: Option<VcpuId>,
}

/// Threads whose names are remembered; when there are more, all are forgotten and told again.
const REMEMBERED: usize = 1 << 17;

#[derive(Debug)]
pub(super) struct SampledThreads {
    root: Root,
    only: Vec<Pid>,
    /// The first VM of each process, and when the process started.
    processes: BTreeMap<u32, (VmIndex, u64)>,
    vcpus: BTreeMap<u32, Whose>,
    named: BTreeSet<(u32, u32)>,
    seen: (Option<VmIndex>, usize, usize),
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) came: Vec<u32>,
    pub(super) gone: Vec<u32>,
}

impl SampledThreads {
    pub(super) fn new(root: &Root, only: &[Pid]) -> Self {
        Self {
            root: root.clone(),
            only: only.to_vec(),
            processes: BTreeMap::new(),
            vcpus: BTreeMap::new(),
            named: BTreeSet::new(),
            seen: (None, 0, 0),
        }
    }

    /// Takes over the roster, and finds out who has gone if `thorough`.
    pub(super) fn update(&mut self, roster: &Roster, thorough: bool) -> Changes {
        let mut changes = Changes::default();
        let last = roster.vms.last().map(|vm| vm.index);
        let seen = (last, roster.vms.len(), roster.vcpus.len());
        if seen == self.seen && !thorough {
            return changes;
        }
        self.seen = seen;
        for vm in &roster.vms {
            let pid = vm.key.pid;
            if !self.only.is_empty() && !self.only.contains(&pid) {
                continue;
            }
            let known = self.processes.get(&pid.0);
            if vm.key.ordinal == 0 && known.is_none_or(|(index, _)| *index < vm.index) {
                // The same number once more: another process.
                if known.is_some() {
                    changes.gone.push(pid.0);
                }
                let started = (vm.index, vm.key.start_ticks);
                self.processes.insert(pid.0, started);
                changes.came.push(pid.0);
            }
        }
        self.vcpus = roster
            .vcpus
            .iter()
            .map(|vcpu| {
                let whose = Whose {
                    vm: vcpu.vm,
                    vcpu: Some(vcpu.id),
                };
                (vcpu.tid.0, whose)
            })
            .collect();
        if thorough {
            changes.gone.extend(self.gone());
        }
        changes
    }

    /// Processes that have ended. What was sampled of them may still come, so they stay known.
    fn gone(&self) -> Vec<u32> {
        let is_there = |pid: u32, started: u64| {
            let process = VmKey::first(Pid(pid), started);
            discovery::is_alive(&self.root, process).unwrap_or(false)
        };
        let all = self.processes.iter();
        all.filter(|(pid, (_, started))| *started != 0 && !is_there(**pid, *started))
            .map(|(pid, _)| *pid)
            .collect()
    }

    /// VM and vCPU of a thread; `None` if its process is not sampled.
    pub(super) fn whose(&self, pid: u32, tid: u32) -> Option<Whose> {
        let (vm, _) = *self.processes.get(&pid)?;
        let vcpu = self.vcpus.get(&tid).filter(|whose| whose.vm >= vm);
        Some(vcpu.copied().unwrap_or(Whose { vm, vcpu: None }))
    }

    /// The name of a thread, if it is met for the first time; none if the thread was gone.
    pub(super) fn name(&mut self, pid: u32, tid: u32) -> Option<Option<String>> {
        if self.named.contains(&(pid, tid)) {
            return None;
        }
        if self.named.len() >= REMEMBERED {
            self.named.clear();
        }
        self.named.insert((pid, tid));
        Some(self.root.value(format!("proc/{pid}/task/{tid}/comm")).ok())
    }
}
