//! Which VM and vCPU a halt, counts or exits belong to.
//!
//! A walk knows best: it finds a vCPU and the thread that ran it last. A vCPU that no walk has met since it
//! first ran says of itself to which `struct kvm` it belongs, so that of several VMs of one process each
//! gets its own, though it be gone before the next walk.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use haltwise_core::event::{CeilingSource, Facts, Observable};
use haltwise_core::ids::{Pid, Tid, VcpuId, VmIndex, VmKey};
use haltwise_core::recording::{Missing, Roster};

use super::exits::Who;
use super::record::{Place, RawHalt};
use super::walk::FoundVcpu;
use crate::discovery::{self, Known, Presence, VmLabel};
use crate::root::Root;

#[derive(Debug)]
pub(super) struct Places {
    pub(super) vms: Presence,
    /// By address of the vCPU and by its thread: an address alone may serve again.
    by_vcpu: BTreeMap<(u64, u32), Place>,
    by_tid: BTreeMap<u32, Place>,
    /// `struct kvm` of each VM of a process, in the order in which they were first seen.
    of_process: BTreeMap<Pid, Vec<u64>>,
    labels: Labels,
    /// VMs that were gone before their last statistics were read.
    unread: BTreeSet<VmIndex>,
}

impl Places {
    pub(super) fn new(root: Root) -> Self {
        Self {
            labels: Labels::new(root.clone()),
            vms: Presence::new(root, Known::ByTheKernel),
            by_vcpu: BTreeMap::new(),
            by_tid: BTreeMap::new(),
            of_process: BTreeMap::new(),
            unread: BTreeSet::new(),
        }
    }

    pub(super) fn end(&mut self, facts: &Facts) {
        self.name_waiting();
        self.vms.end(facts);
    }

    pub(super) fn forget_ended(&mut self, before_ns: u64) -> usize {
        let ended = self.vms.forget_ended(before_ns);
        if ended.is_empty() {
            return 0;
        }
        let is_kept = |place: &Place| place.vm.is_none_or(|vm| !ended.contains(&vm));
        self.by_vcpu.retain(|_, place| is_kept(place));
        self.by_tid.retain(|_, place| is_kept(place));
        self.unread.retain(|vm| !ended.contains(vm));
        let rows = self.vms.roster.roster().vms.iter();
        let pids: BTreeSet<Pid> = rows.map(|vm| vm.key.pid).collect();
        self.of_process.retain(|pid, _| pids.contains(pid));
        self.labels.retain(&pids);
        ended.len()
    }

    /// These are gone, and what they counted since `last_ns` with them: for us they ended then.
    pub(super) fn unread_since(&mut self, gone: &[Place], last_ns: u64) {
        for vm in gone.iter().filter_map(|place| place.vm) {
            if let Some(row) = self.vms.roster.vm_mut(vm) {
                row.to_ns = Some(row.to_ns.map_or(last_ns, |to_ns| to_ns.min(last_ns)));
                self.unread.insert(vm);
            }
        }
    }

    pub(super) fn missing(&self) -> Vec<Missing> {
        let vms = self.vms.roster.roster().vms.iter();
        let unread = vms.filter(|vm| self.unread.contains(&vm.index));
        let why = "was gone before its statistics were read once more: it counts until the reading before";
        let unread = unread.map(|vm| Missing::new("halts", format!("VM {} {why}", vm.name)));
        let waiting = Some(self.labels.waiting()).filter(|waiting| *waiting > 0);
        let unnamed = waiting.map(|waiting| {
            let why = "there was no time to look for the names of their VMs";
            Missing::new("vms", format!("{waiting} processes: {why}"))
        });
        unread.chain(unnamed).collect()
    }

    fn name_waiting(&mut self) {
        for (process, label) in self.labels.walk() {
            let several = self.has_several(process.pid);
            self.vms.roster.name(process, &label, several);
        }
    }

    fn has_several(&self, pid: Pid) -> bool {
        self.of_process.get(&pid).is_some_and(|vms| vms.len() > 1)
    }

    /// Takes over what a walk over all vCPUs found: other VMs are gone.
    pub(super) fn learn_all(&mut self, found: &[FoundVcpu], param: Option<u32>, now_ns: u64) {
        let known = self.vms.roster.seen();
        let there = self.learn(found, param);
        let is_new = |vm: &&VmIndex| vm.0 >= known;
        let new = there.iter().filter(is_new).copied().collect();
        self.vms.roster.there(&there, &new, now_ns);
    }

