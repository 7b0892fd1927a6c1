//! Keeps the roster of a recording: a row for each VM and vCPU that was ever seen.
//!
//! A VM's row never changes its index, because the facts recorded so far point to it, and no other VM gets the index
//! of a row that was removed. Rows are removed only of VMs of which a ring keeps nothing any more. Both sources feed it; neither needs to know what the other found.

use std::collections::{BTreeMap, BTreeSet};

use haltwise_core::account::within::TICK_NS;
use haltwise_core::event::{Vcpu, Vm};
use haltwise_core::identity::Identity;
use haltwise_core::ids::{Tid, VcpuId, VmIndex, VmKey, VmmKind};
use haltwise_core::recording::Roster;
use haltwise_core::vmm::Machine;

use crate::clock;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VmLabel {
    /// Name that the operator uses; else the process's name and number. Printable and short.
    pub name: String,
    pub identity: Identity,
    pub machine: Option<Machine>,
    pub vmm: VmmKind,
    /// Whether its ceiling can be set from outside its VMM, where that is known.
    pub ceiling_settable: Option<bool>,
}

impl VmLabel {
    pub(crate) fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    fn describe(self, vm: &mut Vm) {
        vm.name = self.name;
        vm.identity = self.identity;
        vm.machine = self.machine;
        vm.vmm = self.vmm;
        vm.ceiling_settable = self.ceiling_settable;
    }

    /// That of one VM of a process, the first, second and so on; by its number where there are several.
    #[must_use]
    pub fn of_one(mut self, ordinal: u32, several: bool) -> Self {
        if several || ordinal > 0 {
            self.name = format!("{}-{ordinal}", self.name);
        }
        self
    }
}

#[derive(Debug, Clone, Default)]
pub struct RosterBuilder {
    roster: Roster,
    by_key: BTreeMap<VmKey, VmIndex>,
    seen: u32,
    began_ns: Option<u64>,
}

impl RosterBuilder {
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// The row of a VM; a new one if it was never seen, and only then `describe` is called.
    pub fn vm(&mut self, key: VmKey, describe: impl FnOnce() -> VmLabel) -> VmIndex {
        if let Some(&index) = self.by_key.get(&key) {
            return index;
        }
        let index = VmIndex(self.seen);
        self.seen += 1;
        let label = describe();
        // The first VM of a process gets its number when another comes: no name depends on when it was seen.
        let first = self.find(&VmKey { ordinal: 0, ..key });
        if let Some(first) = first.and_then(|first| self.vm_mut(first))
            && label.name == format!("{}-{}", first.name, key.ordinal)
        {
            first.name.push_str("-0");
        }
        let mut vm = Vm {
            index,
            key,
            from_ns: self.began_ns.and_then(|began_ns| {
                // A process's beginning is known to a tick: one within that of the beginning, which was not there
                // then, came after it.
                let came_ns = clock::of_ticks(key.start_ticks);
                (came_ns.saturating_add(TICK_NS) > began_ns).then(|| came_ns.max(began_ns))
            }),
            ..Vm::default()
        };
        label.describe(&mut vm);
        self.roster.vms.push(vm);
        self.by_key.insert(key, index);
        index
    }

    pub fn name(&mut self, process: VmKey, label: &VmLabel, several: bool) {
        let is_of = |vm: &&mut Vm| VmKey::first(vm.key.pid, vm.key.start_ticks) == process;
        for vm in self.roster.vms.iter_mut().filter(is_of) {
            let label = label.clone().of_one(vm.key.ordinal, several);
            label.describe(vm);
        }
    }

    /// How many VMs were ever seen: later ones have this index and higher ones.
    pub fn seen(&self) -> u32 {
        self.seen
    }

    pub fn forget_ended(&mut self, before_ns: u64) -> BTreeSet<VmIndex> {
        let has_ended = |vm: &Vm| vm.to_ns.is_some_and(|to_ns| to_ns < before_ns);
        let ended = self.roster.vms.iter().filter(|vm| has_ended(vm));
        let ended: BTreeSet<VmIndex> = ended.map(|vm| vm.index).collect();
        if !ended.is_empty() {
            self.roster.vms.retain(|vm| !ended.contains(&vm.index));
            (self.roster.vcpus).retain(|vcpu| !ended.contains(&vcpu.vm));
            self.by_key.retain(|_, vm| !ended.contains(vm));
        }
        ended
    }

