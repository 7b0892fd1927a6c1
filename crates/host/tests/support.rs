//! Sources that a host allows, read from made-up hosts: each right and each part of the kernel taken away.
#![expect(
    clippy::unwrap_used,
    reason = "a fake that cannot be made fails its test"
)]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use haltwise_core::recording::Rung;
use haltwise_host::root::{Root, RootError};
use haltwise_host::support::{Level, Refusal, Support, inspect};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

const RELEASE: &str = "proc/sys/kernel/osrelease";
const STATUS: &str = "proc/self/status";
const PARANOID: &str = "proc/sys/kernel/perf_event_paranoid";
const TRACEFS: &str = "sys/kernel/tracing";

const FILES: [(&str, &str); 11] = [
    (RELEASE, "6.12.9-cloud\n"),
    (PARANOID, "2\n"),
    ("proc/filesystems", "nodev\ttracefs\n"),
    ("proc/modules", "kvm 1 1 kvm_amd, Live 0x0\n"),
    ("sys/kernel/btf/vmlinux", ""),
    ("sys/kernel/btf/kvm", ""),
    ("sys/module/kvm_amd/parameters/avic", "N\n"),
    ("sys/module/kvm/parameters/halt_poll_ns", "200000\n"),
    ("sys/kernel/tracing/events/kvm/kvm_vcpu_wakeup/format", ""),
    ("dev/kvm", ""),
    (STATUS, "Name:\tx\nCapEff:\t000001ffffffffff\n"),
];

const NO_RIGHTS: (&str, Option<&str>) = (STATUS, Some("CapEff:\t0000000000000000\n"));
const PERFMON: (&str, Option<&str>) = (STATUS, Some("CapEff:\t0000004000000000\n"));