    pub(super) fn roster(&self) -> &Roster {
        self.vms.roster.roster()
    }

    pub(super) fn learn(&mut self, found: &[FoundVcpu], param: Option<u32>) -> BTreeSet<VmIndex> {
        self.name_waiting();
        let mut vms_of: BTreeMap<Pid, BTreeSet<u64>> = BTreeMap::new();
        for vcpu in found {
            vms_of.entry(vcpu.pid).or_default().insert(vcpu.vm);
        }
        // One look at each process, however many VMs it has.
        let mut processes = BTreeMap::new();
        let each = found.iter().map(|vcpu| {
            let several = vms_of.get(&vcpu.pid).is_some_and(|vms| vms.len() > 1);
            let process = *processes
                .entry(vcpu.pid)
                .or_insert_with(|| self.process(vcpu.pid));
            self.learn_one(vcpu, process, several, param)
        });
        each.collect()
    }

    fn learn_one(
        &mut self,
        found: &FoundVcpu,
        process: VmKey,
        several: bool,
        param: Option<u32>,
    ) -> VmIndex {
        let ordinal = self.ordinal(found.pid, found.vm);
        let vm = self.vm_row(process, ordinal, several);
        if let Some(reason) = blind(found)
            && let Some(row) = self.vms.roster.vm_mut(vm)
        {
            row.observable = Observable::No(reason.to_owned());
        }
        let row = self
            .vms
            .roster
            .vcpu(vm, found.id, found.tid.unwrap_or(Tid(0)));
        row.window_ns = Some(found.window_ns);
        row.guest_veto = found.guest_veto;
        (row.ceiling_ns, row.ceiling_source) = match (found.vm_ceiling, param) {
            (Some((ceiling, source)), _) => (Some(ceiling), source),
            (None, Some(param)) => (Some(param), CeilingSource::Param),
            (None, None) => (None, CeilingSource::Unknown),
        };
        if let Some(tid) = found.tid {
            let place = Place {
                vm: Some(vm),
                vcpu: Some(found.id),
            };
            self.by_vcpu.insert((found.address, tid.0), place);
            self.by_tid.insert(tid.0, place);
        }
        vm
    }

    pub(super) fn of_walked(&self, halt: &RawHalt) -> Option<Place> {
        if halt.vcpu == 0 {
            return None;
        }
        self.by_vcpu.get(&(halt.vcpu, halt.tid)).copied()
    }

    pub(super) fn of_found(&self, vcpu: &FoundVcpu) -> Option<Place> {
        self.by_vcpu.get(&(vcpu.address, vcpu.tid?.0)).copied()
    }

    pub(super) fn of_thread(&self, tid: u32) -> Option<Place> {
        self.by_tid.get(&tid).copied()
    }

    /// Where a halt belongs: as a walk says of its vCPU or, where none has seen that, of its thread; else by
    /// the VM that it names, in its process.
    pub(super) fn of_halt(&mut self, halt: &RawHalt) -> Place {
        if let Some(place) = self.of_walked(halt) {
            return place;
        }
        if let Some(place) = self.of_thread(halt.tid)
            && place.vcpu.is_some()
        {
            return place;
        }
        let vm = self.vm_of(Pid(halt.tgid), halt.kvm);
        let place = self.place(vm, halt.vcpu_id(), halt.tid);
        // Its VM may be gone before the next walk; a walk that finds it knows better.
        self.by_tid.insert(halt.tid, place);
        place
    }

    /// Owner of exits: by the vCPU's address and thread, or by the thread, where a walk has
    /// seen it; else by what the vCPU said of itself.
    pub(super) fn of_exits(&mut self, who: Who) -> Place {
        let known = self.by_vcpu.get(&(who.vcpu, who.tid)).copied();
        if let Some(place) = known.or_else(|| self.of_thread(who.tid))
            && place.vcpu.is_some()
        {
            return place;
        }
        let vm = self.vm_of(Pid(who.tgid), who.kvm);
        let vcpu = (who.vcpu != 0).then_some(VcpuId(who.vcpu_id));
        self.place(vm, vcpu, who.tid)
    }

    fn place(&mut self, vm: VmIndex, vcpu: Option<VcpuId>, tid: u32) -> Place {
        if let Some(id) = vcpu {
            self.vms.roster.vcpu(vm, id, Tid(tid));
        }
        Place { vm: Some(vm), vcpu }
    }

