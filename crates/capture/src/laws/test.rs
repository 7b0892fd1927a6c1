//! Each law by a table of rows at its edges, and that what recorders write obeys them all.

use haltwise_core::event::{Halt, HaltCounts, Vm};
use haltwise_core::exit::Isa;
use haltwise_core::hist::LogHist;
use haltwise_core::ids::{Tid, VcpuId, VmIndex};
use haltwise_core::profile::{Event, Hit, Phase};
use haltwise_core::recording::Rung;
use proptest::prelude::*;

use super::*;
use crate::info::{Clock, example};

const START: u64 = 1_000_000_000_000;
const END: u64 = START + 10_000_000_000;

fn info(rung: Rung) -> CaptureInfo {
    let mut info = example(Clock::new(START, 0), rung);
    info.roster.vms = vec![Vm::default()];
    info
}

fn laws(rung: Rung) -> Laws {
    Laws::new(&info(rung), Some(END), LeftOut::default())
}

/// A halt of the second microsecond and the next ones.
fn halt(start_us: u64, length_us: u64) -> Halt {
    Halt {
        start_ns: START + 1000 * start_us,
        halt_ns: 1000 * length_us,
        vm: Some(VmIndex(0)),
        vcpu: Some(VcpuId(0)),
        tid: Tid(7),
        waited: true,
        ..Halt::default()
    }
}

/// Which law is broken by rows that are read at once.
fn broken(rows: Vec<Halt>) -> Vec<(Law, u64)> {
    let mut laws = laws(Rung::Bpf);
    let many = rows.len() as u64;
    let kept = laws.halts(rows).len() as u64;
    let broken: Vec<_> = laws.broken.into_iter().collect();
    assert_eq!(kept + broken.iter().map(|(_, n)| n).sum::<u64>(), many);
    broken
}

#[test]
fn each_law_of_a_halt_at_its_edge() {
    let minute = ALLOWANCE_NS;
    let at = |start_ns, halt_ns| Halt {
        start_ns,
        halt_ns,
        ..halt(0, 0)
    };
    let polled = |ns| Halt {
        poll_ns: Some(ns),
        ..halt(0, 1)
    };
    let late = |ns| Halt {
        wake_latency_ns: Some(ns),
        ..halt(0, 1)
    };
    let of_vm = |vm| Halt { vm, ..halt(0, 1) };
    for (row, law) in [
        (at(START - minute, 0), None),
        (at(START - minute - 1, 0), Some(Law::WithinRecording)),
        // It began before the host was up, and ended while it was recorded.
        (at(0, START), None),
        (at(END, minute), None),
        (at(END, minute + 1), Some(Law::WithinRecording)),
        (at(u64::MAX, 1), Some(Law::WithinRecording)),
        (polled(1000), None),
        (polled(1001), Some(Law::PollWithinHalt)),
        (late(1000 + minute), None),
        (late(1001 + minute), Some(Law::LatencyWithinHalt)),
        (of_vm(None), None),
        (of_vm(Some(VmIndex(1))), Some(Law::VmKnown)),
    ] {
        let expected: Vec<_> = law.map(|law| (law, 1)).into_iter().collect();
        assert_eq!(broken(vec![row]), expected, "{row:?}");
    }
}

#[test]
fn of_two_halts_that_overlap_the_longer_goes() {
    let overlap = |n| vec![(Law::NoOverlap, n)];
    assert_eq!(broken(vec![halt(0, 5), halt(5, 5)]), []);
    assert_eq!(broken(vec![halt(0, 5), halt(4, 5)]), overlap(1));
    // One that ends too late is not the end of all that follow.
    let mut rows = vec![halt(0, 5), halt(5, 4_000_000)];
    rows.extend((2..100).map(|n| halt(10 * n, 5)));
    assert_eq!(broken(rows.clone()), overlap(1));
    let mut laws_ = laws(Rung::Bpf);
    for row in rows {
        laws_.halts(vec![row]);
    }
    assert_eq!(laws_.broken[&Law::NoOverlap], 1);
    // Rows that stand after a later one.
    assert_eq!(broken(vec![halt(10, 5), halt(0, 5), halt(20, 5)]), []);
    // Other vCPUs, and threads of which no more is known.
    let other = Halt {
        vcpu: Some(VcpuId(1)),
        ..halt(0, 5)
    };
    let nobodys = Halt {
        vm: None,
        vcpu: None,
        ..halt(0, 5)
    };
    assert_eq!(broken(vec![halt(0, 5), other, nobodys]), []);
    // Another VM of the same process, as older recorders told it by tracepoints.
    let of_another_vm = Halt {
        tid: Tid(8),
        ..halt(0, 5)
    };
    assert_eq!(broken(vec![halt(0, 5), of_another_vm]), []);
    assert_eq!(broken(vec![nobodys, nobodys]), overlap(1));
}

#[test]
fn imported_halts_may_overlap() {
    let rows = vec![halt(0, 5), halt(4, 5)];
    assert_eq!(laws(Rung::Import).halts(rows.clone()), rows);
}

#[test]
fn where_nothing_is_known_to_hold_against_nothing_is_left_out() {
    let mut unnamed = info(Rung::Bpf);
    unnamed.roster.vms.clear();
    let mut of_anybody = Laws::new(&unnamed, None, LeftOut::default());
    let row = Halt {
        start_ns: END + 2 * ALLOWANCE_NS,
        vm: Some(VmIndex(9)),
        ..halt(0, 1)
    };
    assert_eq!(of_anybody.halts(vec![row]), [row]);
    // It ends before it begins: who knows which of the two is wrong.
    let mut backwards = Laws::new(&info(Rung::Bpf), Some(START - 1), LeftOut::default());
    let row = Halt { vm: None, ..row };
    assert_eq!(backwards.halts(vec![row]), [row]);
}

