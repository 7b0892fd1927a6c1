//! Exits on real KVM: what the lab's guest makes by prime numbers, the recorder counts to the unit.
//!
//! KVM may virtualise in software here, and then tells no `kvm_exit`: what an exit is about, and the
//! returns to the VMM, it tells all the same.

use std::collections::BTreeSet;
use std::process::Command;

use haltwise_capture::capture::Capture;
use haltwise_core::exit::{Exits, Kind};
use rustix::process::Signal;

use crate::bench::{Bench, Recorded, gets_a_cpu, haltwise, told};

const ALL_KEYS: &str = "--exits=msr,pio,mmio,gpa,hypercall,vector,cpuid";

/// What the guest makes a round: the lab's name, and what the recorder must call it.
const SUBS: [(&str, Kind, u64); 7] = [
    ("pio-out-0x510", Kind::PioWrite, 0x510),
    ("pio-in-0x511", Kind::PioRead, 0x511),
    ("mmio-write-0xd0000000", Kind::MmioWrite, 0xd000_0000),
    ("mmio-read-0xd0000004", Kind::MmioRead, 0xd000_0004),
    ("cpuid", Kind::Cpuid, 0x4000_0000),
    ("rdmsr", Kind::MsrRead, 0x179),
    ("wrmsr", Kind::MsrWrite, 0x17a),
];

fn rows(capture: &Capture) -> Vec<Exits> {
    capture.exits().unwrap().map(Result::unwrap).collect()
}

/// The rows of the lab's own threads: other tests have VMs of their own at the same time.
fn rows_of_lab(recorded: &Recorded) -> Vec<Exits> {
    let tids: BTreeSet<u32> = recorded.counted().iter().map(|it| it.tid).collect();
    let mut rows = rows(&recorded.capture);
    rows.retain(|row| tids.contains(&row.tid.0));
    rows
}

fn count(rows: &[Exits], is_it: impl Fn(&Exits) -> bool) -> u64 {
    rows.iter()
        .filter(|row| is_it(row))
        .map(|row| row.count)
        .sum()
}

fn of_lab(recorded: &Recorded, of: &str, name: &str) -> u64 {
    let vms = recorded.lab["vms"].as_array().unwrap().iter();
    let vcpus = vms.flat_map(|vm| vm["vcpus"].as_array().unwrap());
    vcpus.map(|vcpu| vcpu[of][name].as_u64().unwrap_or(0)).sum()
}

#[test]
fn every_port_msr_address_and_leaf_is_counted_to_the_unit() {
    let Some(bench) = Bench::set_up() else { return };
    let recorded = bench.record(&[ALL_KEYS], &["exits", "--rounds", "5", "--vms", "2"]);
    let rows = rows_of_lab(&recorded);
    for (made_as, kind, sub) in SUBS {
        let counted = count(&rows, |row| {
            row.cause.kind == kind && row.cause.sub == Some(sub)
        });
        assert_eq!(counted, of_lab(&recorded, "exits", made_as), "{made_as}");
    }
    // KVM_EXIT_IO, KVM_EXIT_MMIO: each VM says by one more `out` that it has ended.
    let returns = |reason| {
        let is_it =
            |row: &Exits| row.cause.kind == Kind::UserspaceExit && row.cause.reason == Some(reason);
        count(&rows, is_it)
    };
    let made = |name| of_lab(&recorded, "exits", name);
    assert_eq!(returns(2), made("pio-out-0x510") + made("pio-in-0x511") + 2);
    assert_eq!(
        returns(6),
        made("mmio-write-0xd0000000") + made("mmio-read-0xd0000004")
    );
    let exits = count(&rows, |row| row.cause.kind == Kind::Exit);
    let emulated = count(&rows, |row| row.cause.kind == Kind::EmulateInsn);
    assert_eq!(emulated, of_lab(&recorded, "stats", "insn_emulation"));
    if exits > 0 {
        assert_eq!(exits, of_lab(&recorded, "stats", "exits"));
    }
    assert_eq!(recorded.lost(), 0);
    assert!(
        rows.iter()
            .all(|row| row.vm.is_some() && row.vcpu.is_some())
    );
    let vms: BTreeSet<_> = rows.iter().map(|row| row.vm).collect();
    assert_eq!(vms.len(), 2);
}

#[test]
fn times_in_the_vmm_are_of_returns_and_all_but_the_last_have_one() {
    let Some(bench) = Bench::set_up() else { return };
    let recorded = bench.record(&["--exits"], &["exits", "--rounds", "3"]);
    let rows = rows_of_lab(&recorded);
    let returns: Vec<_> = rows
        .iter()
        .filter(|row| row.cause.kind == Kind::UserspaceExit)
        .collect();
    let timed: u64 = returns.iter().map(|row| row.handling_ns.count()).sum();
    let all: u64 = returns.iter().map(|row| row.count).sum();
    assert_eq!(timed, all - 1);
    for row in returns {
        assert_eq!(row.user_ns, row.handling_ns.sum());
    }
    // Without sub-keys none is told.
    assert!(rows.iter().all(|row| !row.cause.kind.is_sub()));
}

