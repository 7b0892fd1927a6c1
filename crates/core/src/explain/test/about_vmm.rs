//! Rules that ask what the VMM, its command line and the host's settings say.

use super::*;
use crate::vmm::{Machine, Threads};

/// A guest at 100 Hz that rests otherwise.
pub(super) const RESTING: Load = Load {
    count: 1_000,
    period_ns: 10_000_000,
    gap_ns: 9_900_000,
    wake: WakeSource::Timer,
    ..LOAD
};

/// What QEMU's threads did in ten seconds.
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

pub(super) fn with(mut bench: Bench, threads: Threads, machine: Machine) -> Bench {
    bench.roster.vms[0].threads = Some(threads);
    bench.roster.vms[0].machine = Some(machine);
    bench
}

/// QEMU whose main thread runs 1000 times in a second, 30 us each.
pub(super) fn pulsed(load: Load) -> Bench {
    let of_hpet = threads(10_000, 300_000_000);
    with(Bench::calm(1).load(load), of_hpet, Machine::default())
}

#[test]
fn a_main_thread_that_wakes_for_nobody() {
    let id = "qemu-hpet";
    assert_eq!(pulsed(RESTING).says(id), Some(Sure::Likely));
    assert!((pulsed(RESTING).cost(id) - 30e6).abs() < 1.0);
    let mut quiet = pulsed(RESTING);
    quiet.roster.vms[0].threads = Some(threads(2_000, 40_000_000));
    assert_eq!(quiet.says(id), None, "200 wake-ups in a second are nothing");
    // It has no HPET; its guest works; devices wake the guest as often; another VMM.
    let mut without = pulsed(RESTING);
    without.roster.vms[0].machine = Some(Machine {
        hpet: Some(false),
        ..Machine::default()
    });
    assert_eq!(without.says(id), None);
    let busy = pulsed(Load {
        gap_ns: 400_000,
        ..LOAD
    });
    assert_eq!(busy.says(id), None);
    let fed = pulsed(Load {
        gap_ns: 900_000,
        wake: WakeSource::Device,
        ..LOAD
    });
    assert_eq!(fed.says(id), None);
    let mut other = pulsed(RESTING);
    other.roster.vms[0].vmm = VmmKind::Firecracker;
    assert_eq!(other.says(id), None);
    // A slow timer that takes much is possible only, and so is one of a machine that is not known.
    let mut slow = pulsed(RESTING);
    slow.roster.vms[0].threads = Some(threads(5_000, 500_000_000));
    assert_eq!(slow.says(id), Some(Sure::Possible));
    let mut untold = pulsed(RESTING);
    untold.roster.vms[0].machine = None;
    assert_eq!(untold.says(id), Some(Sure::Possible));
    let lacks = Bench::calm(1).load(RESTING).lacks(id).unwrap();
    assert_eq!(lacks, "the VMM's other threads were not recorded");
}

/// Polled through: every gap of 125 us is met by a window of 200 us.
pub(super) const THROUGH: Load = Load {
    count: 70_000,
    period_ns: 142_000,
    gap_ns: 125_000,
    latency_ns: 10_000,
    window_ns: 200_000,
    ..LOAD
};

#[test]
fn an_idle_guest_that_is_polled_through() {
    let id = "unseen-polling";
    let bench = Bench::calm(1).load(THROUGH);
    assert_eq!(bench.says(id), Some(Sure::Likely));
    assert!(bench.cost(id) > 0.8e9, "{}", bench.cost(id));
    let fails = Load {
        window_ns: 100_000,
        ..THROUGH
    };
    assert_eq!(Bench::calm(1).load(fails).says(id), None, "the polls fail");
    let works = Load {
        period_ns: 400_000,
        count: 25_000,
        ..THROUGH
    };
    assert_eq!(Bench::calm(1).load(works).says(id), None, "the guest works");
    let sleeps = Load {
        window_ns: 0,
        ..THROUGH
    };
    assert_eq!(Bench::calm(1).load(sleeps).says(id), None);
}

#[test]
fn a_guest_that_never_halts() {
    let id = "guest-never-halts";
    let full = |pressure, cpu_ns| {
        let threads = Threads {
            vcpu_cpu_ns: Some(cpu_ns),
            ..threads(10, 1_000)
        };
        with(
            Bench::new(2).pressure(pressure),
            threads,
            Machine::default(),
        )
    };
    assert_eq!(full(0.5, 19 * SECOND).says(id), Some(Sure::Possible));
    let why = full(0.0, 19 * SECOND).withholds(id).unwrap();
    assert_eq!(why, "no other task uses the CPUs on which the guest polls");
    assert_eq!(full(0.5, 9 * SECOND).says(id), None, "half of its CPUs");
    let halts = full(0.5, 19 * SECOND).load(LOAD);
    assert_eq!(halts.says(id), None);
    let lacks = Bench::new(1).lacks(id).unwrap();
    assert_eq!(lacks, "the CPU time of vCPUs was not recorded");
}