    /// The VM that something outside a walk named; a process's first where it could not say.
    fn vm_of(&mut self, pid: Pid, kvm: u64) -> VmIndex {
        let ordinal = if kvm == 0 { 0 } else { self.ordinal(pid, kvm) };
        let several = self.has_several(pid);
        self.vm_row(self.process(pid), ordinal, several)
    }

    /// Which VM of its process this is, in the order in which they were first seen.
    fn ordinal(&mut self, pid: Pid, kvm: u64) -> u32 {
        let vms = self.of_process.entry(pid).or_default();
        let known = vms.iter().position(|vm| *vm == kvm);
        let ordinal = known.unwrap_or_else(|| {
            vms.push(kvm);
            vms.len() - 1
        });
        u32::try_from(ordinal).unwrap_or(u32::MAX)
    }

    fn process(&self, pid: Pid) -> VmKey {
        // For a process that is gone, the last process seen with this number.
        let last = || {
            let vms = self.vms.roster.roster().vms.iter().rev();
            vms.map(|vm| vm.key).find(|key| key.pid == pid)
        };
        let key = discovery::key_of(&self.vms.root, pid).ok().or_else(last);
        VmKey::first(pid, key.map_or(0, |key| key.start_ticks))
    }

    fn vm_row(&mut self, process: VmKey, ordinal: u32, several: bool) -> VmIndex {
        let labels = &mut self.labels;
        let vm = VmKey { ordinal, ..process };
        (self.vms.roster).vm(vm, || labels.of(process).of_one(ordinal, several))
    }
}

fn blind(found: &FoundVcpu) -> Option<&'static str> {
    if found.hlt_in_guest {
        Some("exits on HLT are disabled (KVM_CAP_X86_DISABLE_EXITS; QEMU: -overcommit cpu-pm=on)")
    } else if found.no_lapic {
        Some("no interrupt controller in the kernel: the VMM handles HLT itself")
    } else {
        None
    }
}

/// The looks of the first walk together, and of each later one.
const FIRST: Duration = Duration::from_secs(1);
const WALK: Duration = Duration::from_millis(250);

/// Names of processes. The tenants decide how long a lookup takes (descriptors, threads), so a walk has a limit.
#[derive(Debug)]
pub(super) struct Labels {
    root: Root,
    known: BTreeMap<VmKey, VmLabel>,
    /// Processes that are called by their number until there is time for a look.
    waiting: BTreeSet<VmKey>,
    left: Duration,
}

impl Labels {
    pub(super) fn new(root: Root) -> Self {
        Self {
            root,
            known: BTreeMap::new(),
            waiting: BTreeSet::new(),
            left: FIRST,
        }
    }

    pub(super) fn of(&mut self, process: VmKey) -> VmLabel {
        if let Some(label) = self.known.get(&process) {
            return label.clone();
        }
        if self.left.is_zero() {
            self.waiting.insert(process);
            return VmLabel::named(format!("pid {}", process.pid));
        }
        let began = Instant::now();
        let label = label_of(&self.root, process.pid);
        self.left = self.left.saturating_sub(began.elapsed());
        self.known.insert(process, label.clone());
        label
    }

    /// A walk begins: gives the processes that waited and have a label now.
    pub(super) fn walk(&mut self) -> Vec<(VmKey, VmLabel)> {
        if !self.known.is_empty() {
            self.left = WALK;
        }
        let waited = std::mem::take(&mut self.waiting).into_iter();
        let labels: Vec<_> = waited.map(|process| (process, self.of(process))).collect();
        let has_one = |(process, _): &(VmKey, _)| !self.waiting.contains(process);
        labels.into_iter().filter(has_one).collect()
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn retain(&mut self, pids: &BTreeSet<Pid>) {
        self.known.retain(|process, _| pids.contains(&process.pid));
        self.waiting.retain(|process| pids.contains(&process.pid));
    }
}

fn label_of(root: &Root, pid: Pid) -> VmLabel {
    discovery::identify(root, pid).map_or_else(
        || VmLabel::named(discovery::unidentified(root, pid)),
        |process| process.label,
    )
}

#[cfg(test)]
mod test {
    use std::path::Path;

    use super::super::skel::collector::types::halt_flag;
    use super::*;

    const PID: Pid = Pid(70);

    fn places() -> Places {
        Places::new(Root::at(Path::new("/there/is/no/such/root")))
    }

