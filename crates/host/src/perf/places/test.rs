//! VMs and vCPUs of threads, on made-up `/proc` trees.

use std::fs;

use super::*;
use crate::discovery::test::{FakeProc, ONE_VCPU};

/// A process of a VM with one descriptor of a vCPU.
fn vm(proc: &FakeProc, pid: u32, threads: &[(u32, &str)]) {
    proc.process(pid, "/bin/vmm", b"", b"vmm\n")
        .fds(pid, &ONE_VCPU)
        .threads(pid, threads);
}

/// One more VM of one vCPU in a process that has some.
fn another(proc: &FakeProc, pid: u32, tid: u32, comm: &str) {
    proc.fds(pid, &ONE_VCPU).threads(pid, &[(tid, comm)]);
}

fn places_of(proc: &FakeProc, wanted: &[u32]) -> Places {
    let wanted: Vec<Pid> = wanted.iter().map(|pid| Pid(*pid)).collect();
    let mut places = Places::new(proc.root(), &wanted);
    assert_eq!(places.scan().unwrap(), []);
    places
}

fn placed(places: &mut Places, tid: u32) -> (Option<VmIndex>, Option<VcpuId>) {
    let mut halt = Halt {
        tid: Tid(tid),
        ..Halt::default()
    };
    places.place(&mut halt);
    (halt.vm, halt.vcpu)
}

const VM0: Option<VmIndex> = Some(VmIndex(0));
const VCPU0: Option<VcpuId> = Some(VcpuId(0));

const VM1: Option<VmIndex> = Some(VmIndex(1));
const VM2: Option<VmIndex> = Some(VmIndex(2));
const VM3: Option<VmIndex> = Some(VmIndex(3));

#[test]
fn vms_of_one_process_are_told_apart_by_the_names_of_their_threads() {
    let proc = FakeProc::new();
    vm(&proc, 10, &[(11, "vm0-vcpu0")]);
    another(&proc, 10, 12, "vm1-vcpu0");
    let mut places = places_of(&proc, &[]);
    for tid in [12, 11] {
        assert!(places.halts(Tid(tid), Pid(10)));
    }
    assert_eq!(placed(&mut places, 11), (VM0, VCPU0));
    assert_eq!(placed(&mut places, 12), (VM1, VCPU0));
    let rows = places.roster().vcpus.iter();
    let rows: Vec<_> = rows.map(|it| (it.vm.0, it.tid.0)).collect();
    assert_eq!(rows, [(0, 11), (1, 12)]);
    let ordinals = places.roster().vms.iter();
    let ordinals: Vec<_> = ordinals.map(|vm| vm.key.ordinal).collect();
    assert_eq!(ordinals, [0, 1]);
    let missing = places.missing();
    assert!(
        missing[0].reason.contains("names and the order"),
        "{missing:?}"
    );
}

/// A process makes one VM after the other: what was placed stays, who comes later is another one.
#[test]
fn a_vm_that_its_process_makes_later_is_another_one() {
    let proc = FakeProc::new();
    vm(&proc, 10, &[(11, "vm0-vcpu0")]);
    let mut places = places_of(&proc, &[]);
    assert!(places.halts(Tid(11), Pid(10)));
    another(&proc, 10, 12, "vm1-vcpu0");
    assert!(places.halts(Tid(12), Pid(10)));
    assert_eq!(placed(&mut places, 11), (VM0, VCPU0));
    assert_eq!(placed(&mut places, 12), (VM1, VCPU0));
    // A thread that is there before its vCPU is.
    proc.threads(10, &[(13, "vm2-vcpu0")]);
    assert_eq!(places.scan().unwrap(), []);
    another(&proc, 10, 13, "vm2-vcpu0");
    assert!(places.halts(Tid(13), Pid(10)));
    assert_eq!(placed(&mut places, 13), (VM2, VCPU0));
    // A VM that is gone is not the next one.
    fs::remove_dir_all(proc.folder(10).join("task/12")).unwrap();
    assert_eq!(places.scan().unwrap(), [Tid(12)]);
    another(&proc, 10, 14, "vm3-vcpu0");
    assert!(places.halts(Tid(14), Pid(10)));
    assert_eq!(placed(&mut places, 14), (VM3, VCPU0));
    assert_eq!(placed(&mut places, 11), (VM0, VCPU0));
}

