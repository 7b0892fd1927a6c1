//! Rules that ask what the VMM, its command line and the host's settings say.

use super::*;
use crate::vmm::{Machine, Threads, VcpuTime};

/// A guest at 100 Hz that rests otherwise.
pub(super) const RESTING: Load = LOAD
    .count(1_000)
    .period_ns(10_000_000)
    .gap_ns(9_900_000)
    .wake(WakeSource::Timer);

/// Activity of QEMU's threads in ten seconds.
fn threads(main_runs: u64, main_cpu_ns: u64) -> Threads {
    Threads {
        over_ns: 10 * SECOND,
        vcpu_cpu_ns: Some(SECOND / 10),
        main_cpu_ns,
        main_runs,
        others_cpu_ns: Some(main_cpu_ns),
        ..Threads::default()
    }
}

pub(super) fn threaded() -> Machine {
    machine(|it| it.iothreads = 1)
}

fn machine(change: impl FnOnce(&mut Machine)) -> Machine {
    let mut machine = Machine::default();
    change(&mut machine);
    machine
}

pub(super) fn with(bench: Bench, threads: Threads, machine: Machine) -> Bench {
    bench.vm(|vm| (vm.threads, vm.machine) = (Some(threads), Some(machine)))
}

/// QEMU whose main thread runs 1000 times in a second, 30 us each.
pub(super) fn pulsed(load: Load) -> Bench {
    let of_hpet = threads(10_000, 300_000_000);
    with(calm(load), of_hpet, Machine::default())
}

#[test]
fn a_main_thread_that_wakes_for_nobody() {
    let id = "qemu-hpet";
    assert_eq!(pulsed(RESTING).says(id), Some(Sure::Likely));
    assert!((pulsed(RESTING).cost(id) - 30e6).abs() < 1.0);
    let said = |change: &dyn Fn(&mut Vm)| pulsed(RESTING).vm(change).says(id);
    let ran = |runs, cpu_ns| said(&|vm| vm.threads = Some(threads(runs, cpu_ns)));
    let quiet = ran(2_000, 40_000_000);
    assert_eq!(quiet, None, "200 wake-ups in a second are nothing");
    // It has no HPET; its guest works; devices wake the guest as often; another VMM.
    let without = machine(|it| it.hpet = Some(false));
    assert_eq!(said(&|vm| vm.machine = Some(without)), None);
    let busy = pulsed(LOAD.gap_ns(400_000));
    assert_eq!(busy.says(id), None);
    let fed = pulsed(LOAD.gap_ns(900_000).wake(WakeSource::Device));
    assert_eq!(fed.says(id), None);
    assert_eq!(said(&|vm| vm.vmm = VmmKind::Firecracker), None);
    // A slow timer that takes much is possible only, and so is one of a machine that is not known.
    assert_eq!(ran(5_000, 500_000_000), Some(Sure::Possible));
    assert_eq!(said(&|vm| vm.machine = None), Some(Sure::Possible));
    let lacks = calm(RESTING).lacks(id).unwrap();
    assert_eq!(lacks, "the VMM's other threads were not recorded");
}

/// Polled through: every gap of 125 us is met by a window of 200 us.
pub(super) const THROUGH: Load = LOAD
    .count(70_000)
    .period_ns(142_000)
    .gap_ns(125_000)
    .latency_ns(10_000)
    .window_ns(200_000);

#[test]
fn an_idle_guest_that_is_polled_through() {
    let id = "unseen-polling";
    let bench = calm(THROUGH);
    assert_eq!(bench.says(id), Some(Sure::Likely));
    assert!(bench.cost(id) > 0.8e9, "{}", bench.cost(id));
    let fails = THROUGH.window_ns(100_000);
    assert_eq!(calm(fails).says(id), None, "the polls fail");
    let works = THROUGH.period_ns(400_000).count(25_000);
    assert_eq!(calm(works).says(id), None, "the guest works");
    let sleeps = THROUGH.window_ns(0);
    assert_eq!(calm(sleeps).says(id), None);
}

/// Under `sched_ext` polls that are not preempted prove nothing; CPU pressure does.
#[test]
fn a_scheduler_whose_queues_kvm_does_not_see() {
    let under = |state: &str| {
        let bench = pressed(LOAD.window_ns(50_000)).param("sched_ext.state", state);
        bench.says("over-committed-polling")
    };
    assert_eq!(under("disabled"), None);
    assert!(under("enabled").is_some());
}

