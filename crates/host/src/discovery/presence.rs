//! The VMs of a recording: their rows, which of them are there, and which are paused and for how long.
//!
//! Each VM is looked at once a second: what its vCPUs' threads wait for says whether any is in `KVM_RUN`. One
//! that seems to be held is looked at more often until several looks agree. What halts says otherwise. What the
//! other threads of VMMs do is looked at from here too, less often ([`Work`]).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use haltwise_core::event::{Facts, Observable, Paused, Vm};
use haltwise_core::ids::{Tid, VmIndex};
use haltwise_core::recording::Roster;

use super::RosterBuilder;
use super::running::{LOOKS, Living, PAUSE, VcpuThreads, is_in_kvm_run};
use super::work::Work;
use crate::clock;
use crate::root::Root;

/// Between two looks at a VM that ran when last looked at, or is known to be paused.
const LOOK_NS: u64 = 1_000_000_000;

const AGAIN: Duration = PAUSE;

#[derive(Debug)]
pub(crate) enum Known {
    /// The kernel was asked who runs each vCPU; one that has never run has no thread.
    ByTheKernel,
    /// Names and events told, not of all: a VM has so many vCPUs.
    ByNames(BTreeMap<VmIndex, usize>),
}

impl Known {
    pub(super) fn threads(&self, roster: &Roster, vm: &Vm) -> VcpuThreads {
        // A builder keeps them in order.
        let first = roster.vcpus.partition_point(|vcpu| vcpu.vm < vm.index);
        let vcpus = roster.vcpus.iter().skip(first);
        let vcpus = vcpus.take_while(|vcpu| vcpu.vm == vm.index);
        let tids = vcpus.map(|vcpu| Some(vcpu.tid).filter(|tid| *tid != Tid(0)));
        let tids: Vec<Option<Tid>> = tids.collect();
        let is_all = match self {
            Self::ByTheKernel => true,
            Self::ByNames(all) => all.get(&vm.index) == Some(&tids.len()),
        };
        if is_all && !tids.is_empty() {
            VcpuThreads::of_vcpus(tids.into_iter())
        } else {
            VcpuThreads::Any
        }
    }
}

#[derive(Debug)]
pub(crate) struct Presence {
    pub(crate) root: Root,
    pub(crate) roster: RosterBuilder,
    known: Known,
    living: Living,
    held: BTreeMap<VmIndex, Held>,
    work: Work,
    looked_ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    since_ns: u64,
    last_ns: u64,
    looks: u32,
}

impl Held {
    fn is_sure(&self) -> bool {
        self.looks >= LOOKS
    }

    fn is_due(&self, now_ns: u64) -> bool {
        let since = Duration::from_nanos(now_ns.saturating_sub(self.last_ns));
        !self.is_sure() && since >= AGAIN
    }
}

impl Presence {
    /// Where the roster has what names and events say, [`Presence::expect`] tells whether that is all.
    pub(crate) fn new(root: Root, known: Known) -> Self {
        Self {
            root,
            roster: RosterBuilder::default(),
            known,
            living: Living::default(),
            held: BTreeMap::new(),
            work: Work::default(),
            looked_ns: 0,
        }
    }

    pub(crate) fn expect(&mut self, vm: VmIndex, vcpus: usize) {
        if let Known::ByNames(all) = &mut self.known {
            all.insert(vm, vcpus);
        }
    }

    pub(crate) fn forget_ended(&mut self, before_ns: u64) -> BTreeSet<VmIndex> {
        let ended = self.roster.forget_ended(before_ns);
        if let Known::ByNames(all) = &mut self.known {
            all.retain(|vm, _| !ended.contains(vm));
        }
        self.held.retain(|vm, _| !ended.contains(vm));
        self.work.forget(&ended);
        ended
    }

    pub(crate) fn begin(&mut self, now_ns: u64) {
        self.roster.begin(now_ns);
        self.held.clear();
        self.look_at(now_ns, |_| true);
        self.looked_ns = now_ns;
        self.work = Work::default();
        self.look_at_work(now_ns);
    }

    /// Notes which processes have ended, and looks at those VMs whose turn it is. `facts` are those come of late.
    pub(crate) fn look(&mut self, facts: &Facts, now_ns: u64) {
        let vms = &self.roster.roster().vms;
        let gone = self.living.look(&self.root, vms, now_ns);
        self.roster.gone(&gone, now_ns);
        self.weigh(facts);
        self.drop_gone();
        if now_ns.saturating_sub(self.looked_ns) >= LOOK_NS {
            self.looked_ns = now_ns;
            self.look_at(now_ns, |_| true);
            if self.work.is_due(now_ns) {
                self.look_at_work(now_ns);
            }
        } else {
            self.look_again(now_ns);
        }
    }

