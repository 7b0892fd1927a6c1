//! Weights, and how they move.

use super::{EXPERTS, Share};
use crate::policy::test::model::{build, gaps, ratio, refusal, setting, walk};
use crate::policy::{Ask, Policy as _, Seen, Setting, Start};

const BREAK_EVEN_NS: u64 = 30_000;

fn share(eta: f64, alpha: f64) -> Share {
    Share::new(eta, alpha, &setting(BREAK_EVEN_NS))
}

fn gap(gap_ns: u64) -> Seen {
    Seen {
        halt_ns: gap_ns,
        ..Seen::default()
    }
}

#[test]
fn the_experts() {
    let thresholds = share(4.0, 0.08).thresholds;
    assert_eq!(thresholds[..4], [60_000, 45_000, 33_750, 25_312]);
    assert_eq!(thresholds[EXPERTS - 2..], [1_068, 0]);
}

/// A halt that blocks under all: 60 us + 30 us of 90 us is a loss of 1, 0 + 30 us one of a third.
#[test]
fn one_loss() {
    let mut share = share(3.0, 0.5);
    share.weights = [0.0; EXPERTS];
    share.weights[0] = 0.5;
    share.weights[EXPERTS - 1] = 0.5;
    share.learn(&gap(1_000_000));
    // e^-3 and e^-1, of which 1/2 and 1 - 2^(-1/3) go into the pool.
    let kept = [(-3.0_f64).exp() / 2.0, (-1.0_f64).exp() / 2.0];
    let given = [kept[0] / 2.0, kept[1] * (1.0 - 0.5_f64.cbrt())];
    let pool = (given[0] + given[1]) / 16.0;
    let all = kept[0] + kept[1];
    for (index, expected) in [
        (0, (kept[0] - given[0] + pool) / all),
        (1, pool / all),
        (EXPERTS - 1, (kept[1] - given[1] + pool) / all),
    ] {
        let found = share.weights[index];
        assert!(
            (found - expected).abs() < 1e-12,
            "{index}: {found} {expected}"
        );
    }
    let sum: f64 = share.weights.iter().sum();
    assert!((sum - 1.0).abs() < 1e-12, "{sum}");
}

#[test]
fn a_threshold_polls_for_a_gap_as_long_as_itself() {
    for (gap_ns, polls) in [(44_999, true), (45_000, true), (45_001, false)] {
        let mut share = share(4.0, 0.08);
        share.weights = [1.0 / 16.0; EXPERTS];
        share.learn(&gap(gap_ns));
        let alike = (share.weights[0] - share.weights[1]).abs() < 1e-12;
        assert_eq!(alike, polls, "{gap_ns}");
    }
}

#[test]
fn where_it_starts() {
    for (start, first) in [(Start::Zero, 0), (Start::Ceiling, 60_000)] {
        let setting = Setting {
            start,
            ..setting(BREAK_EVEN_NS)
        };
        let mut policy = build("share", &setting);
        assert_eq!(policy.window(&Ask::default()), first);
        // It comes to the same from both ends.
        let windows = walk(policy.as_mut(), &[10_000; 200]);
        assert!(
            (10_000..=60_000).contains(&windows[200]),
            "{}",
            windows[200]
        );
        let windows = walk(policy.as_mut(), &[1_000_000; 200]);
        assert!(windows[200] < 2_000, "{}", windows[200]);
    }
}

#[test]
fn what_does_not_share_comes_off_its_favourite_slowly() {
    let halts_to_change = |text: &str| {
        let mut policy = build(text, &setting(BREAK_EVEN_NS));
        walk(policy.as_mut(), &[1_000_000; 200]);
        let windows = walk(policy.as_mut(), &[20_000; 400]);
        windows.iter().position(|window| *window >= 20_000)
    };
    let sharing = halts_to_change("share").unwrap();
    let stubborn = halts_to_change("share:alpha=0%").unwrap();
    assert!(sharing * 3 < stubborn, "{sharing} {stubborn}");
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    for (args, message) in [
        ("eta=101", "`eta=101` is not a whole number up to 100"),
        ("eta=0.5", "is not a whole number"),
        ("alpha=8", "`alpha=8` is not a share from 0% to 100%"),
    ] {
        let error = refusal(&format!("share:{args}"));
        assert!(error.contains(message), "{args}: {error}");
    }
}

/// It follows phases better than the best fixed threshold, known in retrospect, does.
#[test]
fn it_follows_phases() {
    let gaps = gaps("phases:20us*200:3ms*50", 40_000);
    let fixed = (0..=100).map(|us| ratio(&format!("fixed:{us}000ns"), 50_000, &gaps));
    let best = fixed.fold(f64::INFINITY, f64::min);
    assert!(ratio("share", 50_000, &gaps) < best);
}
