//! Laws of the halt account, each in one sentence.

use haltwise_core::account::ledger::Ledger;
use haltwise_core::account::within::Interval;
use haltwise_core::event::{
    CeilingSource, Facts, Halt, HaltCounts, HostSample, Knob, KnobScope, Lost, WakeSource,
    WindowCall, WindowChange,
};
use haltwise_core::hist::LogHist;
use haltwise_core::ids::{Tid, VcpuId, VmIndex};
use haltwise_core::stats::Fold;
use proptest::prelude::*;

/// Times from a few microseconds to hours, so that series have to widen, and now and then the
/// worst that a hostile capture can hold.
fn time() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => 0..2_000_000_000_u64,
        4 => 0..20_000_000_000_000_u64,
        1 => Just(u64::MAX),
    ]
}

fn length() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..500_000_u64, 2 => 0..5_000_000_000_u64, 1 => Just(u64::MAX)]
}

fn place() -> impl Strategy<Value = (Option<VmIndex>, Option<VcpuId>)> {
    (
        proptest::option::weighted(0.9, (0..3_u32).prop_map(VmIndex)),
        proptest::option::weighted(0.9, (0..3_u32).prop_map(VcpuId)),
    )
}

prop_compose! {
    fn halt()(
        (vm, vcpu) in place(),
        (start_ns, halt_ns) in (time(), length()),
        (waited, valid, poll_cut) in any::<(bool, bool, Option<bool>)>(),
        window_ns in proptest::option::of(0..200_000_u32),
        window_next_ns in proptest::option::of(0..200_000_u32),
        ceiling_ns in proptest::option::of(0..40_u32),
        (poll_ns, polled) in (proptest::option::of(length()), any::<Option<bool>>()),
        latency in proptest::option::of(length()),
        wake in 0..5_usize,
        source in 0..4_usize,
        (cpu, waker_cpu) in (proptest::option::of(0..4_u32), proptest::option::of(0..4_u32)),
    ) -> Halt {
        Halt {
            start_ns, halt_ns, vm, vcpu, tid: Tid(1), waited, valid, window_ns, window_next_ns,
            ceiling_ns, ceiling_source: CeilingSource::ALL[source],
            change: WindowCall::None, poll_ns, polled,
            wake_latency_ns: if waited { latency } else { Some(0) },
            wake: WakeSource::ALL[wake], poll_cut, cpu, waker_cpu,
        }
    }
}

prop_compose! {
    fn hist()(values in proptest::collection::vec(length(), 0..20)) -> LogHist {
        let mut hist = LogHist::default();
        for value in values {
            hist.record(value);
        }
        hist
    }
}

prop_compose! {
    fn counts()(
        (vm, vcpu) in place(),
        (time_ns, interval_ns) in (time(), length()),
        (halts, waited) in (0..100_u64, 0..100_u64),
        (poll_known, polled) in (proptest::option::of(0..100_u64), proptest::option::of(0..100_u64)),
        successful_polls in proptest::option::of(0..100_u64),
        poll_cuts in proptest::option::of(0..100_u64),
        turned_back_ns in proptest::option::of(length()),
        wakes in any::<[u64; 5]>(),
        (halt_ns, gap_ns, poll_success_ns, poll_fail_ns, wake_latency_ns)
            in (hist(), hist(), hist(), hist(), hist()),
    ) -> HaltCounts {
        HaltCounts {
            time_ns, interval_ns, vm, vcpu, tid: Tid(1), halts, waited, poll_known, polled, successful_polls,
            poll_cuts, turned_back_ns, wakes, halt_ns, gap_ns, poll_success_ns, poll_fail_ns, wake_latency_ns,
        }
    }
}

prop_compose! {
    fn change()(
        (vm, vcpu) in place(), time_ns in time(), grow in any::<bool>(), new_ns in any::<u32>(),
    ) -> WindowChange {
        WindowChange { time_ns, vm, vcpu, tid: Tid(1), grow, old_ns: 0, new_ns }
    }
}

prop_compose! {
    fn knob()(time_ns in time(), name in "[abc]", vm in 0..3_u32, value in "[0-9]") -> Knob {
        Knob { time_ns, name, scope: KnobScope::Vm(VmIndex(vm)), value }
    }
}

