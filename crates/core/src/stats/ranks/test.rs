//! Boundary tables of the interval, against printed tables and a count by hand.

use super::*;

fn close(left: f64, right: f64) -> bool {
    (left - right).abs() < 1e-9
}

#[test]
fn the_cuts_are_those_of_printed_tables() {
    // Largest sum with a one-sided probability of at most 2.5 %: Wilcoxon and Wilcox (1964), table 1.
    let cuts = [0, 2, 3, 5, 8, 13, 25, 52, 89, 137];
    for (n, cut) in [6, 7, 8, 9, 10, 12, 15, 20, 25, 30].into_iter().zip(cuts) {
        assert_eq!(cut_of(n).0, cut, "n = {n}");
        assert!(cut_of(n).1 >= CONFIDENCE, "n = {n}");
    }
}

#[test]
fn too_few_say_how_little_they_are_worth() {
    for (n, confidence) in [(1, 0.0), (2, 0.5), (3, 0.75), (5, 0.9375), (6, 0.96875)] {
        assert!(close(cut_of(n).1, confidence), "n = {n}");
        assert_eq!(cut_of(n).0, 0);
    }
    assert_eq!(RankInterval::of(&[]), None);
}

#[test]
fn one_disturbed_round_of_twelve_leaves_the_interval_small() {
    let mut differences: Vec<f64> = (0..12).map(|n| f64::from(n) / 10.0).collect();
    let calm = RankInterval::of(&differences).unwrap();
    differences[11] = 1e9;
    let disturbed = RankInterval::of(&differences).unwrap();
    assert!(disturbed.high < 2.0, "{disturbed:?}");
    assert!(disturbed.low >= calm.low);
}

/// Every way in which the signs of n differences can fall: the interval misses zero in exactly as many
/// as its confidence says.
#[test]
fn in_small_worlds_the_confidence_is_exact() {
    for n in 1..=12_u32 {
        let sizes: Vec<f64> = (0..n).map(|k| f64::from(1 << k)).collect();
        let mut missed = 0;
        for signs in 0..1_u32 << n {
            let sign = |k: usize| if signs >> k & 1 == 1 { 1.0 } else { -1.0 };
            let signed: Vec<f64> = (0..).zip(&sizes).map(|(k, size)| sign(k) * size).collect();
            let interval = RankInterval::of(&signed).unwrap();
            missed += u32::from(interval.excludes_zero());
        }
        let said = 1.0 - cut_of(usize::try_from(n).unwrap()).1;
        let share = f64::from(missed) / f64::from(1_u32 << n);
        assert!(close(share, said), "n = {n}: {missed}");
    }
}
