//! However a run ends, it ends cleanly and its counts are exact.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use haltwise_lab::guest::Program;
use haltwise_lab::memory::CODE;
use haltwise_lab::outcome::EndedBy;
use haltwise_lab::routing::Interrupts;
use haltwise_lab::vcpu::{Ends, VcpuThread};
use haltwise_lab::vm::{Vm, VmConfig, open};
use signal_hook::consts::SIGUSR2;
use vmm_sys_util::signal::Killable as _;

use crate::lab::{LAB, kvm, lab, parse, run};

#[test]
fn a_duration_ends_every_guest() {
    let Some(()) = kvm() else { return };
    for guest in [
        "pingpong",
        "tick --vcpus 2",
        "tick-pit",
        "ipi --vcpus 3",
        "idle",
        "exits",
        "pingpong --gap fixed:5ms --halt-loop off",
        "pingpong --gap fixed:5ms --halt-loop fixed:always",
    ] {
        let outcome = run(&format!("{guest} --duration 150ms"));
        assert_eq!(outcome.ended_by, EndedBy::Duration, "{guest}");
        assert!(outcome.elapsed_ns >= 150_000_000, "{guest}");
        for vcpu in outcome.vcpus() {
            assert_eq!(vcpu.halts, vcpu.interrupts, "{guest}");
            assert_eq!(
                vcpu.stat("halt_exits").unwrap_or(vcpu.halts),
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
    let Some(()) = kvm() else { return };
    // With gaps this short, the end nearly always comes in the middle of a round.
    for _ in 0..10 {
        let outcome = run("pingpong --gap fixed:1us --duration 3ms --vcpus 2");
        for vcpu in outcome.vcpus() {
            assert_eq!(Some(vcpu.halts), vcpu.rounds.map(|rounds| rounds + 1));
        }
    }
}

#[test]
fn sigterm_ends_a_run_which_still_reports() {
    let Some(()) = kvm() else { return };
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
    for vcpu in outcome.vcpus() {
        assert_eq!(vcpu.halts, vcpu.rounds.unwrap() + 1);
        assert_eq!(vcpu.stat("halt_exits").unwrap_or(vcpu.halts), vcpu.halts);
    }
}

#[test]
fn a_guest_without_progress_is_reported_and_ended() {
    let Some(()) = kvm() else { return };
    let output = lab("run idle --gap fixed:4s --timeout 100ms --name sleepy");
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        error,
        "error: run VM `sleepy`: vCPU 0 made no progress for 100 ms\n"
    );
    assert!(output.stdout.is_empty(), "no numbers of a run that failed");
}

fn vm(code: &[u8]) -> anyhow::Result<Vm> {
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
    Vm::create(&open().expect("KVM was there"), config, &program)
}

/// Until a VM exists, KVM gives up whenever a signal is pending.
#[test]
fn signals_keep_no_vm_from_being_created() {
    let Some(()) = kvm() else { return };
    let signals = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&signals);
    signal_hook::flag::register_usize(SIGUSR2, counter, 1).unwrap();
    let create = || (0..50).try_for_each(|_| vm(&[0xf4]).map(drop));
    let creator = std::thread::spawn(create);
    while !creator.is_finished() {
        // It may have ended meanwhile.
        let _ = creator.kill(SIGUSR2);
        std::thread::sleep(Duration::from_millis(1));
    }
    creator.join().unwrap().unwrap();
    assert_eq!(signals.load(Ordering::Relaxed), 1, "none has arrived");
}

fn start(code: &[u8], ends: &Arc<Ends>) -> VcpuThread {
    let mut vm = vm(code).expect("a VM");
    let vcpu = vm.vcpus.pop().expect("it has one vCPU");
    vcpu.start("raw".to_owned(), None, Arc::clone(ends))
        .expect("a thread")
}

#[test]
fn a_guest_that_hangs_is_kicked_out_and_one_that_crashes_is_an_error_with_the_exit() {
    let Some(()) = kvm() else { return };
    for (code, why) in [
        // jmp $: never halts, never exits, hears nothing.
        (&[0xeb, 0xfe][..], "it hung and was kicked out"),
        // jmp 0xffff:0xfff0, where there is no memory to fetch from.
        (
            &[0xea, 0xf0, 0xff, 0xff, 0xff],
            "unexpected exit InternalError",
        ),
    ] {
        let ends = Arc::new(Ends::new().unwrap());
        let thread = start(code, &ends);
        ends.wait(|| std::iter::once(&thread)).unwrap();
        let error = thread.join().unwrap_err().to_string();
        assert_eq!(error, format!("run vCPU 0: {why}"));
        assert!(ends.failed());
    }
}