    fn found(vm: u64, address: u64, id: u32, tid: Option<u32>) -> FoundVcpu {
        FoundVcpu {
            pid: PID,
            vm,
            address,
            id: VcpuId(id),
            tid: tid.map(Tid),
            ..FoundVcpu::default()
        }
    }

    fn halt(kvm: u64, vcpu: u64, id: u32, tid: u32) -> RawHalt {
        RawHalt {
            kvm,
            vcpu,
            vcpu_id: id,
            tid,
            tgid: PID.0,
            flags: halt_flag::HALT_VCPU_KNOWN.0,
            ..RawHalt::default()
        }
    }

    fn place(vm: u32, vcpu: u32) -> Place {
        Place {
            vm: Some(VmIndex(vm)),
            vcpu: Some(VcpuId(vcpu)),
        }
    }

    #[test]
    fn a_vcpu_that_no_walk_met_after_it_ran_keeps_its_vm() {
        let mut places = places();
        let ran = [
            found(0xa, 0xa0, 0, Some(100)),
            found(0xa, 0xa1, 1, Some(101)),
        ];
        let fresh = [found(0xb, 0xb0, 0, None), found(0xb, 0xb1, 1, None)];
        places.learn(&[ran, fresh].concat(), None);
        assert_eq!(places.of_halt(&halt(0xa, 0xa1, 1, 101)), place(0, 1));
        assert_eq!(places.of_halt(&halt(0xb, 0xb0, 0, 200)), place(1, 0));
        assert_eq!(places.of_halt(&halt(0xb, 0xb1, 1, 201)), place(1, 1));
        // Counts are placed by the thread, as its first halt said.
        assert_eq!(places.of_thread(201), Some(place(1, 1)));
        assert_eq!(places.of_found(&fresh[0]), None, "it had not run");
        assert_eq!(places.roster().vms.len(), 2);
    }

    #[test]
    fn vms_that_no_walk_met_are_told_apart() {
        let mut places = places();
        assert_eq!(places.of_halt(&halt(0xa, 0xa0, 0, 100)), place(0, 0));
        assert_eq!(places.of_halt(&halt(0xb, 0xb0, 0, 200)), place(1, 0));
        let vcpus = places.roster().vcpus.iter();
        let vcpus: Vec<_> = vcpus.map(|vcpu| (vcpu.vm.0, vcpu.tid.0)).collect();
        assert_eq!(vcpus, [(0, 100), (1, 200)]);
        let who = |kvm, tid| Who {
            kvm,
            vcpu: 0xc0,
            vcpu_id: 3,
            tid,
            tgid: PID.0,
        };
        assert_eq!(places.of_exits(who(0xb, 300)), place(1, 3));
        assert_eq!(places.of_exits(who(0xc, 301)), place(2, 3));
        // A walk that comes later books to the same rows.
        places.learn(&[found(0xb, 0xb0, 0, Some(200))], None);
        assert_eq!(places.of_halt(&halt(0xb, 0xb0, 0, 200)), place(1, 0));
        let names: Vec<_> = places.roster().vms.iter().map(|vm| &vm.name).collect();
        assert_eq!(
            names,
            ["pid 70 (gone)-0", "pid 70 (gone)-1", "pid 70 (gone)-2"]
        );
    }

    #[test]
    fn a_halt_that_cannot_say_is_its_processes_first_vm() {
        let mut places = places();
        let mut unknown = halt(0, 0, 0, 100);
        unknown.flags = 0;
        let first = Place {
            vm: Some(VmIndex(0)),
            vcpu: None,
        };
        assert_eq!(places.of_halt(&unknown), first);
        // Once a walk knows the thread, so does everything after it.
        places.learn(&[found(0xa, 0xa0, 4, Some(100))], None);
        assert_eq!(places.of_halt(&unknown), place(0, 4));
    }

    #[test]
    fn a_process_is_called_by_its_number_until_there_is_time_for_a_look() {
        let (_folder, root) = crate::root::made_up(&[("proc/7/comm", "vmm\n")]);
        let mut labels = Labels::new(root);
        labels.left = Duration::ZERO;
        let process = VmKey::first(Pid(7), 1);
        assert_eq!(labels.of(process).name, "pid 7");
        assert_eq!((labels.walk().len(), labels.waiting()), (0, 1));
        labels.left = WALK;
        let named = labels.walk();
        assert_eq!((named[0].0, &*named[0].1.name), (process, "vmm-7"));
        assert_eq!((labels.walk().len(), labels.waiting()), (0, 0));
        assert_eq!(labels.of(process), named[0].1);
    }
}
