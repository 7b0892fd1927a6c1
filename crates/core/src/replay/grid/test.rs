//! The grid against the scalar replay: the same figures to the nanosecond, whatever the halts.

use proptest::prelude::*;

use super::*;
use crate::event::{Halt, WakeSource};
use crate::kvm::{Arch, Version};
use crate::policy::{Setting, Spec};
use crate::replay::Cost;
use crate::replay::arrivals::{Arrivals, Evidence};
use crate::replay::latency::Latencies;
use crate::replay::overrun::{Overrun, Overruns};
use crate::replay::run::{Frame, Run};
use crate::replay::sample;
use crate::workload::SplitMix64;

const US: u64 = 1_000;

const KERNELS: [&str; 8] = ["4.4", "4.19", "5.2", "5.10", "5.15", "5.19", "6.1", "6.12"];

/// Parameters from which a scenario draws its halts.
#[derive(Debug, Clone, Copy)]
struct World {
    seed: u64,
    halts: u64,
    gap_ns: u64,
    latency_ns: u64,
    /// Polls that were cut, per hundred halts.
    cuts: u64,
    arrivals: Arrivals,
    /// The share by which the recording shows gaps to follow, in percent.
    follows: u64,
    /// Gaps and latencies are multiples of this: coarse ones meet ceilings and windows exactly.
    grain_ns: u64,
    overrun_ns: u32,
}

impl World {
    fn coarse(&self, ns: u64) -> u64 {
        ns / self.grain_ns * self.grain_ns
    }

    fn table(&self) -> Table {
        let mut draw = SplitMix64(self.seed);
        let mut measured = Latencies::default();
        for _ in 0..20 {
            let slept_ns = draw.below(self.gap_ns) >> draw.below(20);
            measured.add(slept_ns, self.coarse(draw.below(self.latency_ns)));
        }
        let table = Table::of_price(&measured).unwrap();
        table.with_overruns(Overruns::of_each(|wake| match wake {
            WakeSource::Device => Overrun::default(),
            _ => Overrun {
                polling_ns: self.overrun_ns,
                unpolled_ns: self.overrun_ns / 3,
            },
        }))
    }

    fn samples(&self) -> Vec<Sample> {
        let mut draw = SplitMix64(self.seed ^ 1);
        let mut one = |turn| {
            let gap_ns = match draw.below(4) {
                0 => 0,
                1 => draw.below(self.gap_ns),
                _ => draw.below(self.gap_ns) >> draw.below(24),
            };
            let gap_ns = self.coarse(gap_ns);
            let waits = draw.below(2) == 0;
            let latency_ns = u64::from(waits) * self.coarse(draw.below(self.latency_ns));
            let slept_ns = gap_ns - draw.below(gap_ns / 2 + 1);
            let is_cut = draw.below(100) < self.cuts;
            let cut_ns = u32::try_from(draw.below(gap_ns + 1)).unwrap_or(u32::MAX);
            Sample {
                start_ns: turn * self.gap_ns,
                gap_ns,
                latency_ns,
                slept_class: sample::short_class(slept_ns) | (u8::MAX * u8::from(!waits)),
                cut_ns: cut_ns | (u32::MAX * u32::from(!is_cut)),
                wake: WakeSource::ALL[usize::try_from(draw.below(5)).unwrap()],
                facts: match draw.below(8) {
                    0 => sample::INVALID,
                    _ if !is_cut && gap_ns < self.gap_ns / 16 => sample::PENDING,
                    _ => 0,
                },
            }
        };
        (0..self.halts).map(&mut one).collect()
    }

    fn follow(&self) -> Follow {
        let mut draw = SplitMix64(self.seed ^ 2);
        let mut evidence = Evidence::default();
        let (mut now_ns, mut last_ns) = (0, 0);
        for turn in 0..400 {
            let latency_ns = draw.below(50 * US);
            let gap_ns = 100 * US - last_ns * self.follows / 100;
            let mut halt = Halt::under(0, now_ns, gap_ns, latency_ns);
            halt.wake = [WakeSource::Timer, WakeSource::Ipi][turn % 2];
            now_ns = halt.end_ns() + US;
            last_ns = latency_ns;
            evidence.halt(&halt);
        }
        Follow::new(self.arrivals, &evidence)
    }
}

fn scalar(setting: &Setting, world: &World) -> Sums {
    let spec: Spec = "kvm".parse().unwrap();
    let mut run = Run::new(spec.build(setting).unwrap());
    let table = world.table();
    let frame = Frame {
        table: &table,
        cost: Cost::FREE,
        follow: world.follow(),
    };
    for sample in world.samples() {
        run.step(&sample, &frame);
    }
    Sums::of(run.outcome())
}

