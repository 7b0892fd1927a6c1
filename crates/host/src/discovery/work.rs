//! Work of a VMM's threads beside running vCPUs: CPU time and runs, from the scheduler's counts.
//!
//! Counts grow, so that two looks are enough: one when a VM is first seen and one at the end. Those between are
//! for threads that end before that, and for a recorder that is killed. A look costs two small files for
//! each thread, some 10 us.

use std::collections::{BTreeMap, BTreeSet};

use haltwise_core::event::Vm;
use haltwise_core::ids::{Pid, Tid, VmIndex};
use haltwise_core::vmm::{Threads, VcpuTime};

use super::presence::Known;
use super::running::VcpuThreads;
use super::{RosterBuilder, outside};
use crate::process_files;
use crate::root::Root;

const LOOK_NS: u64 = 10_000_000_000;

#[derive(Debug, Default)]
pub(crate) struct Work {
    vms: BTreeMap<VmIndex, Seen>,
    looked_ns: u64,
}

#[derive(Debug)]
struct Seen {
    first_ns: u64,
    threads: BTreeMap<Tid, Counts>,
}

/// Counts of a thread at the first look at its process, and at the last look that found the thread.
#[derive(Debug, Clone, Copy)]
struct Counts {
    first: Schedstat,
    last: Schedstat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Schedstat {
    cpu_ns: u64,
    queued_ns: u64,
    runs: u64,
    /// From `stat`, not `schedstat`; so is the next.
    guest_ns: u64,
    real_time: Option<bool>,
}

impl Work {
    pub(super) fn forget(&mut self, vms: &BTreeSet<VmIndex>) {
        self.vms.retain(|vm, _| !vms.contains(vm));
    }

    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.looked_ns) >= LOOK_NS
    }

    pub(super) fn look(
        &mut self,
        root: &Root,
        roster: &mut RosterBuilder,
        known: &Known,
        now_ns: u64,
    ) {
        self.looked_ns = now_ns;
        let listed = roster.roster();
        let all = &listed.vms;
        // Which of several VMs of a process a thread works for is not known.
        let alone = |vm: &&Vm| {
            !all.iter()
                .any(|it| it.key.pid == vm.key.pid && it.index != vm.index)
        };
        let there = all.iter().filter(|vm| vm.to_ns.is_none()).filter(alone);
        let there: Vec<_> = there
            .map(|vm| (vm.index, vm.key.pid, known.threads(listed, vm)))
            .collect();
        for (vm, pid, vcpus) in there {
            let is_first = !self.vms.contains_key(&vm);
            let seen = self.vms.entry(vm).or_insert_with(|| Seen {
                first_ns: now_ns,
                threads: BTreeMap::new(),
            });
            if seen.read(root, pid, is_first) && !is_first {
                let done = seen.done(root, pid, &vcpus, now_ns);
                if let (Some(done), Some(row)) = (done, roster.vm_mut(vm)) {
                    row.threads = Some(done);
                    seen.tell_vcpus(vm, &vcpus, roster);
                }
            }
        }
    }
}

impl Seen {
    fn read(&mut self, root: &Root, pid: Pid, is_first: bool) -> bool {
        let counts = process_files::look(root, pid, move |root| counts(root, pid));
        let counts = counts.unwrap_or_default();
        let any = !counts.is_empty();
        for (tid, now) in counts {
            // One that came later has counted from nothing.
            let first = if is_first { now } else { Schedstat::default() };
            let counts = self
                .threads
                .entry(tid)
                .or_insert(Counts { first, last: now });
            counts.last = now;
        }
        any
    }

