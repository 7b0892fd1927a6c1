//! The bound, and what teaches nothing.

use super::super::test::model::{build, seen, setting};
use super::super::test::worst::{BLOCK, rounded, worst};
use super::*;

#[test]
fn no_gaps_cost_more_than_three_times_the_oracle() {
    let after = |credit: &i32, gap: u32| {
        let credit = super::credit(*credit, gap.into(), BLOCK, BLOCK);
        i32::try_from(rounded(credit.into())).unwrap()
    };
    let worst = worst(0, |credit| if *credit > 0 { BLOCK } else { 0 }, after);
    worst.print();
    assert!((2.999..=3.0).contains(&worst.ratio), "{worst:?}");
}

#[test]
fn it_polls_where_polling_pays_and_never_above_its_limit() {
    for (text, gap_ns, window_ns) in [
        ("payback", 12_000, 40_000),
        ("payback:max=15us", 12_000, 15_000),
        ("payback:max=10us", 12_000, 0),
        ("payback:max=0", 12_000, 0),
        ("payback", 41_000, 0),
    ] {
        let mut policy = build(text, &setting(0));
        for _ in 0..40 {
            let window_ns = policy.window(None);
            policy.learn(&seen(gap_ns, window_ns, 20_000));
            let state = format!("{policy:?}");
            let invalid = Seen {
                valid: false,
                ..seen(9_000_000, 0, 90_000)
            };
            policy.learn(&invalid);
            assert_eq!(format!("{policy:?}"), state, "{text}");
        }
        // Polls lower the price a little.
        let expected = window_ns - window_ns / 100..=window_ns;
        assert!(expected.contains(&policy.window(None)), "{text} {gap_ns}");
    }
}