prop_compose! {
    fn sample()(
        (time_ns, busy_ns, total_ns) in (time(), time(), time()),
        cpu_pressure_ns in proptest::option::of(time()),
        (recorder_cpu_ns, recorder_rss_bytes) in any::<(u64, u64)>(),
    ) -> HostSample {
        HostSample {
            time_ns, cpus: 2, busy_ns, total_ns, cpu_pressure_ns, recorder_cpu_ns,
            bpf_cpu_ns: None, recorder_rss_bytes, steal_ns: None, idle_ns: None, package_uj: None, cycles: None, instructions: None,
        }
    }
}

prop_compose! {
    fn lost()(time_ns in time(), count in any::<u64>(), place in "[a-z]") -> Lost {
        Lost { time_ns, count, place }
    }
}

/// Single facts, each as a batch of its own.
fn facts() -> impl Strategy<Value = Vec<Facts>> {
    let one = prop_oneof![
        8 => halt().prop_map(|halt| Facts { halts: vec![halt], ..Facts::default() }),
        3 => change().prop_map(|change| Facts { windows: vec![change], ..Facts::default() }),
        3 => counts().prop_map(|counts| Facts { counts: vec![counts], ..Facts::default() }),
        1 => knob().prop_map(|knob| Facts { knobs: vec![knob], ..Facts::default() }),
        1 => sample().prop_map(|sample| Facts { host: vec![sample], ..Facts::default() }),
        2 => lost().prop_map(|lost| Facts { lost: vec![lost], ..Facts::default() }),
    ];
    proptest::collection::vec(one, 0..120)
}

fn add<'a>(mut ledger: Ledger, batches: impl IntoIterator<Item = &'a Facts>) -> Ledger {
    for facts in batches {
        facts.halts.iter().for_each(|halt| ledger.halt(halt));
        facts
            .windows
            .iter()
            .for_each(|change| ledger.window(change));
        facts.counts.iter().for_each(|counts| ledger.counts(counts));
        facts.knobs.iter().for_each(|knob| ledger.knob(knob));
        facts.host.iter().for_each(|sample| ledger.host(sample));
        facts.lost.iter().for_each(|lost| ledger.lost(lost));
    }
    ledger
}

fn outline<'a>(batches: impl IntoIterator<Item = &'a Facts>) -> Ledger {
    add(Ledger::in_outline(), batches)
}