    fn done(&self, root: &Root, pid: Pid, vcpus: &VcpuThreads, now_ns: u64) -> Option<Threads> {
        let vcpus: Option<&[Tid]> = match vcpus {
            VcpuThreads::Known(tids) => Some(tids),
            VcpuThreads::NeverRan => Some(&[]),
            VcpuThreads::Any => None,
        };
        let main = self.threads.get(&Tid(pid.0))?;
        let sum = |is_it: &dyn Fn(Tid) -> bool| -> u64 {
            let them = self.threads.iter().filter(|(tid, _)| is_it(**tid));
            them.fold(0, |sum, (_, it)| sum.saturating_add(it.cpu_ns()))
        };
        let is_other = |tid: Tid, vcpus: &[Tid]| tid.0 != pid.0 && !vcpus.contains(&tid);
        let busiest = vcpus.and_then(|vcpus| {
            let others = self
                .threads
                .iter()
                .filter(|(tid, _)| is_other(**tid, vcpus));
            others.max_by_key(|(_, it)| it.cpu_ns())
        });
        let busiest = busiest.filter(|(_, it)| it.cpu_ns() > 0);
        let comm = |tid: &Tid| {
            super::comm_of(root, *tid)
                .ok()
                .filter(|name| !name.is_empty())
        };
        Some(Threads {
            over_ns: now_ns.saturating_sub(self.first_ns),
            vcpu_cpu_ns: vcpus.map(|vcpus| sum(&|tid| vcpus.contains(&tid))),
            main_cpu_ns: main.cpu_ns(),
            main_runs: main.last.runs.saturating_sub(main.first.runs),
            others_cpu_ns: vcpus.map(|vcpus| sum(&|tid| !vcpus.contains(&tid))),
            busiest: busiest.and_then(|(tid, _)| comm(tid)),
            busiest_cpu_ns: busiest.map(|(_, it)| it.cpu_ns()),
        })
    }

    fn tell_vcpus(&self, vm: VmIndex, vcpus: &VcpuThreads, roster: &mut RosterBuilder) {
        let VcpuThreads::Known(tids) = vcpus else {
            return;
        };
        for vcpu in roster.vcpus_mut(vm) {
            let counts = self.threads.get(&vcpu.tid);
            let counts = counts.filter(|_| tids.contains(&vcpu.tid));
            let has_not_run = (vcpu.tid == Tid(0)).then(VcpuTime::default);
            vcpu.time = counts.map(Counts::vcpu_time).or(has_not_run).or(vcpu.time);
        }
    }
}

impl Counts {
    fn vcpu_time(&self) -> VcpuTime {
        let (first, last) = (&self.first, &self.last);
        VcpuTime {
            cpu_ns: self.cpu_ns(),
            queued_ns: last.queued_ns.saturating_sub(first.queued_ns),
            guest_ns: last.guest_ns.saturating_sub(first.guest_ns),
            real_time: last.real_time,
        }
    }

    fn cpu_ns(&self) -> u64 {
        self.last.cpu_ns.saturating_sub(self.first.cpu_ns)
    }
}

fn counts(root: &Root, pid: Pid) -> Vec<(Tid, Schedstat)> {
    let tids = root.numbers(format!("proc/{pid}/task")).unwrap_or_default();
    let of = |tid: u32| {
        let text = |file| root.text(format!("proc/{pid}/task/{tid}/{file}")).ok();
        let mut now = parse(&text("schedstat")?)?;
        let stat = text("stat").unwrap_or_default();
        now.guest_ns = outside::time(&stat).map_or(0, |time| time.guest_ns);
        now.real_time = outside::is_real_time(&stat);
        Some((Tid(tid), now))
    };
    tids.into_iter().filter_map(of).collect()
}

/// `CPU_NS WAITED_NS RUNS`. Kernels without `CONFIG_SCHED_INFO` print three zeros.
fn parse(text: &str) -> Option<Schedstat> {
    let fields: Result<Vec<u64>, _> = text.split_ascii_whitespace().map(str::parse).collect();
    match fields.ok()?[..] {
        [cpu_ns, queued_ns, runs] if runs > 0 => Some(Schedstat {
            cpu_ns,
            queued_ns,
            runs,
            guest_ns: 0,
            real_time: None,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod test;