/// Plays all settings at once, in slices of `slice` halts, and each alone. With and without vectors the first is the same.
fn both(
    version: Version,
    arch: Arch,
    choices: &[Choice],
    world: &World,
    slice: usize,
) -> [Vec<Sums>; 2] {
    let rule = Rule::of(version, arch);
    let mut grid = Grid::new(rule, choices).unwrap();
    let mut lanes = Grid::one_by_one(rule, choices).unwrap();
    let (table, follow) = (world.table(), world.follow());
    for samples in world.samples().chunks(slice) {
        grid.play(samples, &table, &follow);
        lanes.play(samples, &table, &follow);
    }
    assert_eq!(grid.tallies(), lanes.tallies());
    let alone = |choice: &Choice| {
        let setting = Setting {
            knobs: choice.knobs,
            ceiling_ns: choice.ceiling_ns,
            start: choice.start,
            ..Setting::upstream(version, arch, 0)
        };
        scalar(&setting, world)
    };
    [grid.tallies(), choices.iter().map(alone).collect()]
}

fn any_ns() -> impl Strategy<Value = u32> {
    prop_oneof![
        2 => Just(0_u32),
        8 => 0..400_000_u32,
        8 => (0..40_u32).prop_map(|n| n * 10_000),
        4 => (0..28_u32, any::<u32>()).prop_map(|(bits, ns)| ns >> 4 >> bits),
        1 => any::<u32>(),
        1 => Just(group::LONGEST),
        1 => Just(u32::MAX),
    ]
}

fn any_factor() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0..5_u32, 2 => 0..300_u32, 1 => any::<u32>(), 1 => Just(1 << 28), 1 => Just(u32::MAX)]
}

prop_compose! {
    fn any_choice()(
        ceiling_ns in any_ns(), param in any_ns(), is_same in any::<bool>(), zero in any::<bool>(),
        grow in any_factor(), grow_start in any_ns(), shrink in any_factor(),
    ) -> Choice {
        let halt_poll_ns = if is_same { ceiling_ns } else { param };
        Choice {
            knobs: Knobs { halt_poll_ns, grow, grow_start, shrink },
            ceiling_ns,
            start: if zero { Start::Zero } else { Start::Ceiling },
        }
    }
}

prop_compose! {
    fn any_world()(
        (seed, halts, follows) in (any::<u64>(), 0..700_u64, 0..101_u64),
        gap_ns in prop_oneof![
            8 => 1_000..2_000 * US, 2 => Just(1 << 29), 1 => Just(1 << 31), 1 => 1..1_u64 << 40,
        ],
        latency_ns in prop_oneof![8 => 1..200 * US, 1 => Just(1 << 28), 1 => 1..1_u64 << 33],
        cuts in prop_oneof![2 => Just(0_u64), 1 => 0..50_u64],
        arrivals in prop::sample::select(Arrivals::ALL.to_vec()),
        grain_ns in prop_oneof![Just(1_u64), Just(10 * US)],
        overrun_ns in prop_oneof![2 => Just(0_u32), 1 => 0..66_000_u32, 1 => Just(10_000)],
    ) -> World {
        World { seed, halts, gap_ns, latency_ns, cuts, arrivals, follows, grain_ns, overrun_ns }
    }
}

/// All that goes with a ceiling and a first window.
fn side_by_side(ceiling_ns: u32, grow_start: u32) -> impl Iterator<Item = Choice> {
    let factors = [0, 1, 2, 3, 4].into_iter();
    let knobs = factors.flat_map(move |grow| {
        [0, 1, 2, 3, 4, 8].map(|shrink| Knobs::of([ceiling_ns, grow, grow_start, shrink]))
    });
    knobs.flat_map(|knobs| [Start::Zero, Start::Ceiling].map(|start| from(start, knobs)))
}

