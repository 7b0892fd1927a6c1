//! The programs that count exits. Stock kernels compare the counts to the unit (`xtask/src/kernels/exits.rs`).

use rustix::process::Signal;

use crate::bench::Bench;

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