#[test]
fn how_sure_rules_are_that_only_guards_try_otherwise() {
    for (id, name, value) in [
        ("amd-idle-hlt", "cpu.idle_hlt", "Y"),
        ("sched-ext", "sched_ext.state", "enabled"),
    ] {
        let says = calm(LOAD).param(name, value).says(id);
        assert_eq!(says, Some(Sure::Certain));
    }
    let (returns, id) = (returning(20_000), "unknown-exits");
    assert_eq!(returns.says(id), Some(Sure::Likely));
    assert!((returns.cost(id) / 4e7 - 1.0).abs() < 0.1);
}

#[test]
fn a_processor_with_idle_hlt() {
    let id = "amd-idle-hlt";
    assert_eq!(calm(LOAD).says(id), None);
    let exits = |reason| {
        let row = (Kind::Exit, reason, None, 1_000, 5_000);
        calm(LOAD).exits_on(Isa::Svm, &[], &[row])
    };
    assert_eq!(exits(0xa6).says(id), Some(Sure::Certain));
    assert_eq!(exits(0x78).says(id), None);
}

pub(super) const DEEP: Load = LOAD.gap_ns(600_000).latency_ns(200_000);

/// The CPUs of the host rest in this state of cpuidle for half of the time.
pub(super) fn resting(load: Load, state: u32) -> Bench {
    let mut bench = calm(load);
    for second in [0, 10] {
        bench.ledger.idle_state(&IdleState {
            time_ns: second * SECOND,
            state,
            name: "C6".into(),
            description: "MWAIT 0x20".into(),
            cpus: 4,
            entries: second * 1_000,
            residency_ns: second * 2 * SECOND,
            above: None,
            below: None,
        });
    }
    bench
}

#[test]
fn wake_ups_from_deep_idle_states() {
    let id = "deep-idle-states";
    let deep = resting(DEEP, 3);
    assert_eq!(deep.says(id), Some(Sure::Likely));
    let found = deep.finding(id).unwrap().found;
    assert!(found.signature.contains("in state 3 (C6)"), "{found:?}");
    assert!(found.remedies[0].text.contains("`cpupower idle-set -D 20`"));
    // 1000 wake-ups a second, each 170 us later than from a shallow state.
    let cost = deep.cost(id);
    assert!((cost / 1.7e8 - 1.0).abs() < 0.1, "{cost}");
    assert_eq!(resting(LOAD, 3).says(id), None, "wake-ups of 30 us");
    assert_eq!(resting(DEEP, 3).pressure(0.5).says(id), None, "they wait");
    let why = calm(DEEP);
    assert!(why.lacks(id).unwrap().contains("idle states"));
}

/// A bench with `count` returns to the VMM with `KVM_EXIT_UNKNOWN`.
pub(super) fn returning(count: u64) -> Bench {
    let unknown = (Kind::UserspaceExit, 0, None, count, 20_000);
    let exit = (Kind::Exit, 48, None, 10, 1_000);
    calm(LOAD).exits(&[], &[exit, unknown])
}

pub(super) const FAULT: Row = (Kind::Exit, 48, None, 20_000, 5_000);

#[test]
fn memory_that_is_mapped_page_by_page() {
    let id = "guest-page-faults";
    let of = |pages: &str, row| {
        let bench = calm(LOAD).exits(&SubKey::ALL, &[row]);
        bench.param("transparent_hugepage", pages)
    };
    let (never, by_request) = ("always madvise [never]", "always [madvise] never");
    assert_eq!(of(never, FAULT).says(id), Some(Sure::Likely));
    assert_eq!(of(by_request, FAULT).says(id), Some(Sure::Possible));
    let few = (Kind::Exit, 48, None, 5_000, 5_000);
    assert_eq!(of(never, few).says(id), None);
    let huge = machine(|it| it.huge_pages = true);
    let reserved = with(of(never, FAULT), threads(1, 1), huge);
    assert_eq!(reserved.says(id), None);
    // A setting that is already in force is not a remedy.
    for (vmm, instead) in [
        (VmmKind::Qemu, "AnonHugePages"),
        (VmmKind::Firecracker, "echo always"),
    ] {
        let [of_never, of_by_request] = [never, by_request].map(|pages| {
            let found = of(pages, FAULT).vm(|vm| vm.vmm = vmm).finding(id);
            found.unwrap().found.remedies[0].text.clone()
        });
        assert!(of_never.contains("echo madvise"), "{of_never}");
        assert!(!of_by_request.contains("echo madvise"), "{of_by_request}");
        assert!(of_by_request.contains(instead), "{of_by_request}");
    }
}