#[test]
fn a_vm_that_is_named_is_the_only_one_counted() {
    let Some(bench) = Bench::set_up() else { return };
    let labs = ["wanted", "other"]
        .map(|name| bench.keep_halting("fixed:500us", &["--name", name, "--vcpus", "2"]));
    ["wanted", "other"].into_iter().for_each(Bench::wait_for);
    let out = bench.path("capture");
    let output = Command::new(haltwise())
        .args(["record", "--vm", "wanted", "--exits=pio"])
        .args(["--duration", "1200ms", "-o"])
        .arg(&out)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", told(&output));
    for lab in labs {
        lab.end(Signal::TERM);
    }
    let capture = Capture::open(&out).unwrap();
    let rows = rows(&capture);
    assert!(!rows.is_empty());
    let names = |row: &Exits| {
        let vm = row.vm.unwrap();
        capture.info().roster.vms[vm.0 as usize].name.clone()
    };
    for row in &rows {
        assert_eq!(names(row), "wanted");
    }
}

#[test]
fn vms_that_come_and_go_keep_their_exits() {
    let Some(bench) = Bench::set_up() else { return };
    let script = "for name in first second third; do \
                  \"$1\" run exits --rounds 1 --name $name; done";
    let output = Command::new(haltwise())
        .args(["record", "--exits=cpuid", "-o"])
        .arg(bench.path("capture"))
        .args(["--", "sh", "-c", script, "sh"])
        .arg(haltwise().with_file_name("haltwise-lab"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", told(&output));
    let capture = Capture::open(&bench.path("capture")).unwrap();
    let rows = rows(&capture);
    for name in ["first", "second", "third"] {
        let roster = &capture.info().roster;
        let Some(vm) = roster.vms.iter().find(|vm| vm.name == name) else {
            assert!(!gets_a_cpu(), "no VM {name}");
            println!("skipped: other work takes the CPUs, and {name} was gone before it was named");
            return;
        };
        let is_it = |row: &Exits| row.cause.kind == Kind::Cpuid && row.vm == Some(vm.index);
        assert_eq!(count(&rows, is_it), 113, "{name}");
    }
}

#[test]
fn a_vcpu_that_goes_from_thread_to_thread_keeps_its_exits_and_halts() {
    let Some(bench) = Bench::set_up() else { return };
    let lab = ["hop", "--rounds", "40", "--vcpus", "2", "--name", "hopper"];
    let recorded = bench.record(&["--exits=pio"], &lab);
    let roster = &recorded.capture.info().roster;
    let vm = roster.vms.iter().find(|vm| vm.name == "hopper").unwrap();
    let mut rows = rows(&recorded.capture);
    rows.retain(|row| row.vm == Some(vm.index));
    for vcpu in [0, 1] {
        let own: Vec<_> = rows
            .iter()
            .filter(|row| row.vcpu.map(|it| it.0) == Some(vcpu))
            .cloned()
            .collect();
        let hops = count(&own, |row| {
            row.cause.kind == Kind::PioWrite && row.cause.sub == Some(0xf5)
        });
        assert_eq!(hops, 40);
        let threads: BTreeSet<_> = own.iter().map(|row| row.tid).collect();
        assert_eq!(threads.len(), 41);
        // No thread saw the end of its own return to the VMM: the next one entered.
        let is_return = |row: &&Exits| row.cause.kind == Kind::UserspaceExit;
        assert!(
            own.iter()
                .filter(is_return)
                .all(|row| row.handling_ns.count() == 0)
        );
        let halts = recorded.capture.halts().unwrap().map(Result::unwrap);
        let halts = halts.filter(|it| it.vm == Some(vm.index));
        let halts = halts.filter(|it| it.vcpu.map(|it| it.0) == Some(vcpu));
        let made = &recorded.counted()[usize::try_from(vcpu).unwrap()];
        assert_eq!(halts.count() as u64, made.waits + made.successful);
    }
    assert_eq!(recorded.lost(), 0);
}

fn programs_of(process: u32) -> usize {
    let files = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    files
        .filter_map(|file| std::fs::read_link(file.ok()?.path()).ok())
        .filter(|target| target.to_string_lossy().contains("bpf-prog"))
        .count()
}

#[test]
fn a_recording_without_exits_loads_nothing_for_them() {
    let Some(bench) = Bench::set_up() else { return };
    let programs = |options: &[&str], name: &str| {
        let recorder = bench.recorder(name, options);
        let programs = programs_of(recorder.id());
        recorder.end(Signal::TERM);
        programs
    };
    let (plain, reasons) = (programs(&[], "plain"), programs(&["--exits"], "reasons"));
    let keys = programs(&["--exits=msr,cpuid"], "keys");
    // kvm_exit of this kernel's form and of older ones, kvm_entry, kvm_userspace_exit, kvm_fpu,
    // kvm_inj_virq, kvm_emulate_insn; then one for each sub-key.
    assert_eq!((reasons - plain, keys - reasons), (7, 2));
}