    /// The recording has ended: looks once more at those that seem to be paused, until that is sure.
    pub(crate) fn end(&mut self, facts: &Facts) {
        self.weigh(facts);
        self.look_at_threads();
        for _ in 0..LOOKS {
            if self.held.values().all(Held::is_sure) {
                return;
            }
            std::thread::sleep(AGAIN);
            self.look_again(clock::monotonic_ns());
        }
    }

    pub(crate) fn look_at_threads(&mut self) {
        self.look_at_work(clock::monotonic_ns());
    }

    fn look_at_work(&mut self, now_ns: u64) {
        self.work
            .look(&self.root, &mut self.roster, &self.known, now_ns);
    }

    fn look_again(&mut self, now_ns: u64) {
        let due = self.held.iter().filter(|(_, held)| held.is_due(now_ns));
        let due: Vec<VmIndex> = due.map(|(vm, _)| *vm).collect();
        if !due.is_empty() {
            self.look_at(now_ns, |vm| due.contains(&vm));
        }
    }

    fn look_at(&mut self, now_ns: u64, wanted: impl Fn(VmIndex) -> bool) {
        let all = self.roster.roster();
        // A VMM that handles halts itself holds its idle vCPUs too.
        let there = |vm: &&Vm| vm.to_ns.is_none() && vm.observable == Observable::Yes;
        let vms = all.vms.iter().filter(there).filter(|vm| wanted(vm.index));
        let look = |vm: &Vm| is_in_kvm_run(&self.root, vm.key.pid, &self.known.threads(all, vm));
        let looks: Vec<_> = vms.map(|vm| (vm.index, look(vm))).collect();
        for (vm, runs) in looks {
            match runs {
                None => {}
                Some(true) => {
                    self.end_pause(vm, u64::MAX);
                    if let Some(row) = self.roster.vm_mut(vm) {
                        row.paused.get_or_insert_default();
                    }
                }
                Some(false) => self.hold(vm, now_ns),
            }
        }
    }

    fn hold(&mut self, vm: VmIndex, now_ns: u64) {
        let held = self.held.entry(vm).or_insert(Held {
            since_ns: now_ns,
            last_ns: now_ns,
            looks: 0,
        });
        held.last_ns = now_ns;
        held.looks += 1;
        if let (true, Some(row)) = (held.is_sure(), self.roster.vm_mut(vm)) {
            row.paused.get_or_insert_default().from_ns = Some(held.since_ns);
        }
    }

    /// A VM runs, or is gone: it was paused until it was last seen to be, and no longer than until then.
    fn end_pause(&mut self, vm: VmIndex, until_ns: u64) {
        let Some(held) = self.held.remove(&vm).filter(Held::is_sure) else {
            return;
        };
        if let Some(row) = self.roster.vm_mut(vm) {
            let length_ns = until_ns.min(held.last_ns).saturating_sub(held.since_ns);
            let paused = row.paused.unwrap_or_default();
            row.paused = Some(Paused {
                over_ns: paused.over_ns.saturating_add(length_ns),
                from_ns: None,
            });
        }
    }

    /// A VM that halted since it seemed to be paused has run: from when that halt began, or at the latest from the
    /// beginning of the interval in which it was counted.
    fn weigh(&mut self, facts: &Facts) {
        if self.held.is_empty() {
            return;
        }
        let halts = facts.halts.iter();
        let halts = halts.map(|halt| (halt.vm, halt.start_ns, halt.end_ns()));
        let counts = facts.counts.iter().filter(|row| row.halts > 0);
        let counts = counts.map(|row| {
            let start_ns = row.time_ns.saturating_sub(row.interval_ns);
            (row.vm, start_ns, row.time_ns)
        });
        for (vm, from_ns, to_ns) in halts.chain(counts) {
            let Some(vm) = vm else { continue };
            let held = self.held.get(&vm);
            if held.is_some_and(|held| to_ns > held.since_ns) {
                self.end_pause(vm, from_ns);
            }
        }
    }

    fn drop_gone(&mut self) {
        let vms = self.roster.roster().vms.iter();
        let gone = vms.filter(|vm| vm.to_ns.is_some() && self.held.contains_key(&vm.index));
        let gone: Vec<VmIndex> = gone.map(|vm| vm.index).collect();
        for vm in gone {
            self.end_pause(vm, u64::MAX);
        }
    }
}

#[cfg(test)]
mod test;