    pub fn find(&self, key: &VmKey) -> Option<VmIndex> {
        self.by_key.get(key).copied()
    }

    /// The recording begins: who is there was there before.
    pub fn begin(&mut self, now_ns: u64) {
        self.began_ns = Some(now_ns);
        for vm in &mut self.roster.vms {
            (vm.from_ns, vm.to_ns, vm.paused) = (None, None, None);
        }
    }

    /// All VMs of the host were looked for, and these were there. A VM of a process that has long been
    /// running came since the look before, if it is new.
    pub fn there(&mut self, there: &BTreeSet<VmIndex>, new: &BTreeSet<VmIndex>, now_ns: u64) {
        for vm in &mut self.roster.vms {
            if !there.contains(&vm.index) {
                vm.to_ns.get_or_insert(now_ns);
                continue;
            }
            vm.to_ns = None;
            if new.contains(&vm.index) && self.began_ns.is_some() {
                vm.from_ns.get_or_insert(now_ns);
            }
        }
    }

    pub fn gone(&mut self, gone: &[VmIndex], now_ns: u64) {
        for vm in &mut self.roster.vms {
            if gone.contains(&vm.index) {
                vm.to_ns.get_or_insert(now_ns);
            }
        }
    }

    pub fn vm_mut(&mut self, index: VmIndex) -> Option<&mut Vm> {
        let vms = &mut self.roster.vms;
        let place = vms.binary_search_by_key(&index, |vm| vm.index);
        place.ok().map(|at| &mut vms[at])
    }

    pub fn vcpus_mut(&mut self, vm: VmIndex) -> impl Iterator<Item = &mut Vcpu> {
        let vcpus = self.roster.vcpus.iter_mut();
        vcpus.filter(move |vcpu| vcpu.vm == vm)
    }

    /// The row of a vCPU, new if it was never seen; a vCPU that moved to another thread keeps its row.
    pub fn vcpu(&mut self, vm: VmIndex, id: VcpuId, tid: Tid) -> &mut Vcpu {
        let place = self
            .roster
            .vcpus
            .binary_search_by_key(&(vm, id), |vcpu| (vcpu.vm, vcpu.id));
        let at = match place {
            Ok(at) => {
                self.roster.vcpus[at].tid = tid;
                at
            }
            Err(at) => {
                let vcpu = Vcpu {
                    vm,
                    id,
                    tid,
                    ..Vcpu::default()
                };
                self.roster.vcpus.insert(at, vcpu);
                at
            }
        };
        &mut self.roster.vcpus[at]
    }
}

#[cfg(test)]
mod test {
    use haltwise_core::event::Observable;
    use haltwise_core::ids::Pid;
    use proptest::prelude::*;

    use super::*;

    fn key(pid: u32, ordinal: u32) -> VmKey {
        VmKey {
            pid: Pid(pid),
            start_ticks: 9,
            ordinal,
        }
    }

    #[test]
    fn indices_follow_the_order_of_appearance_and_stay() {
        let mut builder = RosterBuilder::default();
        assert_eq!(builder.vm(key(70, 0), || VmLabel::named("b")), VmIndex(0));
        assert_eq!(builder.vm(key(7, 0), || VmLabel::named("a")), VmIndex(1));
        assert_eq!(builder.vm(key(7, 1), || VmLabel::named("a-1")), VmIndex(2));
        assert_eq!(
            builder.vm(key(70, 0), || unreachable!("known already")),
            VmIndex(0)
        );
        let names: Vec<_> = builder.roster().vms.iter().map(|vm| &vm.name).collect();
        assert_eq!(names, ["b", "a-0", "a-1"]);
        assert_eq!(builder.find(&key(7, 1)), Some(VmIndex(2)));
        assert_eq!(builder.find(&key(8, 0)), None);
        builder.name(key(7, 0), &VmLabel::named("late"), true);
        let names: Vec<_> = builder.roster().vms.iter().map(|vm| &vm.name).collect();
        assert_eq!(names, ["b", "late-0", "late-1"]);
        builder.vm_mut(VmIndex(1)).unwrap().observable = Observable::No("why".into());
        assert!(builder.vm_mut(VmIndex(3)).is_none());
    }