fn ledger<'a>(batches: impl IntoIterator<Item = &'a Facts>) -> Ledger {
    add(Ledger::default(), batches)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// An outline lacks what happened over time in each vCPU, and nothing else.
    #[test]
    fn an_outline_is_the_ledger_without_the_slots_of_vcpus(facts in facts(), at in 0..120_usize) {
        let (whole, outlined) = (ledger(&facts), outline(&facts));
        prop_assert_eq!(whole.total(), outlined.total());
        prop_assert_eq!(whole.unplaced(), outlined.unplaced());
        for ((place, account), (same, mut other)) in
            whole.places().zip(outlined.places().map(|(place, account)| (place, account.clone())))
        {
            prop_assert_eq!(place, same);
            prop_assert_eq!(account.series.width_ns(), other.series.width_ns());
            prop_assert_eq!(other.series.slots().count() == 0, place.vm.is_some());
            other.series = account.series.clone();
            prop_assert_eq!(account, &other);
        }
        let (left, right) = facts.split_at(at.min(facts.len()));
        let mut sum = outline(left);
        sum.fold(&outline(right));
        prop_assert_eq!(sum, outlined);
    }

    /// The account of the whole is the sum of the accounts of its parts, however it is cut.
    #[test]
    fn parts_add_up_to_the_whole(facts in facts(), picks in any::<u128>()) {
        let left = |n: usize| picks >> (n % 128) & 1 == 1;
        let split = |want: bool| {
            let part = facts.iter().enumerate().filter(|(n, _)| left(*n) == want);
            ledger(part.map(|(_, batch)| batch))
        };
        let (mut sum, other) = (split(true), split(false));
        sum.fold(&other);
        prop_assert_eq!(sum, ledger(&facts));
    }

    /// The same facts in another order, or in one batch, give the same account.
    #[test]
    fn neither_order_nor_batches_matter(facts in facts()) {
        let whole = ledger(&facts);
        prop_assert_eq!(&ledger(facts.iter().rev()), &whole);
        let mut one = Facts::default();
        for batch in &facts {
            one.halts.extend(&batch.halts);
            one.windows.extend(&batch.windows);
            one.counts.extend(batch.counts.iter().cloned());
            one.knobs.extend(batch.knobs.iter().cloned());
            one.host.extend(&batch.host);
            one.lost.extend(batch.lost.iter().cloned());
        }
        prop_assert_eq!(&ledger([&one]), &whole);
    }

    /// The parts of halted time add up to the halted time, of every vCPU, VM and the host.
    #[test]
    fn halted_time_is_spent_on_something(facts in facts()) {
        let ledger = ledger(&facts);
        for (place, account) in ledger.places() {
            prop_assert_eq!(account.parts.total_ns(), account.halted_ns(), "{:?}", place);
        }
        let total = ledger.total();
        prop_assert_eq!(total.parts.total_ns(), total.halted_ns());
    }

    /// A host is the sum of its VMs and of what could not be placed.
    #[test]
    fn a_host_is_the_sum_of_its_vms(facts in facts()) {
        let ledger = ledger(&facts);
        let mut sum = ledger.unplaced();
        for vm in 0..3 {
            sum.fold(&ledger.vm(VmIndex(vm)));
        }
        prop_assert_eq!(sum, ledger.total());
    }

    /// No share exceeds its whole: what a vCPU was halted within any interval is no longer than it, and no
    /// part is more than it is in all.
    #[test]
    fn no_share_exceeds_its_whole(facts in facts(), (a, b) in (time(), time())) {
        let interval = Interval { start_ns: a.min(b), end_ns: a.max(b) };
        for (place, account) in ledger(&facts).places() {
            let within = account.within(interval);
            prop_assert!(within.total_ns() <= interval.length_ns(), "{:?}", place);
            for ((name, part), (_, all)) in within.named().iter().zip(account.parts.named()) {
                prop_assert!(*part <= all, "{}: {} of {}", name, part, all);
            }
        }
    }

    /// Halts one after another count in full, but for what lies outside the interval.
    #[test]
    fn what_lies_within_counts_in_full(
        steps in proptest::collection::vec((0..100_000_u64, halt()), 1..40), cuts in any::<(u64, u64)>(),
    ) {
        let mut ledger = Ledger::default();
        let (mut now, mut ends) = (1_000_000_u64, Vec::new());
        for (ran, halt) in steps {
            let halt_ns = halt.halt_ns % 1_000_000;
            let halt = Halt { start_ns: now + ran, halt_ns, vm: None, vcpu: None, ..halt };
            ledger.halt(&halt);
            ends.push((halt.start_ns, halt.end_ns()));
            now = halt.end_ns();
        }
        // A recording begins within its first halt and ends within its last, or beside them.
        let (first, last) = (ends[0], ends[ends.len() - 1]);
        let start_ns = first.1 - cuts.0 % (first.1 - 900_000);
        let end_ns = (last.0 + cuts.1 % (last.1 - last.0 + 100_000)).max(start_ns);
        let inside = ends.iter().map(|(from, to)| {
            (*to).min(end_ns).saturating_sub((*from).max(start_ns))
        });
        let within = ledger.within(|_| Some(Interval { start_ns, end_ns }));
        prop_assert_eq!(within.total_ns(), inside.sum::<u64>());
    }

    /// An interval that was widened holds the end of every halt, and is the same whatever the order.
    #[test]
    fn a_widened_interval_holds_every_end(facts in facts(), (a, b) in (time(), time())) {
        let interval = Interval { start_ns: a.min(b), end_ns: a.max(b) };
        let wide = ledger(&facts).widened(interval);
        prop_assert!(wide.start_ns <= interval.start_ns && wide.end_ns >= interval.end_ns);
        for halt in facts.iter().flat_map(|batch| &batch.halts) {
            prop_assert!((wide.start_ns..=wide.end_ns).contains(&halt.end_ns()));
        }
        prop_assert_eq!(ledger(facts.iter().rev()).widened(interval), wide);
    }

    /// A series never has more slots than it promises.
    #[test]
    fn series_stay_bounded(facts in facts()) {
        let total = ledger(&facts).total();
        prop_assert!(total.series.slots().count() <= 64);
    }
}
