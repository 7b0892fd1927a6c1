//! What a host allows, read from made-up hosts: each right and each part of the kernel taken away.
#![expect(
    clippy::unwrap_used,
    reason = "a fake that cannot be made fails its test"
)]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use haltwise_core::recording::Rung;
use haltwise_host::root::Root;
use haltwise_host::support::{Level, Refusal, Support, inspect};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

const ALL_RIGHTS: &str = "000001ffffffffff";

struct FakeHost {
    dir: tempfile::TempDir,
}

impl FakeHost {
    fn new() -> Self {
        let host = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        host.write("proc/sys/kernel/osrelease", "6.12.9-cloud\n");
        host.write("proc/sys/kernel/perf_event_paranoid", "2\n");
        host.write("proc/filesystems", "nodev\ttracefs\n");
        host.write("proc/modules", "kvm 1 1 kvm_amd, Live 0x0\n");
        host.write("sys/kernel/btf/vmlinux", "");
        host.write("sys/kernel/btf/kvm", "");
        host.write("sys/module/kvm_amd/parameters/avic", "N\n");
        host.write("sys/module/kvm/parameters/halt_poll_ns", "200000\n");
        host.write("sys/kernel/tracing/events/kvm/kvm_vcpu_wakeup/format", "");
        host.write("dev/kvm", "");
        host.capabilities(ALL_RIGHTS);
        fs::create_dir(host.dir.path().join("proc/self/ns")).unwrap();
        symlink("pid:[4026531836]", host.dir.path().join("proc/self/ns/pid")).unwrap();
        host
    }

    fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn remove(&self, path: &str) -> &Self {
        let path = self.dir.path().join(path);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
        self
    }

    fn capabilities(&self, mask: &str) -> &Self {
        self.write("proc/self/status", &format!("Name:\tx\nCapEff:\t{mask}\n"))
    }

    fn inspect(&self) -> Support {
        inspect(&Root::at(self.dir.path()), 0).unwrap()
    }
}

fn refused(result: &Result<(), Refusal>) -> String {
    result.as_ref().unwrap_err().to_string()
}

#[test]
fn a_host_with_everything_needs_no_word() {
    let support = FakeHost::new().inspect();
    assert_eq!(support.best_rung(), Some(Rung::Bpf));
    assert_eq!(support.tracepoints, Ok(()));
    assert_eq!(support.findings, []);
    assert_eq!(support.knobs.len(), 3);
}

#[test]
fn without_rights_each_rung_says_which_it_needs() {
    let host = FakeHost::new();
    let support = host.capabilities("0000000000000000").inspect();
    assert_eq!(support.best_rung(), None);
    assert_eq!(
        refused(&support.bpf),
        "load BPF programs: not permitted (needs CAP_BPF and CAP_PERFMON)"
    );
    assert!(refused(&support.tracepoints).contains("CAP_PERFMON"));
    assert!(
        support
            .findings
            .iter()
            .any(|f| f.what.contains("not accessible"))
    );

    // CAP_PERFMON alone opens the tracepoint source, so does an open sysctl.
    let support = host.capabilities("0000004000000000").inspect();
    assert_eq!(support.best_rung(), Some(Rung::Tracepoints));
    host.write("proc/sys/kernel/perf_event_paranoid", "-1\n");
    let support = host.capabilities("0").inspect();
    assert_eq!(support.best_rung(), Some(Rung::Tracepoints));
}

#[test]
fn what_the_kernel_lacks_is_named() {
    for (path, said) in [
        ("sys/kernel/btf/vmlinux", "the kernel's types"),
        ("sys/kernel/btf/kvm", "types of module kvm"),
        ("sys/module/kvm", "find KVM"),
    ] {
        let support = FakeHost::new().remove(path).inspect();
        assert!(refused(&support.bpf).contains(said), "{path}");
    }
    let built_in = FakeHost::new();
    built_in.remove("sys/kernel/btf/kvm").remove("proc/modules");
    assert_eq!(built_in.inspect().bpf, Ok(()));
    for (path, said) in [
        ("proc/sys/kernel/perf_event_paranoid", "CONFIG_PERF_EVENTS"),
        (
            "sys/kernel/tracing/events/kvm",
            "find tracepoint kvm:kvm_vcpu_wakeup",
        ),
    ] {
        let support = FakeHost::new().remove(path).inspect();
        assert!(refused(&support.tracepoints).contains(said), "{path}");
    }
}

#[test]
fn tracefs_that_is_not_mounted_is_mounted_by_those_who_may() {
    let host = FakeHost::new();
    host.remove("sys/kernel/tracing");
    assert_eq!(host.inspect().tracepoints, Ok(()));
    let support = host.capabilities("0000004000000000").inspect();
    assert!(refused(&support.tracepoints).contains("mount tracefs"));
    let support = host.remove("proc/filesystems").inspect();
    assert!(refused(&support.tracepoints).contains("CONFIG_TRACING"));
}

#[test]
fn tracefs_that_is_closed_to_us_is_told_from_one_that_is_not_there() {
    let host = FakeHost::new();
    let closed = host.dir.path().join("sys/kernel/tracing");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let root = Root::at(host.dir.path());
    // Capabilities belong to the thread: this one alone gives up the right to read everything.
    let support = std::thread::spawn(move || {
        let mut sets = capabilities(None).unwrap();
        sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
        set_capabilities(None, sets).unwrap();
        inspect(&root, 0).unwrap()
    })
    .join()
    .unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    assert!(refused(&support.tracepoints).contains("read tracefs: not permitted"));
}

#[test]
fn a_kernel_locked_down_refuses_both() {
    let host = FakeHost::new();
    host.write(
        "sys/kernel/security/lockdown",
        "none integrity [confidentiality]\n",
    );
    let support = host.inspect();
    assert!(refused(&support.bpf).contains("locked down"));
    assert!(refused(&support.tracepoints).contains("locked down"));
}

#[test]
fn old_kernels_and_odd_hosts_are_told() {
    let host = FakeHost::new();
    host.write("proc/sys/kernel/osrelease", "5.4.0-1\n");
    assert!(refused(&host.inspect().bpf).contains("5.8"));
    host.write("proc/sys/kernel/osrelease", "5.10.0-1\n");
    let support = host.inspect();
    assert_eq!(support.bpf, Ok(()));
    assert!(support.findings.iter().any(|f| f.level == Level::Warning));

    let host = FakeHost::new();
    host.remove("dev/kvm").remove("proc/self/ns/pid");
    symlink("pid:[4026532000]", host.dir.path().join("proc/self/ns/pid")).unwrap();
    let told: Vec<_> = host
        .inspect()
        .findings
        .into_iter()
        .map(|f| f.what)
        .collect();
    assert_eq!(
        told,
        [
            "/dev/kvm is not there",
            "we run in a PID namespace of our own"
        ]
    );
}

#[test]
fn a_host_that_cannot_be_read_is_an_error_with_its_path() {
    let host = FakeHost::new();
    host.write("proc/sys/kernel/osrelease", "mainframe\n");
    let error = inspect(&Root::at(host.dir.path()), 0).unwrap_err();
    assert!(error.to_string().contains("osrelease"), "{error}");
    host.write("proc/sys/kernel/osrelease", "6.1\n");
    host.write("proc/self/status", "CapEff:\tnone\n");
    let error = inspect(&Root::at(host.dir.path()), 0).unwrap_err();
    assert!(error.to_string().contains("status"), "{error}");
}

#[test]
fn this_host_can_be_inspected() {
    let support = inspect(&Root::host(), 0).unwrap();
    assert!(support.kernel.is_from(3, 0));
}
