//! Exits of the VM that is named alone, and the programs that count them. That they are counted to the unit is held in
//! stock kernels (`xtask/src/kernels/exits.rs`).

use haltwise_core::exit::Exits;
use rustix::process::Signal;

use crate::bench::{Bench, HALTING, told};

#[test]
fn a_vm_that_is_named_is_the_only_one_counted() {
    let Some(bench) = Bench::set_up() else { return };
    let line = format!("{HALTING} --gap fixed:500us --vcpus 2");
    let labs = ["wanted", "other"].map(|name| bench.guest(name, &line));
    let output = bench.ran("record --vm wanted --exits=pio --duration 1200ms -o capture");
    assert!(output.status.success(), "{}", told(&output));
    for lab in labs {
        lab.end(Signal::TERM);
    }
    let capture = bench.capture("capture");
    let rows: Vec<Exits> = capture.exits().unwrap().map(Result::unwrap).collect();
    assert!(!rows.is_empty());
    let names = |row: &Exits| {
        let vm = row.vm.unwrap();
        capture.info().roster.vms[vm.0 as usize].name.clone()
    };
    for row in &rows {
        assert_eq!(names(row), "wanted");
    }
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
    let programs = |options: &str, name: &str| {
        let recorder = bench.recorder(name, options);
        let programs = programs_of(recorder.id());
        recorder.end(Signal::TERM);
        programs
    };
    let (plain, reasons) = (programs("", "plain"), programs("--exits", "reasons"));
    let keys = programs("--exits=msr,cpuid", "keys");
    // kvm_exit of this kernel's form and of older ones, kvm_entry, kvm_userspace_exit, kvm_fpu,
    // kvm_inj_virq, kvm_emulate_insn; then one for each sub-key.
    assert_eq!((reasons - plain, keys - reasons), (7, 2));
}