fn counts(second: u64, halts: u64, halted_ns: u64) -> HaltCounts {
    let mut halt_ns = LogHist::default();
    halt_ns.add_buckets([0, halts], halted_ns);
    HaltCounts {
        time_ns: START + 1_000_000_000 * second,
        interval_ns: 1_000_000_000,
        vm: Some(VmIndex(0)),
        vcpu: Some(VcpuId(0)),
        halts,
        halt_ns,
        ..HaltCounts::default()
    }
}

#[test]
fn counted_time_has_passed() {
    let second = 1_000_000_000;
    let mut laws = laws(Rung::Bpf);
    // The first halt may be as old as the host, and those of the same vCPU are one after the other.
    assert_eq!(laws.halt_counts(&counts(1, 5, START)), Ok(()));
    assert_eq!(laws.halt_counts(&counts(2, 5, 3 * second)), Ok(()));
    let long = counts(3, 5, 3 * second + 1);
    assert_eq!(laws.halt_counts(&long), Err(Law::TimeHasPassed));
    // Where it did not halt for a while, one may have lasted that long.
    assert_eq!(laws.halt_counts(&counts(6, 5, 6 * second)), Ok(()));
    let other = HaltCounts {
        vcpu: Some(VcpuId(1)),
        ..long
    };
    assert_eq!(laws.halt_counts(&other), Ok(()));
    let older = HaltCounts {
        interval_ns: u64::MAX,
        ..counts(7, 0, 0)
    };
    assert_eq!(laws.halt_counts(&older), Err(Law::TimeHasPassed));
}

#[test]
fn counted_parts_are_within_their_whole() {
    type Edit<'a> = &'a dyn Fn(&mut HaltCounts);
    let most = 640 + 16 + 10;
    let hist = |halts, ns| counts(1, halts, ns).halt_ns;
    let long = 1_001_000_000;
    let rows: [(Edit<'_>, bool); 8] = [
        (&|_| {}, true),
        (&|row| row.waited = most, true),
        (&|row| row.waited = most + 1, false),
        (&|row| row.polled = Some(most + 1), false),
        (&|row| row.wakes = [u64::MAX; 5], false),
        (&|row| row.gap_ns = hist(most + 1, 0), false),
        (&|row| row.poll_fail_ns = hist(1, long), true),
        (&|row| row.poll_fail_ns = hist(1, long + 1), false),
    ];
    for (edit, holds) in rows {
        let mut row = counts(1, 640, 1_000_000);
        edit(&mut row);
        let law = laws(Rung::Bpf).halt_counts(&row);
        assert_eq!(law == Ok(()), holds, "{row:?}");
    }
}

#[test]
fn rows_of_the_other_tables() {
    let mut laws = laws(Rung::Bpf);
    let weighs = |weight| Sample {
        time_ns: START,
        vm: None,
        vcpu: None,
        tid: Tid(7),
        cpu: 0,
        event: Event::CpuClock,
        weight,
        hit: Hit::GuestKernel,
        stack: 0,
        phase: Phase::Entered,
        isa: Isa::None,
        reason: None,
    };
    let judged = [0, 1].map(|more| laws.sample(&weighs(100 * START + more)).is_ok());
    assert_eq!(judged, [true, false]);
    let sample = HostSample {
        time_ns: START,
        busy_ns: 5,
        total_ns: 5,
        ..HostSample::default()
    };
    assert_eq!(laws.host_sample(&sample), Ok(()));
    let busier = HostSample {
        busy_ns: 6,
        ..sample
    };
    assert_eq!(laws.host_sample(&busier), Err(Law::PartsWithinWhole));
    let stolen = |ns| HostSample {
        steal_ns: Some(ns),
        idle_ns: Some(ns),
        package_uj: Some(ns),
        ..sample
    };
    assert_eq!(laws.host_sample(&stolen(5)), Ok(()));
    assert_eq!(laws.host_sample(&stolen(6)), Err(Law::PartsWithinWhole));
    let early = HostSample {
        time_ns: 0,
        ..sample
    };
    assert_eq!(laws.host_sample(&early), Err(Law::WithinRecording));
}

#[test]
fn several_readings_count_as_the_longest() {
    let left_out = LeftOut::default();
    for rows in [3, 7, 5] {
        left_out.at_least(Table::Halts, Law::VmKnown, rows);
    }
    assert_eq!(left_out.all(), [((Table::Halts, Law::VmKnown), 7)].into());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Halts that follow each other on their vCPUs are all kept, in flushes of any size.
    #[test]
    fn what_recorders_write_is_kept(
        gaps in prop::collection::vec((0..3_u32, 0..50_000_u64, 1..50_000_u64), 1..200),
        flush in 1..40_usize,
    ) {
        let mut clocks = [START; 3];
        let mut rows: Vec<Halt> = gaps.iter().map(|&(vcpu, awake_ns, halt_ns)| {
            let clock = &mut clocks[vcpu as usize];
            let start_ns = *clock + awake_ns;
            *clock = start_ns + halt_ns;
            Halt { start_ns, halt_ns, vcpu: Some(VcpuId(vcpu)), ..halt(0, 0) }
        }).collect();
        rows.sort_by_key(Halt::end_ns);
        let mut laws = laws(Rung::Tracepoints);
        for rows in rows.chunks_mut(flush) {
            rows.sort_by_key(|halt| halt.start_ns);
            prop_assert_eq!(laws.halts(rows.to_vec()), rows);
        }
    }
}