/// AMD: an access to an emulated device is a nested page fault as well.
#[test]
fn faults_of_devices_are_no_faults_of_memory() {
    let id = "guest-page-faults";
    let fault = (Kind::Exit, 0x400, None, 50_000, 5_000);
    let access = |count, each| (Kind::MmioWrite, 0x400, Some(0xfe00_3000), count, each);
    let of = |isa, keys: &[SubKey], rows: &[_]| {
        let bench = calm(LOAD).exits_on(isa, keys, rows);
        bench.param("transparent_hugepage", "always madvise [never]")
    };
    let all = &SubKey::ALL[..];
    let alone = of(Isa::Svm, all, &[fault]);
    assert_eq!(alone.says(id), Some(Sure::Likely));
    assert!((alone.cost(id) - 25e6).abs() < 1e6, "{}", alone.cost(id));
    let with = of(Isa::Svm, all, &[fault, access(20_000, 8_000)]);
    let signature = with.finding(id).unwrap().found.signature;
    let start = "30000 faults of guest memory, 3003/s";
    assert!(signature.starts_with(start), "{signature}");
    let more = "20000 more were accesses";
    assert!(signature.contains(more), "{signature}");
    assert!((with.cost(id) - 9e6).abs() < 1e6, "{}", with.cost(id));
    // Accesses whose time is not known: each counts as long as the mean.
    let untimed = of(Isa::Svm, all, &[fault, access(20_000, 0)]);
    assert!(untimed.cost(id) < 16e6, "{}", untimed.cost(id));
    let most = of(Isa::Svm, all, &[fault, access(45_000, 5_000)]);
    assert_eq!(most.says(id), None, "500 faults of memory in a second");
    // Not recorded: they may be among them.
    let unknown = of(Isa::Svm, &[], &[fault]);
    assert_eq!(unknown.says(id), Some(Sure::Possible));
    let signature = unknown.finding(id).unwrap().found.signature;
    assert!(signature.contains("--exits=mmio"), "{signature}");
    // Intel's are misconfigurations, and not among its faults.
    let intel = (Kind::MmioWrite, 49, Some(0xfe00_3000), 45_000, 5_000);
    let ept = (Kind::Exit, 48, None, 50_000, 5_000);
    let beside = of(Isa::Vmx, all, &[ept, intel]);
    assert!((beside.cost(id) - 25e6).abs() < 1e6, "{}", beside.cost(id));
}

pub(super) const DEADLINE: Row = (Kind::MsrWrite, 32, Some(0x6e0), 20_000, 2_000);

#[test]
fn timers_that_exit() {
    let id = "timer-exits";
    let of = |rows: &[_]| calm(LOAD).exits(&SubKey::ALL, rows);
    assert_eq!(of(&[DEADLINE]).says(id), Some(Sure::Possible));
    let expired = (Kind::Exit, 52, None, 20_000, 2_000);
    assert_eq!(of(&[expired]).says(id), Some(Sure::Possible));
    let few = (Kind::MsrWrite, 32, Some(0x6e0), 5_000, 2_000);
    assert_eq!(of(&[few]).says(id), None);
    let other = (Kind::MsrWrite, 32, Some(0x80b), 20_000, 2_000);
    assert_eq!(of(&[other]).says(id), None);
    let inside = machine(|it| it.cpu_pm = true);
    assert_eq!(with(of(&[DEADLINE]), threads(1, 1), inside).says(id), None);
    let told = of(&[DEADLINE]).param("nohz_full", "2-3");
    let signature = told.finding(id).unwrap().found.signature;
    assert!(signature.contains("nohz_full CPUs 2-3"), "{signature}");
}

pub(super) const ADVANCE: &str = "kvm.lapic_timer_advance";

/// It spares no exit, and is on unless the user switched it off.
#[test]
fn timers_are_advanced_where_that_was_off() {
    let id = "timer-exits";
    let of = |value: &str, row| {
        let bench = calm(LOAD).exits(&SubKey::ALL, &[row]);
        bench.param(ADVANCE, value)
    };
    let says = |value: &str| {
        let found = of(value, DEADLINE).finding(id).unwrap().found;
        found.remedies.get(1).map(|remedy| remedy.text.clone())
    };
    let (number, switch) = (says("0").unwrap(), says("N").unwrap());
    assert!(number.contains("echo -1 > /sys/module/kvm"), "{number}");
    assert!(switch.contains("read-only") && switch.contains("without an exit less"));
    for on in ["-1", "Y", "1000"] {
        assert_eq!(says(on), None, "{on}");
    }
    // Other modes of the timer are not advanced.
    let periodic = (Kind::MsrWrite, 32, Some(0x838), 20_000, 2_000);
    assert_eq!(of("0", periodic).gives(id), [Does::HaltsInGuest]);
}

