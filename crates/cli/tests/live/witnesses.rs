//! Three cross-checks agree: the guest's own count, KVM's stats fd, the recorder.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;

use haltwise_core::event::{Halt, HaltCounts};
use haltwise_core::ids::{Tid, VcpuId, VmIndex};
use rustix::process::Signal;

use crate::bench::{Bench, HALTING, has_recorded, told};
use crate::counted::{Counted, Recorded, counted};
use crate::tries::{judge, tries};

/// Guests with enough options that each takes well under three seconds.
const GUESTS: [&str; 9] = [
    "pingpong --rounds 3000 --gap exp:60us",
    "pingpong --rounds 2000 --gap bimodal:0.8:30us:2ms --cap 0",
    "pingpong --rounds 3000 --gap fixed:50us --cap 400us",
    "pingpong --rounds 500 --vms 3 --vcpus 2 --host-wait block",
    "tick --rounds 1000 --gap uniform:100us:1ms",
    "tick-pit --rounds 300",
    "ipi --rounds 2000 --vcpus 3",
    "idle --rounds 20",
    "exits --rounds 2",
];

fn assert_same_counts(counted: &Counted, halts: &[Halt], what: &str) {
    let count = |test: &dyn Fn(&Halt) -> bool| halts.iter().filter(|h| test(h)).count() as u64;
    let sum = |waited: bool| -> u64 {
        halts
            .iter()
            .filter(|h| h.waited == waited)
            .map(|h| h.poll_ns.unwrap())
            .sum()
    };
    let who = format!("{what}: {counted:?}");
    assert_eq!(
        counted.hlts, counted.halt_exits,
        "guest against stats fd: {who}"
    );
    assert_eq!(count(&|h| h.waited), counted.waits, "waits: {who}");
    assert_eq!(sum(true), counted.fail_ns, "time of failed polls: {who}");
    assert_eq!(
        sum(false),
        counted.success_ns,
        "time polled with success: {who}"
    );
    let polled = |h: &Halt| h.has_polled() == Some(true);
    assert_eq!(
        count(&|h| !h.waited && polled(h)),
        counted.successful,
        "successful polls: {who}"
    );
    assert_eq!(count(&polled), counted.attempted, "attempted polls: {who}");
    // Every HLT is one halt, except where an interrupt was already pending.
    assert!(halts.len() as u64 <= counted.hlts, "halts: {who}");
    assert!(
        halts.len() as u64 >= counted.waits + counted.successful,
        "halts: {who}"
    );
    let slept: u64 = halts.iter().filter(|h| h.waited).map(|h| h.halt_ns).sum();
    assert_eq!(slept - sum(true), counted.wait_ns, "time waited: {who}");
}

fn assert_facts_hold(halts: &[Halt]) {
    for halt in halts {
        assert!(
            halt.poll_ns.is_none_or(|poll| poll <= halt.halt_ns),
            "{halt:?}"
        );
        assert!(
            halt.wake_latency_ns.is_none_or(|late| late <= halt.halt_ns),
            "{halt:?}"
        );
        assert!(
            halt.window_ns.is_none_or(|w| Some(w) <= halt.ceiling_ns),
            "{halt:?}"
        );
        assert!(halt.valid, "x86 has no invalid wake-ups: {halt:?}");
    }
    for pair in halts.windows(2) {
        assert!(
            pair[0].end_ns() <= pair[1].start_ns + 2_000,
            "halts overlap: {pair:?}"
        );
    }
}

fn assert_agreement(recorded: &Recorded, what: &str) {
    assert_eq!(recorded.lost(), 0, "{what}");
    let roster = &recorded.capture.info().roster;
    for counted in recorded.counted() {
        let halts = recorded.halts_of(counted.tid);
        assert_same_counts(&counted, &halts, what);
        assert_facts_hold(&halts);
        let vm = halts[0].vm.unwrap();
        assert!(
            halts
                .iter()
                .all(|h| h.vm == Some(vm) && h.vcpu.unwrap().0 == counted.id)
        );
        let row = roster.vms.iter().find(|row| row.index == vm).unwrap();
        assert_eq!(row.name, counted.vm, "{what}");
    }
}

#[test]
fn every_guest_is_counted_alike_by_all_three() {
    for guest in GUESTS {
        let Some(bench) = Bench::set_up() else { return };
        let lab = format!("{guest} --name witness");
        assert_agreement(&bench.record("", &lab), guest);
    }
}

/// Sums of the rows of a vCPU against what its stats fd says.
fn assert_same_sums(rows: &[HaltCounts], counted: &Counted, what: &str) {
    let sum = |of: &dyn Fn(&HaltCounts) -> u64| -> u64 { rows.iter().map(of).sum() };
    let who = format!("{what}: {counted:?}");
    assert_eq!(sum(&|r| r.waited), counted.waits, "{who}");
    assert_eq!(sum(&|r| r.poll_fail_ns.sum()), counted.fail_ns, "{who}");
    let success_ns = sum(&|r| r.poll_success_ns.sum());
    assert_eq!(success_ns, counted.success_ns, "{who}");
    let successful = sum(&|r| r.successful_polls.unwrap());
    assert_eq!(successful, counted.successful, "{who}");
    assert_eq!(sum(&|r| r.polled.unwrap()), counted.attempted, "{who}");
    assert_eq!(sum(&|r| r.halts), sum(&|r| r.halt_ns.count()), "{who}");
    assert_eq!(sum(&|r| r.halts), sum(&|r| r.wakes.iter().sum()), "{who}");
}

