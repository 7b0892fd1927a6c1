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

    /// A VMM with one vCPU and these threads.
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

#[test]
fn a_vm_that_comes_later_is_learnt_by_its_first_halt_with_its_vcpus() {
    let proc = FakeProc::new();
    let mut places = proc.places(&[]);
    assert_eq!(places.take_changed(), Some(vec![]));
    proc.vm(10, &[(10, "vmm"), (11, "vcpu0")]);
    assert!(places.halts(Tid(11), Pid(10)));
    assert_eq!(placed(&mut places, 11), (VM0, VCPU0));
    assert_eq!(places.take_changed(), Some(vec![Tid(11)]));
    assert_eq!(places.take_changed(), None);
    assert_eq!(places.roster().vcpus.len(), 1);
}

#[test]
fn a_thread_without_a_telling_name_is_known_by_its_halts() {
    let proc = FakeProc::new();
    proc.vm(10, &[(10, "vmm"), (11, "worker")]);
    let mut places = proc.places(&[]);
    assert!(places.halts(Tid(11), Pid(10)));
    assert_eq!(placed(&mut places, 11), (VM0, None));
    places.runs(Tid(11), VcpuId(0));
    assert_eq!(placed(&mut places, 11), (VM0, VCPU0));
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