/// QEMU with an iothread that takes this share of a CPU.
pub(super) fn polling(name: &str, share: f64, load: Load) -> Bench {
    let cpu_ns = parts(10 * SECOND, share);
    let threads = Threads {
        others_cpu_ns: Some(cpu_ns + 1_000),
        busiest: Some(name.into()),
        busiest_cpu_ns: Some(cpu_ns),
        ..threads(10, 1_000)
    };
    with(calm(load), threads, threaded())
}

#[test]
fn threads_that_poll_for_a_guest_at_rest() {
    let id = "vmm-threads";
    let bench = polling("IO io1", 0.9, RESTING);
    assert_eq!(bench.says(id), Some(Sure::Likely));
    assert!((bench.cost(id) - 0.9e9).abs() < 1e6, "{}", bench.cost(id));
    let text = |name| {
        let found = polling(name, 0.9, RESTING).finding(id).unwrap().found;
        found.remedies[0].text.clone()
    };
    assert!(text("IO io1").contains("poll-max-ns 0"));
    assert!(text("vhost-4711").contains("poll-us="));
    // QEMU without names for its threads has an iothread by its command line.
    let unnamed = polling("qemu-kvm", 0.9, RESTING);
    assert_eq!(unnamed.says(id), Some(Sure::Possible));
    assert!(text("qemu-kvm").contains("poll-max-ns 0"));
    assert_eq!(polling("IO io1", 0.19, RESTING).says(id), None);
    assert_eq!(polling("live_migration", 0.9, RESTING).says(id), None);
    let works = LOAD.gap_ns(400_000);
    assert_eq!(polling("IO io1", 0.9, works).says(id), None);
    // 4000 wakes in a second by devices explain 42 % of a CPU.
    let served = |share| {
        let fed = LOAD.count(40_000).period_ns(250_000);
        let fed = fed.gap_ns(220_000).latency_ns(10_000);
        polling("IO io1", share, fed)
    };
    assert_eq!(served(0.6).says(id), None);
    assert_eq!(served(0.9).says(id), Some(Sure::Likely));
    assert!((served(0.9).cost(id) / 0.478e9 - 1.0).abs() < 0.01);
    let lacks = calm(RESTING).lacks(id).unwrap();
    assert_eq!(lacks, "the VMM's other threads were not recorded");
}

/// No CPU time is counted by both: the main thread's is of one rule, that of all others of the other.
#[test]
fn a_main_thread_and_threads_of_devices_are_told_apart() {
    assert_eq!(pulsed(RESTING).says("vmm-threads"), None);
    assert_eq!(polling("IO io1", 0.9, RESTING).says("qemu-hpet"), None);
    let busy = pulsed(RESTING).vm(|vm| vm.threads = Some(threads(10_000, 9 * SECOND)));
    assert_eq!(busy.says("vmm-threads"), None);
    assert!(busy.says("qemu-hpet").is_some());
}

/// Kicks that take 60 us each.
pub(super) const KICK: Row = (Kind::MmioWrite, 49, Some(0xfe00_3000), 20_000, 60_000);

pub(super) fn kicked(machine: Machine, row: Row) -> Bench {
    let bench = calm(LOAD).exits(&SubKey::ALL, &[row]);
    with(bench, threads(1, 1), machine)
}

#[test]
fn devices_that_the_vcpu_waits_for() {
    let id = "vmm-devices";
    let off = machine(|it| (it.no_ioeventfd, it.iothreads) = (true, 1));
    assert_eq!(kicked(off, KICK).says(id), Some(Sure::Likely));
    let unknown = kicked(Machine::default(), KICK);
    assert_eq!(unknown.says(id), Some(Sure::Possible));
    let quick = (Kind::MmioWrite, 49, Some(0xfe00_3000), 20_000, 6_000);
    assert_eq!(kicked(Machine::default(), quick).says(id), None);
    let few = (Kind::MmioWrite, 49, Some(0xfe00_3000), 5_000, 60_000);
    assert_eq!(kicked(off, few).says(id), None);
    let port = |port| (Kind::PioWrite, 30, Some(port), 20_000, 60_000);
    assert_eq!(kicked(off, port(0xc050)).says(id), Some(Sure::Likely));
    assert_eq!(kicked(off, port(0x3f8)).says(id), None, "a serial console");
    // KVM that reports no exits counts accesses all the same; how long they take is not known.
    let untimed = kicked(off, (Kind::MmioWrite, 0, Some(0xfe00_3000), 20_000, 0));
    let signature = untimed.finding(id).unwrap().found.signature;
    assert!(signature.contains("no known time. QEMU"), "{signature}");
}

