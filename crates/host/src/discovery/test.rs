//! Discovery against made-up `/proc` trees: every VMM, and processes that wish us ill.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use super::*;

pub(crate) struct FakeProc {
    dir: tempfile::TempDir,
}

impl FakeProc {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("proc")).unwrap();
        Self { dir }
    }

    pub(crate) fn root(&self) -> Root {
        Root::at(self.dir.path())
    }

    pub(crate) fn folder(&self, pid: u32) -> PathBuf {
        self.dir.path().join(format!("proc/{pid}"))
    }

    pub(crate) fn process(&self, pid: u32, exe: &str, arguments: &[u8], comm: &[u8]) -> &Self {
        let folder = self.folder(pid);
        fs::create_dir_all(folder.join("fd")).unwrap();
        fs::create_dir_all(folder.join("task")).unwrap();
        symlink(exe, folder.join("exe")).unwrap();
        fs::write(folder.join("cmdline"), arguments).unwrap();
        fs::write(folder.join("comm"), comm).unwrap();
        let comm = String::from_utf8_lossy(comm);
        let stat = format!(
            "{pid} ({}) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0\n",
            comm.trim_end()
        );
        fs::write(folder.join("stat"), stat).unwrap();
        self
    }

    pub(crate) fn fds(&self, pid: u32, targets: &[&str]) -> &Self {
        let first = fs::read_dir(self.folder(pid).join("fd")).unwrap().count();
        for (number, target) in (first..).zip(targets) {
            symlink(target, self.folder(pid).join(format!("fd/{number}"))).unwrap();
        }
        self
    }

    pub(crate) fn threads(&self, pid: u32, threads: &[(u32, &str)]) -> &Self {
        for (tid, comm) in threads {
            let folder = self.folder(pid).join(format!("task/{tid}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("comm"), format!("{comm}\n")).unwrap();
        }
        self
    }
}

pub(crate) const ONE_VCPU: [&str; 3] = ["/dev/kvm", "anon_inode:kvm-vm", "anon_inode:kvm-vcpu:0"];

#[test]
fn every_vmm_is_found_and_named() {
    let proc = FakeProc::new();
    for (pid, exe, arguments, thread) in [
        (
            10,
            "/usr/bin/qemu-system-x86_64",
            &b"/usr/bin/qemu-system-x86_64\0-name\0guest=web,debug-threads=on\0-uuid\x006f1d2c3a-0b4e-4c5d-8e7f-a1b2c3d4e5f6\0"[..],
            "CPU 0/KVM",
        ),
        (
            20,
            "/usr/bin/crosvm (deleted)",
            b"crosvm\0run\0--cid\09\0",
            "crosvm_vcpu0",
        ),
        (
            30,
            "/firecracker",
            b"/firecracker\0--id=fn-1\0",
            "fc_vcpu 0",
        ),
        (
            40,
            "/opt/cloud-hypervisor",
            b"cloud-hypervisor\0--api-socket\0/run/ch.sock\0",
            "vcpu0",
        ),
        (
            50,
            "/usr/bin/haltwise-lab",
            b"haltwise-lab\0run\0--name\0demo\0",
            "vcpu-0",
        ),
        (60, "/usr/bin/lkvm", b"lkvm\0run\0", "kvm-vcpu-0"),
    ] {
        proc.process(pid, exe, arguments, b"comm\n")
            .fds(pid, &ONE_VCPU)
            .threads(pid, &[(pid, "comm"), (pid + 1, thread)]);
    }

    let found = scan(&proc.root()).unwrap();
    let rows: Vec<_> = found
        .vms
        .iter()
        .map(|vm| (vm.pid().0, vm.label.vmm, vm.label.name.as_str()))
        .collect();
    assert_eq!(
        rows,
        [
            (10, VmmKind::Qemu, "web"),
            (20, VmmKind::Crosvm, "cid-9"),
            (30, VmmKind::Firecracker, "fn-1"),
            (40, VmmKind::CloudHypervisor, "ch"),
            (50, VmmKind::HaltwiseLab, "demo"),
            (60, VmmKind::Other, "comm-60"),
        ]
    );
    for vm in &found.vms {
        assert_eq!(vm.key.start_ticks, 77);
        assert_eq!(vm.vcpus, [VcpuId(0)]);
        let threads: Vec<_> = vm.threads.iter().map(|it| (it.tid, it.id)).collect();
        assert_eq!(threads, [(Tid(vm.pid().0 + 1), VcpuId(0))], "{vm:?}");
        assert_eq!(identify(&proc.root(), vm.pid()).as_ref(), Some(vm));
    }
    let uuid = "6f1d2c3a-0b4e-4c5d-8e7f-a1b2c3d4e5f6";
    assert_eq!(found.vms[0].label.identity.uuid.as_deref(), Some(uuid));
    assert_eq!((found.denied, found.failed.len()), (0, 0));
}

#[test]
fn a_process_without_vms_is_no_vmm() {
    let proc = FakeProc::new();
    proc.process(70, "/bin/bash", b"bash\0--name\0x\0", b"bash\n")
        .fds(70, &["/dev/null", "socket:[1]", "/dev/kvm"]);
    assert_eq!(scan(&proc.root()).unwrap().vms, []);
    assert_eq!(identify(&proc.root(), Pid(70)), None);
    assert_eq!(identify(&proc.root(), Pid(71)), None);
}

#[test]
fn hostile_names_are_bounded_and_printable() {
    let proc = FakeProc::new();
    let mut arguments = b"haltwise-lab\0--name\0\x1b]0;owned\x07\xff".to_vec();
    arguments.extend(std::iter::repeat_n(b'x', 100_000));
    proc.process(10, "/bin/haltwise-lab", &arguments, b"a) R 1\n)(\n")
        .fds(10, &ONE_VCPU);
    proc.process(11, "/bin/x", b"", b"\x1b[2J\n")
        .fds(11, &ONE_VCPU);
    proc.process(12, "/bin/x", b"", b"\n").fds(12, &ONE_VCPU);

    let found = scan(&proc.root()).unwrap().vms;
    assert!(
        found[0].label.name.starts_with("?]0;owned?"),
        "{}",
        found[0].label.name
    );
    assert_eq!(found[0].label.name.chars().count(), LONGEST_NAME);
    assert_eq!(found[0].key.start_ticks, 77);
    assert_eq!(found[1].label.name, "?[2J-11");
    assert_eq!(found[2].label.name, "process-12");
}

#[test]
fn hostile_descriptors_do_no_harm() {
    let proc = FakeProc::new();
    proc.process(10, "/bin/x", b"x\0", b"x\n").fds(
        10,
        &[
            "anon_inode:kvm-vm",
            "anon_inode:kvm-vcpu:",
            "anon_inode:kvm-vcpu:-1",
            "anon_inode:kvm-vcpu:99999999999999999999",
            "anon_inode:kvm-vcpu:3",
            "/tmp/anon_inode:kvm-vcpu:4",
            "/dev/vfio/12",
        ],
    );
    let vm = identify(&proc.root(), Pid(10)).unwrap();
    assert_eq!(vm.vcpus, [VcpuId(3)]);
    assert!(vm.vfio);
    assert!(!vm.has_several());
}

#[test]
fn processes_that_vanish_are_skipped_and_broken_ones_told() {
    let proc = FakeProc::new();
    // Gone before its descriptors were listed; gone before its stat was read; a stat that lies.
    fs::create_dir(proc.folder(10)).unwrap();
    proc.process(11, "/bin/x", b"x\0", b"x\n")
        .fds(11, &ONE_VCPU);
    fs::remove_file(proc.folder(11).join("stat")).unwrap();
    proc.process(12, "/bin/x", b"x\0", b"x\n")
        .fds(12, &ONE_VCPU);
    fs::write(proc.folder(12).join("stat"), "nonsense").unwrap();

    let found = scan(&proc.root()).unwrap();
    assert_eq!((found.vms.len(), found.denied), (0, 0));
    let told: Vec<_> = found.failed.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 1);
    assert!(told[0].contains("proc/12/stat"), "{told:?}");
}

#[test]
fn processes_that_we_may_not_look_into_are_counted() {
    let proc = FakeProc::new();
    for pid in [10, 11] {
        proc.process(pid, "/bin/x", b"x\0", b"x\n")
            .fds(pid, &ONE_VCPU);
    }
    let hidden = proc.folder(10).join("fd");
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o000)).unwrap();
    let root = proc.root();
    // Capabilities belong to the thread: this one alone gives up the right to read everything.
    let found = std::thread::spawn(move || {
        let mut sets = capabilities(None).unwrap();
        sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
        set_capabilities(None, sets).unwrap();
        scan(&root).unwrap()
    })
    .join()
    .unwrap();
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!((found.vms.len(), found.denied), (1, 1));
}

#[test]
fn a_host_without_proc_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    assert!(scan(&Root::at(dir.path())).unwrap_err().is_absent());
}
