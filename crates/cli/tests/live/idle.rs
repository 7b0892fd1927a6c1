//! This machine's own idle CPUs, recorded while it sleeps and wakes. Nothing of the machine is changed. That
//! periods are those of the kernel's counters and of its governor's rule is held in stock kernels
//! (`xtask/src/kernels/linux_guest/inside.rs`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use haltwise_capture::capture::Capture;
use haltwise_core::event::Halt;

use crate::bench::{Bench, haltwise, json, told};

fn cpuidle() -> Option<(u64, u64)> {
    let number = |path: &Path| -> Option<u64> {
        let text = std::fs::read_to_string(path).ok()?;
        text.trim().parse().ok()
    };
    let mut sums = (0, 0);
    let mut any = false;
    for cpu in 0..1024 {
        for state in 0..16 {
            let dir = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}");
            let dir = PathBuf::from(dir);
            let Some(entered) = number(&dir.join("usage")) else {
                break;
            };
            sums = (sums.0 + entered, sums.1 + number(&dir.join("time"))?);
            any = true;
        }
    }
    any.then_some(sums)
}

/// Runs a line, asserts its exit code and returns its output.
fn says(bench: &Bench, code: i32, line: &str) -> Output {
    let output = bench.ran(line);
    assert_eq!(output.status.code(), Some(code), "{}", told(&output));
    output
}

#[test]
fn what_only_a_host_has_is_refused_of_a_guest() {
    let Some(bench) = Bench::set_up() else { return };
    says(&bench, 0, "record --guest --duration 200ms -o idle");
    says(&bench, 0, "report --findings idle");
    let said = told(&says(&bench, 3, "calibrate idle"));
    assert!(said.contains("of a guest's own idle CPUs"), "{said}");
}

/// The periods of each CPU, in order.
fn periods(capture: &Path) -> BTreeMap<u32, Vec<Halt>> {
    let mut cpus = BTreeMap::<u32, Vec<Halt>>::new();
    for halt in Capture::open(capture).unwrap().halts().unwrap() {
        let halt = halt.unwrap();
        cpus.entry(halt.vcpu.unwrap().0).or_default().push(halt);
    }
    cpus
}

#[derive(Default)]
struct Compared {
    seen: u64,
    unlike: u64,
    woken_alike: u64,
}

impl Compared {
    /// Each period of a CPU with that of `theirs` which began nearest to it, another one each, in the same order.
    fn add(&mut self, cpu: u32, ours: &[Halt], theirs: &[Halt]) {
        let mut next = 0;
        for one in ours {
            let apart = |at: &usize| one.start_ns.abs_diff(theirs[*at].start_ns);
            let at = (0..theirs.len()).min_by_key(apart).unwrap();
            let other = &theirs[at];
            let kind = |halt: &Halt| (halt.waited, halt.polled);
            let limits = one.window_ns.zip(other.window_ns);
            let is_unlike = limits.is_some_and(|(one, other)| one != other);
            if kind(one) != kind(other) || is_unlike || at < next {
                println!("CPU {cpu}: {one:?} by BPF, {other:?} by tracepoints");
                self.unlike += 1;
            }
            next = at + 1;
            self.seen += 1;
            self.woken_alike += u64::from(one.wake == other.wake);
        }
    }
}

/// Two recorders of the same idle CPUs, one by BPF within the time of one by tracepoints, see the same periods in the same
/// order: each polls and halts alike, under the same limit, woken by the same.
#[test]
fn at_rest_both_sources_record_the_same_periods() {
    let Some(bench) = Bench::set_up() else { return };
    let [by_bpf, by_tracepoints] = ["bpf", "tracepoints"].map(|source| bench.path(source));
    let load = "for n in $(seq 100); do sleep 0.005; done";
    let output = Command::new(haltwise())
        .args(["record", "--guest", "--source", "tracepoints", "-o"])
        .arg(&by_tracepoints)
        .arg("--")
        .arg(haltwise())
        .args(["record", "--guest", "--source", "bpf", "-o"])
        .arg(&by_bpf)
        .args(["--", "sh", "-c", load])
        .output()
        .unwrap();
    if told(&output).contains("not offered by this kernel") {
        println!("skipped: {}", told(&output));
        return;
    }
    // A kernel can count an event and not give it to perf, now and then one, or all of a CPU's idle task (`perf stat -a -A
    // -e power:cpu_idle` counts none there either). Then the recording must report the loss, and the rest must agree.
    let code = output.status.code().unwrap();
    let report = json(&says(&bench, code, "report --json tracepoints"));
    assert_eq!(report["recording"]["rung"], "tracepoints");
    let lost = report["recording"]["lost"].as_u64().unwrap();
    let code = if lost > 0 { 5 } else { 0 };
    assert_eq!(output.status.code(), Some(code), "{}", told(&output));
    let (mut ours, theirs) = (periods(&by_bpf), periods(&by_tracepoints));
    let unseen = ours.keys().filter(|cpu| !theirs.contains_key(cpu));
    let unseen: Vec<u32> = unseen.copied().collect();
    if !unseen.is_empty() {
        assert!(
            lost > 0,
            "no loss reported, but nothing recorded of CPUs {unseen:?}"
        );
        println!(
            "skipped: perf sees no idle period of CPUs {unseen:?} here, as the recording says"
        );
    }
    ours.retain(|cpu, _| theirs.contains_key(cpu));
    let mut all = Compared::default();
    for (cpu, ours) in &ours {
        all.add(*cpu, ours, &theirs[cpu]);
    }
    let (seen, unlike, woken_alike) = (all.seen, all.unlike, all.woken_alike);
    if seen < 50 {
        println!("skipped: other work leaves this machine no idle time");
        return;
    }
    // An event that is lost changes the period that it belongs to and the one after it; where a whole CPU is missing, its
    // events are those lost.
    let of_others = if unseen.is_empty() { lost } else { 0 };
    let explained = 2 * of_others.min(seen / 50);
    assert!(
        unlike <= explained,
        "{unlike} of {seen} with {lost} events lost"
    );
    assert!(
        woken_alike * 100 >= seen * 99 - explained * 100,
        "{woken_alike} of {seen}"
    );
}

/// The recorded growth of cpuidle's counters lies within the growth of the counters around the recording.
#[test]
fn what_cpuidle_counts_is_recorded_without_running_code_when_a_cpu_is_idle() {
    let Some(bench) = Bench::set_up() else { return };
    let before = cpuidle();
    let output =
        bench.ran("record --guest --mode stats --interval 100ms --duration 500ms -o stats");
    let after = cpuidle();
    let Some((before, after)) = before.zip(after) else {
        // Without cpuidle there is nothing to read, and that is said.
        let said = told(&output);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("cpuidle"), "{said}");
        println!("skipped: this kernel has no cpuidle: its counters");
        return;
    };
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let report = json(&says(&bench, 0, "report --json stats"));
    assert_eq!(report["recording"]["rung"], "cpuidle");
    let states = report["host"]["idle_states"].as_array().unwrap();
    let sum = |field: &str| {
        states
            .iter()
            .filter_map(|it| it[field].as_u64())
            .sum::<u64>()
    };
    let counted = (after.0 - before.0, after.1 - before.1);
    assert!(sum("entries") <= counted.0, "{states:?} {counted:?}");
    let is_within = sum("residency_ns") <= counted.1 * 1_000;
    assert!(is_within, "{states:?} {counted:?}");
    // No single periods: nothing can be replayed.
    says(&bench, 1, "verify --json stats");
    says(&bench, 1, "tune --json stats");
}
