//! What the class of the last gap changes.

use super::LearnedByClass;
use crate::policy::learned::Terms;
use crate::policy::test::model::{build, gaps, ratio, setting, walk};

const BREAK_EVEN_NS: u64 = 50_000;

#[test]
fn the_classes() {
    let terms = Terms {
        half_life: 64,
        clamp: 2,
    };
    let policy = LearnedByClass::new(terms, &setting(BREAK_EVEN_NS));
    for (gap_ns, class) in [
        (0, 0),
        (50_000, 0),
        (50_001, 1),
        (400_000, 1),
        (400_001, 2),
        (u64::MAX, 2),
    ] {
        assert_eq!(policy.class_of(gap_ns), class, "{gap_ns}");
    }
}

#[test]
fn each_class_has_a_threshold_of_its_own() {
    let text = "learned-by-class";
    // Each of three gaps is followed by another, always the same: short by middling, middling by long,
    // long by short. Only after a long one is polling worth it.
    for [short, middling, long] in [
        [1_000, 60_000, 1_000_000],
        [40_000, 50_001, 400_001],
        [20_000, 400_000, u64::MAX],
    ] {
        let mut policy = build(text, &setting(BREAK_EVEN_NS));
        let windows = walk(policy.as_mut(), &[short, middling, long].repeat(20));
        let last = &windows[57..];
        assert!(last[0] >= short, "{last:?}");
        assert_eq!(last[1..3], [0, 0], "{short} {middling} {long}");
    }
}

#[test]
fn it_begins_as_after_a_long_gap() {
    let mut policy = build("learned-by-class", &setting(BREAK_EVEN_NS));
    // The first halt teaches what follows a long one; the second, of a class of its own, nothing of it.
    let windows = walk(policy.as_mut(), &[20_000, 1_000_000]);
    assert_eq!(windows, [0, 0, 20_479]);
}

/// On loads that go through phases, the class of the last gap foretells the next; one histogram of all
/// is behind at every change.
#[test]
fn it_beats_one_histogram_on_phases() {
    for (process, break_even_ns) in [
        ("phases:20us*200:3ms*50", 50_000),
        ("phases:20us*20:3ms*20", 50_000),
    ] {
        let gaps = gaps(process, 40_000);
        let by_class = ratio("learned-by-class", break_even_ns, &gaps);
        let learned = ratio("learned", break_even_ns, &gaps);
        assert!(by_class <= learned, "{process}: {by_class} {learned}");
    }
    let gaps = gaps("phases:20us*200:3ms*50", 40_000);
    assert!(ratio("learned-by-class", BREAK_EVEN_NS, &gaps) < 1.02);
    assert!(ratio("learned", BREAK_EVEN_NS, &gaps) > 1.1);
}