#[test]
fn a_vcpu_of_another_vm_of_the_same_process_sends_no_ipi() {
    let proc = FakeProc::new();
    vm(&proc, 10, &[(11, "vm0-vcpu0"), (13, "vm0-vcpu1")]);
    another(&proc, 10, 12, "vm1-vcpu0");
    let mut places = places_of(&proc, &[]);
    let mut source = |tid: u32| {
        let waker = Waker {
            tid: Tid(tid),
            flags: 0,
        };
        places.source(Tid(11), waker, Pid(10))
    };
    assert_eq!(source(13), Some(WakeSource::Ipi));
    assert_eq!(source(12), Some(WakeSource::Device));
}

#[test]
fn only_wanted_processes_are_placed() {
    let proc = FakeProc::new();
    vm(&proc, 10, &[(11, "vcpu0")]);
    vm(&proc, 20, &[(21, "vcpu0")]);
    let mut places = places_of(&proc, &[20]);
    assert!(!places.halts(Tid(11), Pid(10)));
    assert!(places.halts(Tid(21), Pid(20)));
    assert_eq!(places.roster().vms.len(), 1);
}

#[test]
fn threads_that_end_are_told_and_numbers_that_serve_again_are_void() {
    let proc = FakeProc::new();
    vm(&proc, 10, &[(11, "vcpu0")]);
    let mut places = places_of(&proc, &[]);
    fs::remove_dir_all(proc.folder(10)).unwrap();
    vm(&proc, 20, &[(11, "vcpu0")]);
    assert!(places.halts(Tid(11), Pid(20)));
    assert_eq!(places.take_reused(), [Tid(11)]);
    assert_eq!(placed(&mut places, 11), (Some(VmIndex(1)), VCPU0));
    fs::remove_dir_all(proc.folder(20)).unwrap();
    assert_eq!(places.scan().unwrap(), [Tid(11)]);
    assert_eq!(placed(&mut places, 11), (None, None));
    assert_eq!(places.roster().vms.len(), 2);
}

#[test]
fn a_process_that_is_gone_keeps_its_halts() {
    let proc = FakeProc::new();
    let mut places = places_of(&proc, &[]);
    assert!(places.halts(Tid(11), Pid(10)));
    assert_eq!(placed(&mut places, 11), (VM0, None));
    assert_eq!(places.roster().vms[0].name, "process-10");
}

#[test]
fn wakers_are_told_by_their_place() {
    let proc = FakeProc::new();
    vm(&proc, 10, &[(11, "vcpu0"), (12, "vcpu1")]);
    vm(&proc, 20, &[(21, "vcpu0")]);
    proc.process(30, "/none", b"", b"kvm-pit/10\n");
    let mut places = places_of(&proc, &[]);
    let mut source = |tid: u32, flags: u8, pid: u32| {
        let waker = Waker {
            tid: Tid(tid),
            flags,
        };
        places.source(Tid(11), waker, Pid(pid))
    };
    assert_eq!(source(12, 0, 10), Some(WakeSource::Ipi));
    assert_eq!(source(13, 0, 10), Some(WakeSource::Device));
    assert_eq!(source(30, 0, 30), Some(WakeSource::Timer));
    assert_eq!(source(21, 0, 20), Some(WakeSource::Device));
    assert_eq!(source(12, 0x08, 10), Some(WakeSource::Timer));
    assert_eq!(source(99, 0, 99), Some(WakeSource::Unknown));
    let waker = Waker {
        tid: Tid(1),
        flags: 0,
    };
    assert_eq!(places.source(Tid(77), waker, Pid(1)), None);
}