/// A host with everything, but that these files have other texts, or are not there.
fn host(changes: &[(&str, Option<&str>)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let below = |path: &str| dir.path().join(path);
    let files = FILES.map(|(path, text)| (path, Some(text)));
    for (path, text) in files.iter().chain(changes) {
        let path = below(path);
        match text {
            Some(text) => {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            None if path.is_dir() => fs::remove_dir_all(path).unwrap(),
            None => fs::remove_file(path).unwrap(),
        }
    }
    fs::create_dir(below("proc/self/ns")).unwrap();
    symlink("pid:[4026531836]", below("proc/self/ns/pid")).unwrap();
    dir
}

fn look(dir: &Path) -> Result<Support, RootError> {
    inspect(&Root::at(dir), 0)
}

fn inspected(changes: &[(&str, Option<&str>)]) -> Support {
    look(host(changes).path()).unwrap()
}

fn refused(result: &Result<(), Refusal>) -> String {
    result.as_ref().unwrap_err().to_string()
}

#[test]
fn a_host_with_everything_needs_no_word() {
    let support = inspected(&[]);
    assert_eq!(support.best_rung(), Some(Rung::Bpf));
    assert_eq!(support.tracepoints, Ok(()));
    assert_eq!(support.findings, []);
    assert_eq!(support.knobs.len(), 3);
}

#[test]
fn without_rights_each_rung_says_which_it_needs() {
    let support = inspected(&[NO_RIGHTS]);
    assert_eq!(support.best_rung(), None);
    assert_eq!(
        refused(&support.bpf),
        "load BPF programs: not permitted (needs CAP_BPF and CAP_PERFMON)"
    );
    assert!(refused(&support.tracepoints).contains("CAP_PERFMON"));
    let mut told = support.findings.iter();
    assert!(told.any(|it| it.what.contains("not accessible")));
    // CAP_PERFMON alone opens the tracepoint source, so does an open sysctl.
    for changes in [&[PERFMON][..], &[NO_RIGHTS, (PARANOID, Some("-1\n"))]] {
        assert_eq!(inspected(changes).best_rung(), Some(Rung::Tracepoints));
    }
    // CAP_SYS_ADMIN stands for both; CAP_BPF alone loads nothing.
    for (effective, best) in [
        ("0000000000200000", Some(Rung::Bpf)),
        ("000000c000000000", Some(Rung::Bpf)),
        ("0000008000000000", None),
    ] {
        let status = format!("CapPrm:\t0\nCapEff:\t{effective}\nCapBnd:\t0\n");
        let support = inspected(&[(STATUS, Some(&status))]);
        assert_eq!(support.best_rung(), best, "{effective}");
    }
}

#[test]
fn what_the_kernel_lacks_is_named() {
    for (path, said) in [
        ("sys/kernel/btf/vmlinux", "the kernel's types"),
        ("sys/kernel/btf/kvm", "types of module kvm"),
        ("sys/module/kvm", "find KVM"),
    ] {
        let support = inspected(&[(path, None)]);
        assert!(refused(&support.bpf).contains(said), "{path}");
    }
    let built_in = inspected(&[("sys/kernel/btf/kvm", None), ("proc/modules", None)]);
    assert_eq!(built_in.bpf, Ok(()));
    for (path, said) in [
        (PARANOID, "CONFIG_PERF_EVENTS"),
        (
            "sys/kernel/tracing/events/kvm",
            "find tracepoint kvm:kvm_vcpu_wakeup",
        ),
    ] {
        let support = inspected(&[(path, None)]);
        assert!(refused(&support.tracepoints).contains(said), "{path}");
    }
}

#[test]
fn tracefs_that_is_not_mounted_is_mounted_by_those_who_may() {
    let unmounted = (TRACEFS, None);
    assert_eq!(inspected(&[unmounted]).tracepoints, Ok(()));
    let support = inspected(&[unmounted, PERFMON]);
    assert!(refused(&support.tracepoints).contains("mount tracefs"));
    let support = inspected(&[unmounted, PERFMON, ("proc/filesystems", None)]);
    assert!(refused(&support.tracepoints).contains("CONFIG_TRACING"));
}

#[test]
fn tracefs_that_is_closed_to_us_is_told_from_one_that_is_not_there() {
    let dir = host(&[]);
    let closed = dir.path().join(TRACEFS);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let below = dir.path().to_owned();
    // Capabilities belong to the thread: this one alone gives up the right to read everything.
    let support = std::thread::spawn(move || {
        let mut sets = capabilities(None).unwrap();
        sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
        set_capabilities(None, sets).unwrap();
        look(&below).unwrap()
    })
    .join()
    .unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    assert!(refused(&support.tracepoints).contains("read tracefs: not permitted"));
}

#[test]
fn a_kernel_locked_down_refuses_both() {
    let text = Some("none integrity [confidentiality]\n");
    let support = inspected(&[("sys/kernel/security/lockdown", text)]);
    assert!(refused(&support.bpf).contains("locked down"));
    assert!(refused(&support.tracepoints).contains("locked down"));
}

#[test]
fn old_kernels_and_odd_hosts_are_told() {
    let of = |release| inspected(&[(RELEASE, Some(release))]);
    assert!(refused(&of("5.4.0-1\n").bpf).contains("5.8"));
    let support = of("5.10.0-1\n");
    assert_eq!(support.bpf, Ok(()));
    assert!(support.findings.iter().any(|f| f.level == Level::Warning));

    let odd = host(&[("dev/kvm", None)]);
    let namespace = odd.path().join("proc/self/ns/pid");
    fs::remove_file(&namespace).unwrap();
    symlink("pid:[4026532000]", namespace).unwrap();
    let told = look(odd.path()).unwrap().findings.into_iter();
    let told: Vec<_> = told.map(|f| f.what).collect();
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
    for (path, text) in [(RELEASE, "mainframe\n"), (STATUS, "CapEff:\tnone\n")] {
        let error = look(host(&[(path, Some(text))]).path()).unwrap_err();
        assert!(error.to_string().contains(path), "{error}");
    }
}

#[test]
fn this_host_can_be_inspected() {
    let support = inspect(&Root::host(), 0).unwrap();
    assert!(support.kernel.is_from(3, 0));
}
