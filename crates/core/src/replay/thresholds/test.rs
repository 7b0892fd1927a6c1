//! The sweep against a replay of each threshold, and its best against all there are.

use proptest::prelude::*;

use super::super::arrivals::{Arrivals, Evidence, Follow};
use super::super::overrun::Overruns;
use super::super::run::{Frame, Run};
use super::super::sample::short_class;
use super::*;
use crate::event::WakeSource;
use crate::kvm::{Arch, Version};
use crate::policy::{Setting, Spec};

fn replay(samples: &[Sample], table: &Table, threshold_ns: u64) -> Tally {
    let spec: Spec = match threshold_ns {
        u64::MAX => "fixed:always".parse().unwrap(),
        ns => format!("fixed:{ns}ns").parse().unwrap(),
    };
    let setting = Setting::upstream(Version::new(6, 12), Arch::X86, 0);
    let mut run = Run::new(spec.build(&setting).unwrap());
    let frame = Frame {
        table,
        cost: Cost {
            switch_cpu_ns: 0,
            latency_weight_milli: 0,
            ..Cost::FREE
        },
        follow: Follow::new(Arrivals::FixedGap, &Evidence::default()),
    };
    for sample in samples {
        run.step(sample, &frame);
    }
    Tally::of(run.outcome())
}

fn any_gap() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0), 4 => 0..5_000_u64, 8 => 0..500_000_u64, 1 => 0..1_u64 << 36]
}

fn any_samples() -> impl Strategy<Value = Vec<Sample>> {
    let one = (any_gap(), 0..200_000_u64, any::<bool>(), any::<u64>());
    let one = one.prop_map(|(gap_ns, latency_ns, known, cut)| Sample {
        start_ns: 0,
        gap_ns,
        halt_ns: gap_ns + latency_ns,
        latency_ns,
        slept_class: short_class(gap_ns).filter(|_| known),
        cut_ns: match cut % 6 {
            0 => 0,
            1 => cut % (gap_ns + 10),
            _ => u64::MAX,
        },
        wake: WakeSource::ALL[usize::try_from(cut / 6 % 5).unwrap()],
        valid: true,
        gap_guessed: false,
        pending: cut % 6 > 1 && gap_ns < 2_000,
    });
    prop::collection::vec(one, 0..60)
}

fn any_table() -> impl Strategy<Value = Table> {
    let points = prop::collection::vec((any_gap(), 0..300_000_u64), 1..20);
    let overrun_ns = prop_oneof![1 => Just(0_u32), 2 => 0..66_000_u32];
    (points, overrun_ns).prop_map(|(points, overrun_ns)| {
        let table = Table::measured(&points).unwrap();
        table.with_overruns(Overruns::of_each(|wake| match wake {
            WakeSource::Timer => Overrun {
                polling_ns: overrun_ns,
                unpolled_ns: overrun_ns / 4,
            },
            WakeSource::Ipi => Overrun {
                polling_ns: overrun_ns / 3,
                unpolled_ns: overrun_ns / 3,
            },
            _ => Overrun::default(),
        }))
    })
}

/// All thresholds at which anything happens, those next to them, and some more.
fn interesting(samples: &[Sample], table: &Table, more: &[u64]) -> Vec<u64> {
    let ends = |sample: &Sample| {
        let gap_ns = sample.gap_ns;
        let reached_ns = gap_ns.saturating_sub(sample.overrun(table).of_window_ns(1));
        let classes =
            (0..super::super::latency::class_of(gap_ns)).map(super::super::latency::class_end);
        let ends: Vec<u64> = classes.map(|end_ns| gap_ns - end_ns).collect();
        [ends, vec![gap_ns, reached_ns, sample.cut_ns.min(gap_ns)]].concat()
    };
    let mut all: Vec<u64> = samples.iter().flat_map(ends).collect();
    let near: Vec<u64> = all
        .iter()
        .flat_map(|ns| [ns.saturating_sub(1), ns + 1])
        .collect();
    all.extend(near);
    all.extend([0, 1, u64::MAX]);
    all.extend(more);
    all.sort_unstable();
    all.dedup();
    all
}

proptest! {
    #[test]
    fn the_sweep_is_a_replay_of_each_threshold(samples in any_samples(), table in any_table(), more in prop::collection::vec(any_gap(), 0..10)) {
        let thresholds = Thresholds::new(samples.iter().copied(), &table);
        for point in thresholds.curve(interesting(&samples, &table, &more)) {
            let alone = replay(&samples, &table, point.threshold_ns);
            prop_assert_eq!(point.tally, alone, "fixed:{}", point.threshold_ns);
        }
    }

    #[test]
    fn no_threshold_is_better_than_the_best(samples in any_samples(), table in any_table(), switch_cpu_ns in 0..50_000_u64, weight in 0..20_000_u64, longest_ns in any_gap()) {
        let cost = Cost { switch_cpu_ns, latency_weight_milli: weight, ..Cost::FREE };
        let milli = |tally: &Tally| cost.milli(tally.poll_ns, tally.blocks, tally.latency_ns);
        let thresholds = Thresholds::new(samples.iter().copied(), &table);
        let best = thresholds.best(&cost, longest_ns);
        prop_assert!(best.threshold_ns <= longest_ns);
        prop_assert_eq!(best.tally, replay(&samples, &table, best.threshold_ns));
        let all = interesting(&samples, &table, &[longest_ns]);
        for point in thresholds.curve(all.into_iter().filter(|&ns| ns <= longest_ns)) {
            let (this, least) = (milli(&point.tally), milli(&best.tally));
            prop_assert!(this > least || this == least && point.threshold_ns >= best.threshold_ns, "{point:?} < {best:?}");
        }
    }
}

#[test]
fn a_threshold_that_reaches_most_gaps_is_best_where_blocks_are_dear() {
    let table = Table::measured(&[(1_000, 20_000)]).unwrap();
    let sample = |gap_ns| Sample {
        start_ns: 0,
        gap_ns,
        halt_ns: gap_ns + 20_000,
        latency_ns: 20_000,
        slept_class: short_class(gap_ns),
        cut_ns: u64::MAX,
        wake: WakeSource::Device,
        valid: true,
        gap_guessed: false,
        pending: false,
    };
    let samples = [15_000; 9].into_iter().chain([2_000_000]).map(sample);
    let thresholds = Thresholds::new(samples, &table);
    let best = |weight| {
        let cost = Cost {
            switch_cpu_ns: 10_000,
            latency_weight_milli: weight,
            ..Cost::FREE
        };
        thresholds.best(&cost, u64::MAX)
    };
    assert_eq!(best(0).threshold_ns, 0, "10 us for 15 us of polling");
    assert_eq!(best(1_000).threshold_ns, 15_000);
    assert_eq!(best(1_000).tally.blocks, 1);
    assert_eq!(best(1_000_000).threshold_ns, 2_000_000);
}
