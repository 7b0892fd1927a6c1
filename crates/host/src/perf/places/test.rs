//! Who is who, on made-up `/proc` trees.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

struct FakeProc(tempfile::TempDir);

impl FakeProc {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("proc")).unwrap();
        Self(dir)
    }

    /// One more VM of one vCPU in a process that has some.
    fn another(&self, pid: u32, tid: u32, comm: &str) {
        let folder = self.0.path().join(format!("proc/{pid}"));
        symlink("anon_inode:kvm-vm", folder.join(format!("fd/{tid}1"))).unwrap();
        symlink("anon_inode:kvm-vcpu:0", folder.join(format!("fd/{tid}2"))).unwrap();
        let task = folder.join(format!("task/{tid}"));
        fs::create_dir_all(&task).unwrap();
        fs::write(task.join("comm"), comm).unwrap();
    }

    fn vm(&self, pid: u32, threads: &[(u32, &str)]) {
        let folder = self.0.path().join(format!("proc/{pid}"));
        fs::create_dir_all(folder.join("fd")).unwrap();
        symlink("anon_inode:kvm-vm", folder.join("fd/1")).unwrap();
        symlink("anon_inode:kvm-vcpu:0", folder.join("fd/2")).unwrap();
        fs::write(folder.join("comm"), "vmm\n").unwrap();
        let stat = format!("{pid} (vmm) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {pid} 0 0");
        fs::write(folder.join("stat"), stat).unwrap();
        for (tid, comm) in threads {
            let task = folder.join(format!("task/{tid}"));
            fs::create_dir_all(&task).unwrap();
            fs::write(task.join("comm"), comm).unwrap();
        }
    }

    fn kill(&self, pid: u32) {
        fs::remove_dir_all(self.0.path().join(format!("proc/{pid}"))).unwrap();
    }

    fn places(&self, wanted: &[u32]) -> Places {
        let wanted: Vec<Pid> = wanted.iter().map(|pid| Pid(*pid)).collect();
        let mut places = Places::new(Root::at(self.0.path()), &wanted);
        assert_eq!(places.scan().unwrap(), []);
        places
    }
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
    proc.vm(10, &[(11, "vm0-vcpu0")]);
    proc.another(10, 12, "vm1-vcpu0");
    let mut places = proc.places(&[]);
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
    proc.vm(10, &[(11, "vm0-vcpu0")]);
    let mut places = proc.places(&[]);
    assert!(places.halts(Tid(11), Pid(10)));
    proc.another(10, 12, "vm1-vcpu0");
    assert!(places.halts(Tid(12), Pid(10)));
    assert_eq!(placed(&mut places, 11), (VM0, VCPU0));
    assert_eq!(placed(&mut places, 12), (VM1, VCPU0));
    // A thread that is there before its vCPU is.
    let task = proc.0.path().join("proc/10/task/13");
    fs::create_dir_all(&task).unwrap();
    fs::write(task.join("comm"), "vm2-vcpu0").unwrap();
    assert_eq!(places.scan().unwrap(), []);
    proc.another(10, 13, "vm2-vcpu0");
    assert!(places.halts(Tid(13), Pid(10)));
    assert_eq!(placed(&mut places, 13), (VM2, VCPU0));
    // A VM that is gone is not the next one.
    fs::remove_dir_all(proc.0.path().join("proc/10/task/12")).unwrap();
    assert_eq!(places.scan().unwrap(), [Tid(12)]);
    proc.another(10, 14, "vm3-vcpu0");
    assert!(places.halts(Tid(14), Pid(10)));
    assert_eq!(placed(&mut places, 14), (VM3, VCPU0));
    assert_eq!(placed(&mut places, 11), (VM0, VCPU0));
}

#[test]
fn a_vcpu_of_another_vm_of_the_same_process_sends_no_ipi() {
    let proc = FakeProc::new();
    proc.vm(10, &[(11, "vm0-vcpu0"), (13, "vm0-vcpu1")]);
    proc.another(10, 12, "vm1-vcpu0");
    let mut places = proc.places(&[]);
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
    proc.vm(10, &[(11, "vcpu0")]);
    proc.vm(20, &[(21, "vcpu0")]);
    let mut places = proc.places(&[20]);
    assert!(!places.halts(Tid(11), Pid(10)));
    assert!(places.halts(Tid(21), Pid(20)));
    assert_eq!(places.roster().vms.len(), 1);
}

#[test]
fn threads_that_end_are_told_and_numbers_that_serve_again_are_void() {
    let proc = FakeProc::new();
    proc.vm(10, &[(11, "vcpu0")]);
    let mut places = proc.places(&[]);
    proc.kill(10);
    proc.vm(20, &[(11, "vcpu0")]);
    assert!(places.halts(Tid(11), Pid(20)));
    assert_eq!(places.take_reused(), [Tid(11)]);
    assert_eq!(placed(&mut places, 11), (Some(VmIndex(1)), VCPU0));
    proc.kill(20);
    assert_eq!(places.scan().unwrap(), [Tid(11)]);
    assert_eq!(placed(&mut places, 11), (None, None));
    assert_eq!(places.roster().vms.len(), 2);
}

#[test]
fn a_process_that_is_gone_keeps_its_halts() {
    let proc = FakeProc::new();
    let mut places = proc.places(&[]);
    assert!(places.halts(Tid(11), Pid(10)));
    assert_eq!(placed(&mut places, 11), (VM0, None));
    assert_eq!(places.roster().vms[0].name, "process-10");
}

#[test]
fn wakers_are_told_by_their_place() {
    let proc = FakeProc::new();
    proc.vm(10, &[(11, "vcpu0"), (12, "vcpu1")]);
    proc.vm(20, &[(21, "vcpu0")]);
    fs::create_dir(proc.0.path().join("proc/30")).unwrap();
    fs::write(proc.0.path().join("proc/30/comm"), "kvm-pit/10\n").unwrap();
    let mut places = proc.places(&[]);
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
