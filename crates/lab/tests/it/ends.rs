//! However a run ends, it ends cleanly and its counts are exact.

use std::process::{Command, Stdio};
use std::sync::Arc;

use haltwise_core::units::Nanos;
use haltwise_lab::clock::wait_readable;
use haltwise_lab::exit::ExitCounts;
use haltwise_lab::guest::Program;
use haltwise_lab::memory::CODE;
use haltwise_lab::outcome::EndedBy;
use haltwise_lab::routing::Interrupts;
use haltwise_lab::vcpu::{Ends, VcpuThread};
use haltwise_lab::vm::{Vm, VmConfig, open};

use crate::lab::{LAB, kvm, lab, parse, run, stat, vcpus};

#[test]
fn a_duration_ends_every_guest() {
    if !kvm() {
        return;
    }
    for guest in [
        "pingpong",
        "tick --vcpus 2",
        "tick-pit",
        "ipi --vcpus 3",
        "idle",
        "exits",
    ] {
        let outcome = run(&format!("{guest} --duration 150ms"));
        assert_eq!(outcome.ended_by, EndedBy::Duration, "{guest}");
        assert!(outcome.elapsed_ns >= 150_000_000, "{guest}");
        for vcpu in vcpus(&outcome) {
            assert_eq!(vcpu.halts, vcpu.interrupts, "{guest}");
            assert_eq!(
                stat(vcpu, "halt_exits").unwrap_or(vcpu.halts),
                vcpu.halts,
                "{guest}"
            );
            if let Some(rounds) = vcpu.rounds {
                assert_eq!(
                    vcpu.halts,
                    rounds + 1,
                    "{guest}: the last HLT was ended by us"
                );
            }
        }
    }
}

#[test]
fn a_round_under_way_is_played_to_its_answer() {
    if !kvm() {
        return;
    }
    // With gaps this short, the end nearly always comes in the middle of a round.
    for _ in 0..10 {
        let outcome = run("pingpong --gap fixed:1us --duration 3ms --vcpus 2");
        for vcpu in vcpus(&outcome) {
            assert_eq!(Some(vcpu.halts), vcpu.rounds.map(|rounds| rounds + 1));
        }
    }
}

#[test]
fn sigterm_ends_a_run_which_still_reports() {
    if !kvm() {
        return;
    }
    let mut command = Command::new(LAB);
    command.args([
        "run",
        "pingpong",
        "--duration",
        "1h",
        "--json",
        "--name",
        "sigterm",
    ]);
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    let tasks = format!("/proc/{}/task", child.id());
    let has_vcpu = || {
        let tasks = std::fs::read_dir(&tasks).into_iter().flatten().flatten();
        let names = tasks.map(|task| std::fs::read_to_string(task.path().join("comm")));
        names.flatten().any(|name| name.trim() == "vm0-vcpu0")
    };
    while !has_vcpu() {
        std::thread::yield_now();
    }
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let outcome = parse(&child.wait_with_output().unwrap());
    assert_eq!(outcome.ended_by, EndedBy::Signal);
    for vcpu in vcpus(&outcome) {
        assert_eq!(vcpu.halts, vcpu.rounds.unwrap() + 1);
        assert_eq!(stat(vcpu, "halt_exits").unwrap_or(vcpu.halts), vcpu.halts);
    }
}

#[test]
fn a_guest_without_progress_is_reported_and_ended() {
    if !kvm() {
        return;
    }
    let output = lab("run idle --gap fixed:4s --timeout 100ms --name sleepy");
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        error,
        "error: run VM `sleepy`: vCPU 0 made no progress for 100 ms\n"
    );
    assert!(output.stdout.is_empty(), "no numbers of a run that failed");
}

fn start(code: &[u8], ends: &Arc<Ends>) -> VcpuThread {
    let config = VmConfig {
        name: "raw".to_owned(),
        vcpus: 1,
        vm_max_halt_poll_ns: None,
        pit: false,
        interrupts: Interrupts::Msi,
    };
    let program = Program {
        code: code.to_vec(),
        entry: CODE,
        vectors: Vec::new(),
    };
    let mut vm = Vm::create(&open().expect("KVM was there"), config, &program).expect("a VM");
    let vcpu = vm.vcpus.pop().expect("it has one vCPU");
    vcpu.start("raw".to_owned(), None, Arc::clone(ends))
        .expect("a thread")
}

#[test]
fn a_guest_that_hangs_is_kicked_out() {
    if !kvm() {
        return;
    }
    let ends = Arc::new(Ends::new().unwrap());
    // jmp $: never halts, never exits, hears nothing.
    let thread = start(&[0xeb, 0xfe], &ends);
    while !thread.is_finished() {
        thread.kick();
        std::thread::yield_now();
    }
    let end = thread.join();
    let error = end.result.unwrap_err().to_string();
    assert_eq!(error, "run vCPU 0: it hung and was kicked out");
    assert!(ends.failed());
}

#[test]
fn a_guest_that_crashes_is_an_error_with_the_exit() {
    if !kvm() {
        return;
    }
    let ends = Arc::new(Ends::new().unwrap());
    // jmp 0xffff:0xfff0, where there is no memory to fetch from.
    let thread = start(&[0xea, 0xf0, 0xff, 0xff, 0xff], &ends);
    if !wait_readable(&ends.event, Some(Nanos(10_000_000_000))).unwrap() {
        thread.kick();
    }
    let end = thread.join();
    let error = end.result.unwrap_err().to_string();
    assert_eq!(error, "run vCPU 0: unexpected exit InternalError");
    assert_eq!(end.exits, ExitCounts::new());
    assert!(ends.failed());
}
