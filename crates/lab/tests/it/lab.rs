//! Starts `haltwise-lab` and reads what it says.

use std::process::{Command, Output};

use haltwise_lab::outcome::{Outcome, VcpuOutcome};

pub(crate) const LAB: &str = env!("CARGO_BIN_EXE_haltwise-lab");

/// Whether KVM can be used; says why a test is skipped if not.
#[expect(clippy::print_stdout, reason = "a skipped test must say so")]
pub(crate) fn kvm() -> bool {
    match haltwise_lab::vm::open() {
        Ok(_) => true,
        Err(error) => {
            println!("skipped: {error}");
            false
        }
    }
}

pub(crate) fn lab(args: &str) -> Output {
    let mut command = Command::new(LAB);
    command.args(args.split_whitespace());
    command.output().expect("the binary has been built")
}

pub(crate) fn run(args: &str) -> Outcome {
    parse(&lab(&format!("run {args} --json")))
}

/// Parses the JSON of a run that must have succeeded.
pub(crate) fn parse(output: &Output) -> Outcome {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {error}", output.status);
    serde_json::from_slice(&output.stdout).expect("JSON of the documented shape")
}

pub(crate) fn vcpus(outcome: &Outcome) -> impl Iterator<Item = &VcpuOutcome> {
    outcome.vms.iter().flat_map(|vm| &vm.vcpus)
}

/// One of KVM's counters, where this kernel keeps it.
pub(crate) fn stat(vcpu: &VcpuOutcome, name: &str) -> Option<u64> {
    vcpu.stats.get(name).copied()
}