    #[test]
    fn who_comes_and_goes_while_recording_is_told_so() {
        let mut builder = RosterBuilder::default();
        let [old, new] = [key(7, 0), key(7, 1)].map(|key| VmKey {
            start_ticks: 0,
            ..key
        });
        let old = builder.vm(old, || VmLabel::named("old"));
        builder.begin(3 * TICK_NS);
        let new = builder.vm(new, || VmLabel::named("new"));
        let of = |builder: &RosterBuilder, vm: VmIndex| {
            let row = &builder.roster().vms[vm.0 as usize];
            (row.from_ns, row.to_ns)
        };
        let both = BTreeSet::from([old, new]);
        builder.there(&both, &BTreeSet::from([new]), 200 * TICK_NS);
        assert_eq!(
            (of(&builder, old), of(&builder, new)),
            ((None, None), (Some(200 * TICK_NS), None))
        );
        builder.there(&BTreeSet::from([old]), &BTreeSet::new(), 300 * TICK_NS);
        builder.gone(&[old, new], 400 * TICK_NS);
        assert_eq!(
            of(&builder, new),
            (Some(200 * TICK_NS), Some(300 * TICK_NS))
        );
        assert_eq!(of(&builder, old), (None, Some(400 * TICK_NS)));
        // One that was not found for a moment is there again.
        builder.there(&both, &BTreeSet::new(), 500 * TICK_NS);
        assert_eq!(of(&builder, new), (Some(200 * TICK_NS), None));
    }

    #[test]
    fn who_comes_within_the_tick_of_the_beginning_came_after_it() {
        let mut builder = RosterBuilder::default();
        let began_ns = clock::monotonic_ns();
        let ticks = began_ns / TICK_NS;
        let started = |ordinal, start_ticks| VmKey {
            start_ticks,
            ..key(7, ordinal)
        };
        let first = builder.vm(started(0, ticks), || VmLabel::named("first"));
        builder.begin(clock::of_ticks(ticks) + TICK_NS / 2);
        let before = builder.vm(started(1, ticks - 1), || VmLabel::named("before"));
        let within = builder.vm(started(2, ticks), || VmLabel::named("within"));
        let after = builder.vm(started(3, ticks + 1), || VmLabel::named("after"));
        let from = |vm: VmIndex| builder.roster().vms[vm.0 as usize].from_ns;
        assert_eq!((from(first), from(before)), (None, None));
        let begin = clock::of_ticks(ticks) + TICK_NS / 2;
        assert!(from(within).is_some_and(|from_ns| from_ns.abs_diff(begin) < TICK_NS / 4));
        assert!(from(after) > from(within));
    }

    proptest! {
        #[test]
        fn vcpus_are_unique_and_in_order(seen in prop::collection::vec((0..3_u32, 0..5_u32, 1..99_u32), 0..40)) {
            let mut builder = RosterBuilder::default();
            for &(vm, id, tid) in &seen {
                builder.vcpu(VmIndex(vm), VcpuId(id), Tid(tid)).window_ns = Some(id);
            }
            let rows: Vec<_> = builder.roster().vcpus.iter().map(|v| (v.vm, v.id)).collect();
            prop_assert!(rows.windows(2).all(|pair| pair[0] < pair[1]));
            for &(vm, id, _) in &seen {
                prop_assert!(rows.contains(&(VmIndex(vm), VcpuId(id))));
            }
        }
    }

    /// As many rows as there are VMs and VMs of which something is kept, however many come and go.
    #[test]
    fn vms_that_ended_long_ago_are_forgotten_and_no_other_has_their_index() {
        let mut builder = RosterBuilder::default();
        let stays = builder.vm(key(1, 0), || VmLabel::named("stays"));
        builder.vcpu(stays, VcpuId(0), Tid(1));
        for n in 0..1_000_u32 {
            let now_ns = u64::from(n) * 1_000;
            let vm = builder.vm(key(n + 2, 0), || VmLabel::named("short"));
            assert_eq!(vm, VmIndex(n + 1));
            builder.vcpu(vm, VcpuId(0), Tid(n + 2));
            builder.gone(&[vm], now_ns);
            let ended = builder.forget_ended(now_ns.saturating_sub(5_000));
            assert_eq!(ended.len(), usize::from(n > 5));
            let roster = builder.roster();
            assert!(roster.vms.len() <= 7 && roster.vcpus.len() == roster.vms.len());
            assert_eq!(builder.vm_mut(vm).unwrap().index, vm);
        }
        assert_eq!((builder.seen(), builder.find(&key(2, 0))), (1_001, None));
        assert_eq!(builder.vm_mut(stays).unwrap().name, "stays");
        assert!(builder.vm_mut(VmIndex(1)).is_none());
    }
}