#[test]
fn counts_mode_counts_the_same() {
    for guest in GUESTS {
        let Some(bench) = Bench::set_up() else { return };
        let recorded = bench.record("--mode counts --interval 100ms", guest);
        assert_eq!(recorded.lost(), 0);
        for counted in recorded.counted() {
            assert_same_sums(&recorded.counts_of(counted.tid), &counted, guest);
        }
    }
}

/// VM and vCPU of each thread's rows: one VM of the roster for each of the lab's. Gives what is
/// wrong with that.
fn not_apart(rows: &[(Option<VmIndex>, Option<VcpuId>, Tid)], lab: &[Counted]) -> Option<String> {
    let mut booked: BTreeMap<&str, BTreeSet<VmIndex>> = BTreeMap::new();
    for counted in lab {
        let own: Vec<_> = rows.iter().filter(|row| row.2.0 == counted.tid).collect();
        let id = Some(VcpuId(counted.id));
        if own.is_empty() || own.iter().any(|row| row.1 != id) {
            return Some(format!("{counted:?} {own:?}"));
        }
        let vms = booked.entry(&counted.vm).or_default();
        vms.extend(own.iter().filter_map(|row| row.0));
    }
    let different: BTreeSet<_> = booked.values().flatten().collect();
    let one_each = booked.values().all(|vms| vms.len() == 1);
    let is_apart = one_each && different.len() == booked.len();
    (!is_apart).then(|| format!("{booked:?}"))
}

/// A walk may meet a VM before its vCPUs run, and come again when the VM is gone.
#[test]
fn vms_of_one_process_that_are_soon_gone_keep_their_halts() {
    let Some(bench) = Bench::set_up() else { return };
    // Two modes, and two VMs in each process. A recorder ends by itself after a minute, so each sees few.
    let (processes, rounds) = (30, tries(120).div_ceil(120));
    let modes = ["counts", "full"].into_iter();
    let mut failures = Vec::new();
    for (mode, round) in modes.flat_map(|mode| (0..rounds).map(move |round| (mode, round))) {
        let name = format!("{mode}-{round}");
        let recorder = bench.recorder(&name, &format!("--mode {mode}"));
        let short = "pingpong --rounds 10 --vms 2 --vcpus 2";
        let runs: Vec<_> = (0..processes)
            .map(|_| counted(&bench.lab_ran(short)))
            .collect();
        let output = recorder.end(Signal::INT);
        assert!(output.status.success(), "{}", told(&output));
        let capture = bench.capture(&name);
        let halts = capture.halts().unwrap().map(Result::unwrap);
        let counts = capture.halt_counts().unwrap().map(Result::unwrap);
        let halts = halts.map(|halt| (halt.vm, halt.vcpu, halt.tid));
        let rows: Vec<_> = halts
            .chain(counts.map(|row| (row.vm, row.vcpu, row.tid)))
            .collect();
        let wrong = runs.iter().filter_map(|run| not_apart(&rows, run));
        failures.extend(wrong.map(|wrong| format!("{name}: {wrong}")));
    }
    judge("short-lived VMs", rounds * processes * 4, &failures);
}

/// Threads of a process that run vCPUs, with what each says of itself by its name: VM and vCPU.
fn named_vcpus(process: u32) -> Vec<(Tid, String, VcpuId)> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let named = tasks.filter_map(|task| {
        let task = task.unwrap().path();
        let tid = task.file_name()?.to_str()?.parse().ok()?;
        let comm = std::fs::read_to_string(task.join("comm")).ok()?;
        let (vm, vcpu) = comm.trim_end().split_once("-vcpu")?;
        Some((Tid(tid), vm.to_owned(), VcpuId(vcpu.parse().ok()?)))
    });
    named.collect()
}

/// Tracepoints name threads only: VMs of one process are told apart by these.
#[test]
fn tracepoints_take_the_vms_of_one_process_apart() {
    let Some(bench) = Bench::set_up() else { return };
    let line = format!("run {HALTING} --gap fixed:1ms --vms 2 --vcpus 2 --name apart");
    let mut lab = bench.lab();
    lab.args(line.split(' ')).stdout(Stdio::null());
    let lab = Bench::vm("apart-1", &mut lab);
    let options = format!("--source tracepoints --vm {}", lab.id());
    let recorder = bench.recorder("apart", &options);
    std::thread::sleep(std::time::Duration::from_secs(1));
    has_recorded(&recorder.end(Signal::INT));
    let named = named_vcpus(lab.id());
    assert_eq!(named.len(), 4, "{named:?}");
    let capture = bench.capture("apart");
    let mut booked: BTreeMap<&str, BTreeSet<Option<VmIndex>>> = BTreeMap::new();
    for halt in capture.halts().unwrap().map(Result::unwrap) {
        let (_, vm, id) = named.iter().find(|(tid, ..)| *tid == halt.tid).unwrap();
        assert_eq!(halt.vcpu, Some(*id), "{halt:?}");
        booked.entry(vm).or_default().insert(halt.vm);
    }
    let different: BTreeSet<_> = booked.values().flatten().collect();
    assert_eq!((booked.len(), different.len()), (2, 2), "{booked:?}");
}

/// The VM is gone when its command is: the last of its counters is read when its threads end.
#[test]
fn stats_mode_counts_to_the_end_of_a_vm() {
    let Some(bench) = Bench::set_up() else { return };
    let guest = "pingpong --rounds 3000 --gap fixed:1ms --vcpus 2";
    let recorded = bench.record("--mode stats --interval 1s", guest);
    for counted in recorded.counted() {
        assert_same_sums(&recorded.counts_of(counted.tid), &counted, "to the end");
    }
}