/// A setting whose ceiling is the parameter.
fn from(start: Start, knobs: Knobs) -> Choice {
    Choice {
        knobs,
        ceiling_ns: knobs.halt_poll_ns,
        start,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn grid_and_scalar_agree(
        kernel in prop::sample::select(KERNELS.to_vec()),
        arch in prop::sample::select(vec![Arch::X86, Arch::X86, Arch::Arm64, Arch::S390]),
        choices in prop::collection::vec(any_choice(), 1..40),
        world in any_world(),
        slice in 1..400_usize,
    ) {
        let version: Version = kernel.parse().unwrap();
        prop_assume!(Grid::new(Rule::of(version, arch), &[]).is_ok());
        let [grid, scalar] = both(version, arch, &choices, &world, slice);
        for ((choice, grid), scalar) in choices.iter().zip(grid).zip(scalar) {
            prop_assert_eq!(grid, scalar, "{:?}", choice);
        }
    }

    /// Settings as a search has them, side by side: many share a lane from the beginning or come to.
    #[test]
    fn settings_that_share_a_lane_agree_with_the_scalar(
        kernel in prop::sample::select(vec!["5.2", "5.15", "6.1", "6.12"]),
        arch in prop::sample::select(vec![Arch::X86, Arch::S390]),
        ceilings in prop::collection::vec(0..400_000_u32, 1..3),
        grow_start in prop::sample::select(vec![1, 5_000, 10_000, 100_000, 500_000]),
        world in any_world(),
        slice in 1..400_usize,
    ) {
        let choices: Vec<Choice> = ceilings.iter().flat_map(|&ceiling| side_by_side(ceiling, grow_start)).collect();
        let [grid, scalar] = both(kernel.parse().unwrap(), arch, &choices, &world, slice);
        for ((choice, grid), scalar) in choices.iter().zip(grid).zip(scalar) {
            prop_assert_eq!(grid, scalar, "{:?}", choice);
        }
    }
}

#[test]
fn every_shrink_up_to_a_thousand_divides_exactly_around_its_multiples() {
    for divisor in 0..1_000_u32 {
        let (magic, shift) = group::reciprocal(divisor);
        for multiple in [1, 2, 3, 1_000, group::LONGEST / divisor.max(1)] {
            let at = multiple * divisor;
            for window in [at, at.saturating_sub(1), group::LONGEST] {
                let quotient = (u64::from(window << 4) * u64::from(magic)) >> 32 >> shift;
                let expected = window.checked_div(divisor).unwrap_or(0);
                assert_eq!(quotient, u64::from(expected), "{window} / {divisor}");
            }
        }
    }
}

#[test]
fn usual_settings_are_played_by_vectors_and_odd_ones_one_by_one() {
    let rule = Rule::of(Version::new(6, 12), Arch::X86);
    let old = Rule::of(Version::new(5, 0), Arch::X86);
    for (rule, ceiling_ns, grow, grow_start, is_vector) in [
        (rule, 200_000, 2, 10_000, true),
        (rule, 10_000_000, 16, 0, true),
        (rule, 0, 0, u32::MAX, true),
        (rule, 200_000, 0, u32::MAX, true),
        (rule, group::LONGEST, 2, 10_000, true),
        (rule, group::LONGEST + 1, 2, 10_000, false),
        // The product wraps.
        (rule, 200_000, u32::MAX, 10_000, false),
        (old, 200_000, 2, 10_000, false),
    ] {
        let choice = from(Start::Zero, Knobs::of([ceiling_ns, grow, grow_start, 2]));
        let terms = group::Terms::of(&choice, rule);
        assert_eq!(terms.is_some(), is_vector, "{choice:?}");
    }
}

const LONG: World = World {
    seed: 7,
    halts: 60_000,
    gap_ns: 900 * US,
    latency_ns: 100 * US,
    cuts: 5,
    arrivals: Arrivals::FixedTime,
    follows: 0,
    grain_ns: 1,
    overrun_ns: 60_000,
};

#[test]
fn settings_that_do_the_same_share_a_lane() {
    let world = World {
        halts: 2_000,
        gap_ns: 200 * US,
        latency_ns: 20 * US,
        cuts: 0,
        arrivals: Arrivals::FixedGap,
        overrun_ns: 0,
        ..LONG
    };
    let choices: Vec<Choice> = side_by_side(50_000, 10_000).collect();
    let rule = Rule::of(Version::new(6, 12), Arch::X86);
    let mut grid = Grid::new(rule, &choices).unwrap();
    let before = grid.vectors.lanes();
    assert!(before < choices.len());
    grid.play(&world.samples(), &world.table(), &world.follow());
    let after = grid.vectors.lanes();
    assert!(after <= before / 2, "two starts that met");
}

#[test]
fn rules_without_a_window_are_refused() {
    let refused = |version| Grid::new(Rule::of(version, Arch::X86), &[]).err();
    assert_eq!(refused(Version::new(4, 2)), Some(NoWindow));
    assert_eq!(refused(Version::new(3, 10)), Some(NoWindow));
    assert_eq!(refused(Version::new(4, 3)), None);
}

#[test]
fn sums_beyond_32_bits_are_kept() {
    let knobs = Knobs::of([1_000_000, 2, 10_000, 3]);
    let choice = |n: u32| Choice {
        ceiling_ns: n * 25_000,
        ..from(Start::Zero, knobs)
    };
    let choices: Vec<Choice> = (0..40).map(choice).collect();
    let [grid, scalar] = both(Version::new(6, 12), Arch::X86, &choices, &LONG, 1_000);
    assert_eq!(grid, scalar);
    assert!(grid.iter().any(|tally| tally.poll_ns > 1 << 33));
    let block_time = "6.12+block-time".parse().unwrap();
    let [until_wake, scalar] = both(block_time, Arch::X86, &choices, &LONG, 1_000);
    assert_eq!(until_wake, scalar);
    assert_ne!(until_wake, grid);
}

/// Settings that differ only where no window comes have one ladder, and share a lane.
#[test]
fn settings_that_do_the_same_have_one_ladder() {
    let ladder = |version: (u16, u16), grow, shrink| {
        let choice = from(Start::Zero, Knobs::of([50_000, grow, 10_000, shrink]));
        let rule = Rule::of(Version::new(version.0.into(), version.1.into()), Arch::X86);
        ladder::Ladder::of(&choice, rule, 0).unwrap()
    };
    let now = (6, 12);
    assert_eq!(ladder(now, 1, 2), ladder(now, 1, 0));
    // An eighth of any window is below the first.
    assert_eq!(ladder(now, 4, 0), ladder(now, 4, 8));
    assert_ne!(ladder(now, 4, 0), ladder(now, 4, 2));
    // Halved windows stay before 5.16.
    assert_ne!(ladder((5, 10), 1, 2), ladder((5, 10), 1, 0));
}