#[test]
fn a_scheduler_whose_queues_kvm_does_not_see() {
    let id = "sched-ext";
    let of = |state: &str| Bench::calm(1).load(LOAD).param("sched_ext.state", state);
    assert_eq!(of("enabled").says(id), Some(Sure::Certain));
    assert_eq!(of("disabled").says(id), None);
    // Polls that are not preempted say nothing there: pressure does.
    let polled = Load {
        window_ns: 50_000,
        ..LOAD
    };
    let pressed = |state: &str| {
        let bench = Bench::new(1).pressure(0.5).load(polled);
        bench.param("sched_ext.state", state)
    };
    assert!(
        pressed("disabled")
            .finding("over-committed-polling")
            .is_none()
    );
    assert!(
        pressed("enabled")
            .finding("over-committed-polling")
            .is_some()
    );
}

#[test]
fn a_processor_with_idle_hlt() {
    let id = "amd-idle-hlt";
    let of = |value: &str| Bench::calm(1).load(LOAD).param("cpu.idle_hlt", value);
    assert_eq!(of("Y").says(id), Some(Sure::Certain));
    assert_eq!(of("N").says(id), None);
    assert_eq!(Bench::calm(1).load(LOAD).says(id), None);
}

pub(super) const FAULT: (Kind, u32, Option<u64>, u64, u64) = (Kind::Exit, 48, None, 20_000, 5_000);

#[test]
fn memory_that_is_mapped_page_by_page() {
    let id = "guest-page-faults";
    let of = |pages: &str, row| {
        let bench = Bench::calm(1).load(LOAD).exits(&SubKey::ALL, &[row]);
        bench.param("transparent_hugepage", pages)
    };
    assert_eq!(
        of("always madvise [never]", FAULT).says(id),
        Some(Sure::Likely)
    );
    assert_eq!(
        of("always [madvise] never", FAULT).says(id),
        Some(Sure::Possible)
    );
    assert_eq!(of("[always] madvise never", FAULT).says(id), None);
    let few = (Kind::Exit, 48, None, 5_000, 5_000);
    assert_eq!(of("always madvise [never]", few).says(id), None);
    let huge = Machine {
        huge_pages: true,
        ..Machine::default()
    };
    let reserved = with(of("always madvise [never]", FAULT), threads(1, 1), huge);
    assert_eq!(reserved.says(id), None);
}

pub(super) const DEADLINE: (Kind, u32, Option<u64>, u64, u64) =
    (Kind::MsrWrite, 32, Some(0x6e0), 20_000, 2_000);

#[test]
fn timers_that_exit() {
    let id = "timer-exits";
    let of = |rows: &[_]| Bench::calm(1).load(LOAD).exits(&SubKey::ALL, rows);
    assert_eq!(of(&[DEADLINE]).says(id), Some(Sure::Possible));
    let expired = (Kind::Exit, 52, None, 20_000, 2_000);
    assert_eq!(of(&[expired]).says(id), Some(Sure::Possible));
    let few = (Kind::MsrWrite, 32, Some(0x6e0), 5_000, 2_000);
    assert_eq!(of(&[few]).says(id), None);
    let other = (Kind::MsrWrite, 32, Some(0x80b), 20_000, 2_000);
    assert_eq!(of(&[other]).says(id), None);
    let inside = Machine {
        cpu_pm: true,
        ..Machine::default()
    };
    assert_eq!(with(of(&[DEADLINE]), threads(1, 1), inside).says(id), None);
    let told = of(&[DEADLINE]).param("nohz_full", "2-3");
    let signature = told.finding(id).unwrap().found.signature;
    assert!(signature.contains("nohz_full CPUs 2-3"), "{signature}");
}

/// Kicks that take 60 us each.
pub(super) const KICK: (Kind, u32, Option<u64>, u64, u64) =
    (Kind::MmioWrite, 49, Some(0xfe00_3000), 20_000, 60_000);

pub(super) fn kicked(machine: Machine, row: (Kind, u32, Option<u64>, u64, u64)) -> Bench {
    let bench = Bench::calm(1).load(LOAD).exits(&SubKey::ALL, &[row]);
    with(bench, threads(1, 1), machine)
}

#[test]
fn devices_that_the_vcpu_waits_for() {
    let id = "vmm-devices";
    let off = Machine {
        no_ioeventfd: true,
        iothreads: 1,
        ..Machine::default()
    };
    assert_eq!(kicked(off, KICK).says(id), Some(Sure::Likely));
    assert_eq!(
        kicked(Machine::default(), KICK).says(id),
        Some(Sure::Possible)
    );
    let threaded = Machine {
        iothreads: 1,
        ..Machine::default()
    };
    assert_eq!(kicked(threaded, KICK).says(id), None);
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
