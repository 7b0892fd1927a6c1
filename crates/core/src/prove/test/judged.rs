//! Laws of the judgement: how often it is wrong, and whether it finds what is there.

use crate::prove::compare::{Block, Comparison, Round, Verdict, draw};
use crate::prove::figure::{Figure, Figures};
use crate::workload::SplitMix64;

#[derive(Debug, Clone, Copy)]
enum Noise {
    Uniform,
    /// Many a little above, few far above.
    Skewed,
    /// One block in ten is ten times as disturbed.
    Disturbed,
    /// The host grows slower from block to block, by as much as its noise within a round.
    Drifting,
}

use Noise::{Disturbed, Drifting, Skewed, Uniform};

const NOISES: [Noise; 4] = [Uniform, Skewed, Disturbed, Drifting];

const TRUTH: f64 = 100.0;

/// A simulated host: measures A as 100 and B as so much more, with noise of about 1.
fn experiment(seed: u64, rounds: u32, more: f64, noise: Noise) -> Vec<Round> {
    let mut random = SplitMix64(seed ^ 0x5eed);
    let mut block = 0.0;
    let mut measure = |under: Block| {
        let spoilt = match noise {
            Skewed => -(1.0 - random.unit()).ln(),
            Disturbed if random.unit() < 0.1 => random.unit() * 40.0,
            Uniform | Drifting | Disturbed => random.unit() * 4.0 - 2.0,
        };
        block += if matches!(noise, Drifting) { 2.0 } else { 0.0 };
        let truth = TRUTH + if under.is_b() { more } else { 0.0 };
        Figures::default().with(Figure::Cost, Some(truth + spoilt + block))
    };
    let orders = draw(seed, rounds).into_iter();
    let round = |order: [Block; 3]| {
        let mut round = Round::default();
        for under in order {
            round[under as usize] = measure(under);
        }
        round
    };
    orders.map(round).collect()
}

fn compare(seed: u64, rounds: u32, more: f64, noise: Noise) -> Comparison {
    Comparison::of(Figure::Cost, &experiment(seed, rounds, more, noise)).unwrap()
}

/// How many of `of` experiments are as `is` says.
fn share(of: u64, is: impl Fn(u64) -> bool) -> f64 {
    let mut seeds = SplitMix64(SEED);
    let hits = (0..of).filter(|_| is(seeds.next_u64())).count();
    hits as f64 / of as f64
}

/// Where the seeds of all experiments come from; a failure prints it, or the seed itself.
const SEED: u64 = 0x70_72_6f_76_65;

const MANY: u64 = 2_000;

/// Four standard deviations of a share of 5 % over 2000 experiments.
const SLACK: f64 = 0.02;

#[test]
fn settings_that_are_the_same_are_told_apart_in_no_more_than_5_of_100() {
    for noise in NOISES {
        for rounds in [6, 12, 20] {
            let excluded = share(MANY, |seed| {
                let comparison = compare(seed, rounds, 0.0, noise);
                let verdict = comparison.verdict(0.1);
                let judged = matches!(verdict, Verdict::Better | Verdict::Worse);
                assert!(!judged || comparison.effect.excludes_zero());
                comparison.effect.excludes_zero()
            });
            let world = format!("{noise:?}, {rounds} rounds, seed {SEED}");
            assert!(excluded <= 0.05 + SLACK, "{world}: {excluded}");
        }
    }
}

#[test]
fn the_interval_holds_the_truth_as_often_as_it_says_and_not_much_more_often() {
    for noise in NOISES {
        for rounds in [6, 12, 20] {
            let said = compare(1, rounds, 7.0, noise).effect.confidence;
            let held = share(MANY, |seed| {
                let effect = compare(seed, rounds, 7.0, noise).effect;
                (effect.low..=effect.high).contains(&7.0)
            });
            let world = format!("{noise:?}, {rounds} rounds, seed {SEED}");
            assert!((held - said).abs() <= SLACK, "{world}: {held}, not {said}");
        }
    }
}

#[test]
fn a_difference_of_five_times_the_noise_is_found_with_its_sign() {
    for noise in NOISES {
        // A disturbed host needs more rounds, and may hide it; it never shows the wrong sign.
        let (rounds, least) = match noise {
            Uniform | Skewed => (12, 0.99),
            Disturbed | Drifting => (24, 0.9),
        };
        for (more, verdict) in [(8.0, Verdict::Worse), (-8.0, Verdict::Better)] {
            let found = share(300, |seed| {
                let said = compare(seed, rounds, more, noise).verdict(0.1);
                let judged = matches!(said, Verdict::Better | Verdict::Worse);
                assert!(!judged || said == verdict, "{noise:?}, seed {seed}");
                said == verdict
            });
            assert!(found >= least, "{noise:?}, {more}, seed {SEED}: {found}");
        }
    }
}

/// The verdicts, case by case, with figures that are the same in each round.
#[test]
fn every_verdict_by_hand() {
    let steady = |b: f64, wobble: f64, rounds: usize| {
        let figures = |value: f64| Figures::default().with(Figure::Cost, Some(value));
        let sign = |n: usize| if n.is_multiple_of(2) { 1.0 } else { -1.0 };
        let round = |n: usize| [100.0, b, 100.0 + sign(n) * wobble].map(figures);
        let rounds: Vec<Round> = (0..rounds).map(round).collect();
        Comparison::of(Figure::Cost, &rounds).unwrap()
    };
    let none = |seen_from| Verdict::NoDifference { seen_from };
    for (b, wobble, rounds, asked, verdict) in [
        (90.0, 1.0, 12, 0.1, Verdict::Better),
        (110.0, 1.0, 12, 0.1, Verdict::Worse),
        (100.5, 1.0, 12, 0.1, none(0.5)),
        (100.0, 0.0, 12, 0.0, none(0.0)),
        // An effect, but A differs from itself by as much.
        (90.0, 12.0, 12, 0.1, Verdict::TooNoisy { noise: 12.0 }),
        // No effect, and the control would not have shown 0.5 %.
        (100.0, 1.0, 12, 0.005, Verdict::TooNoisy { noise: 1.0 }),
        (90.0, 1.0, 5, 0.1, Verdict::TooFewRounds { needed: 6 }),
    ] {
        let found = steady(b, wobble, rounds).verdict(asked);
        assert_eq!(found, verdict, "{b} {wobble} {rounds} {asked}");
    }
}

#[test]
fn a_round_without_the_figure_in_one_block_does_not_count() {
    let mut rounds = experiment(7, 8, 0.0, Uniform);
    rounds[3][2] = Figures::default();
    let comparison = Comparison::of(Figure::Cost, &rounds).unwrap();
    assert_eq!(comparison.effect.rounds, 7);
    assert_eq!(Comparison::of(Figure::Power, &rounds), None);
    let nothing = Figures::default().with(Figure::Power, Some(f64::NAN));
    assert_eq!(nothing.get(Figure::Power), None);
}

#[test]
fn every_order_of_a_round_is_as_likely_and_a_seed_draws_the_same() {
    let orders = draw(3, 6_000);
    assert_eq!(orders, draw(3, 6_000));
    assert_ne!(orders, draw(4, 6_000));
    let mut seen = std::collections::BTreeMap::new();
    for order in &orders {
        let mut sorted = *order;
        sorted.sort_unstable();
        assert_eq!(sorted, Block::ALL);
        *seen.entry(*order).or_insert(0_u32) += 1;
    }
    assert_eq!(seen.len(), 6);
    assert!(seen.values().all(|n| (850..1_150).contains(n)), "{seen:?}");
}