/// A VM of two vCPUs, of which the second does this in ten seconds.
fn second(time: VcpuTime) -> Bench {
    let mut bench = Bench::new(2);
    bench.roster.vms[0].threads = Some(Threads {
        over_ns: 10 * SECOND,
        vcpu_cpu_ns: Some(time.cpu_ns),
        ..Threads::default()
    });
    bench.roster.vcpus[0].time = Some(VcpuTime::default());
    bench.roster.vcpus[1].time = Some(time);
    bench
}

#[test]
fn a_vcpu_that_never_halts_is_found_beside_one_that_sleeps() {
    let id = "guest-never-halts";
    let time = |cpu_ns, queued_ns| VcpuTime {
        cpu_ns,
        queued_ns,
        ..VcpuTime::default()
    };
    let said = |bench: Bench| bench.finding(id).map(|it| it.found.signature);
    let spins = second(time(9_600_000_000, 0));
    let found = spins.finding(id).unwrap().found;
    assert_eq!(found.who.vcpus, [VcpuId(1)]);
    let whole = "vCPU 1 ran 96 % of the time and never halted.";
    assert_eq!(found.signature, whole);
    assert!(found.remedies[0].text.contains("lost interrupt"));
    let why = spins.pressure(0.0).withholds(id).unwrap();
    assert_eq!(why, "no other task uses the CPUs on which the guest polls");
    let shares = second(time(SECOND, 8_700_000_000));
    let text =
        "vCPU 1 ran 10 % of the time, waited 87 % for a CPU that others used, and never halted.";
    assert_eq!(said(shares).unwrap(), text);
    // A thread's time in the queue is counted when it ends.
    let text =
        "vCPU 1 ran 10 % of the time, waited 90 % for a CPU that others used, and never halted.";
    assert_eq!(said(second(time(SECOND, 11 * SECOND))).unwrap(), text);
    assert_eq!(said(second(time(5 * SECOND, SECOND))), None, "it sleeps");
    // A vCPU that halts often is at work; once in a while it spins all the same.
    let halts = |count| {
        let load = LOAD.vcpu(1).count(count).period_ns(SECOND);
        second(time(9_600_000_000, 0)).load(load)
    };
    assert_eq!(said(halts(10)), None);
    assert!(said(halts(2)).unwrap().ends_with("halted 2 times."));
    // An older capture has the sum of all vCPUs alone.
    let older = |cpu_ns| {
        let mut older = second(time(cpu_ns, 0));
        older.roster.vcpus.iter_mut().for_each(|it| it.time = None);
        older
    };
    assert_eq!(said(older(9_600_000_000)), None);
    let both = older(19_600_000_000);
    let halts = older(19_600_000_000).load(LOAD);
    assert_eq!(halts.finding(id).unwrap().found.who.vcpus, [VcpuId(1)]);
    let text = "vCPUs 0, 1 each ran 98 % of the time and never halted.";
    assert_eq!(said(both).unwrap(), text);
    let lacks = Bench::new(1).lacks(id).unwrap();
    assert_eq!(lacks, "the CPU time of vCPUs was not recorded");
}

#[test]
fn a_vcpu_that_spends_its_time_in_exits_does_not_spin_in_the_guest() {
    let said = |guest_ns| {
        let time = VcpuTime {
            cpu_ns: 9_600_000_000,
            guest_ns,
            ..VcpuTime::default()
        };
        let found = second(time).finding("guest-never-halts").unwrap().found;
        (found.signature, found.remedies[0].text.clone())
    };
    let (signature, remedy) = said(96_000_000);
    let text = "vCPU 1 ran 96 % of the time and never halted. Exits took 99 % of the CPU time, not the guest.";
    assert_eq!(signature, text);
    assert!(remedy.contains("haltwise report --exits"), "{remedy}");
    // Guest time is known and most of it, or is not counted by this kernel.
    for guest_ns in [9 * SECOND, 0] {
        let (signature, remedy) = said(guest_ns);
        assert_eq!(signature, "vCPU 1 ran 96 % of the time and never halted.");
        assert!(remedy.contains("lost interrupt"), "{remedy}");
    }
}
