//! Made-up runs: what the table says of them, and which of them run again.

use super::super::said::{Recommended, Said};
use super::super::{Ceiling, Run, rounds};
use super::*;
use crate::bench::loads::LOADS;

const SWITCH_NS: f64 = 16_000.0;
const LATENCY_NS: f64 = 40_000.0;

fn run(round: u32, poll_us: f64, blocks: f64) -> Run {
    let account = Account {
        poll_ns: poll_us * 1e3,
        blocks,
        latency_ns: blocks * LATENCY_NS,
    };
    Run {
        round,
        halts: 1_000.0,
        account,
        least: (poll_us == 0.0).then_some([account; 3]),
        trip_ns: None,
    }
}

/// A reply every `gap_us`, met under 200 us; `noise` is put on the ceiling in force, round by round.
fn tuned(gap_us: f64, own_ns: u64, noise: &[f64]) -> Tuned {
    let rounds = || (0..).zip(noise.iter().copied());
    let off = rounds().map(|(round, _)| run(round, 0.0, 1.0));
    let in_force = rounds().map(|(round, noise)| run(round, gap_us * noise, 0.0));
    let recommended = || Recommended {
        ceiling_ns: own_ns,
        verdict: "change".to_owned(),
        cost_share: Some(-0.5),
    };
    Tuned {
        load: LOADS[0].clone(),
        said: Said {
            in_force_ns: 200_000,
            switch_cpu_ns: SWITCH_NS,
            goals: (0..3).map(|_| recommended()).collect(),
        },
        break_even_ns: GOALS.map(|(_, lambda)| SWITCH_NS + lambda * LATENCY_NS),
        ceilings: vec![
            Ceiling {
                ns: 0,
                runs: off.collect(),
            },
            Ceiling {
                ns: 200_000,
                runs: in_force.collect(),
            },
        ],
    }
}

const STEADY: [f64; 6] = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98];

#[test]
fn the_law_says_where_twice_as_cheap_can_hold() {
    // Break-evens: 16, 56 and 416 us.
    for (gap_us, laws) in [
        (20.0, [Law::Never, Law::Never, Law::Never]),
        (33.0, [Law::Twice, Law::Never, Law::Never]),
        (115.0, [Law::Twice, Law::Twice, Law::Never]),
    ] {
        let tuned = tuned(gap_us, 0, &STEADY);
        let judged = [0, 1, 2].map(|goal| tuned.judged(goal).unwrap());
        assert_eq!(judged.each_ref().map(Judged::law), laws, "{gap_us} us");
        assert_eq!(
            judged.each_ref().map(Judged::is_twice),
            laws.map(|law| law == Law::Twice),
            "{gap_us} us: not polling is what tune says"
        );
        assert_eq!(
            judged.each_ref().map(|judged| judged.is_between),
            [true, gap_us > 56.0, false]
        );
        assert!((judged[0].off_by_law - 16.0 / gap_us).abs() < 0.01);
    }
}

/// An oracle that does better than not polling leaves the law open.
#[test]
fn gaps_on_both_sides_leave_the_law_open() {
    let mut tuned = tuned(20.0, 200_000, &STEADY);
    for run in &mut tuned.ceilings[0].runs {
        let cheap = Account {
            poll_ns: 5_000.0,
            blocks: 0.1,
            latency_ns: 0.0,
        };
        run.least = Some([cheap; 3]);
    }
    assert_eq!(tuned.judged(0).unwrap().law(), Law::Open);
}

#[test]
fn only_what_straddles_a_line_runs_again() {
    let steady = tuned(115.0, 0, &STEADY);
    assert_eq!(rounds::undecided(&steady), Vec::<usize>::new());
    assert!(rounds::contested(&[steady]).is_empty());
    // Balanced: 56 over some 112 us, on either side of the half; latency is worse for sure.
    let noisy = tuned(114.0, 0, &[0.9, 1.1, 1.0, 0.95, 1.05, 0.98]);
    assert_eq!(rounds::undecided(&noisy), [1]);
    assert_eq!(rounds::contested(&[noisy]), [(0, 0), (0, 1)]);
}

/// The range of five rounds is no interval, be it ever so narrow; a ceiling is no worse than itself.
#[test]
fn few_rounds_decide_nothing() {
    let few = tuned(115.0, 0, &STEADY[..5]);
    assert_eq!(rounds::undecided(&few), [0, 1, 2]);
    let stand = |tuned: &Tuned| tuned.judged(0).unwrap().not_worse();
    assert_eq!(stand(&few), Stand::Open);
    assert_eq!(stand(&tuned(115.0, 0, &STEADY)), Stand::Below);
    assert_eq!(stand(&tuned(10.0, 0, &STEADY)), Stand::Above);
    assert_eq!(stand(&tuned(115.0, 200_000, &[1.0])), Stand::Below);
}

/// Rounds are compared with themselves, whoever ran in more of them.
#[test]
fn ratios_are_of_one_round() {
    let mut tuned = tuned(32.0, 0, &[1.0, 2.0]);
    tuned.ceilings[0].runs.remove(0);
    let ratio = tuned.judged(0).unwrap().to_force;
    assert_eq!((ratio.samples, ratio.median), (1, 0.25));
    tuned.ceilings[0].runs.clear();
    assert!(tuned.judged(0).is_none(), "never ran");
}

#[test]
fn the_summary_counts_each_cell_once() {
    let all = [
        tuned(20.0, 200_000, &STEADY),
        tuned(115.0, 0, &STEADY),
        tuned(40.0, 0, &[]),
    ];
    let figures = figures(&all);
    let text = &figures.summary;
    for line in [
        "6 cells (loads and goals)",
        "in force: 5 by the median; for sure 5, surely not 1, open 0",
        "of the sweep: 4 by the median; for sure 4, surely not 2, open 0",
        "not polling is, by the law: 2; so is the recommended ceiling in 2",
        "not even the clairvoyant is: 4",
        "more rounds would tell: none",
        "not measured: time was over",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    assert!(text.lines().all(|line| line.len() <= 120), "{text}");
    assert!(figures.rows.iter().all(|row| row.len() == COLUMNS.len()));
    let clairvoyants = figures.rows.iter().filter(|row| row[1] == "clairvoyant");
    assert_eq!(clairvoyants.count(), 2 * 6 * 3);
}
