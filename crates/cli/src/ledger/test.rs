//! Lines of strangers, read and shown.

use super::*;
use crate::proof::ledger::file::test::entry;

/// Whatever bytes a file holds, each line is either read or counted, and unchanged lines are
/// read.
#[test]
fn a_line_that_was_changed_hurts_no_other() {
    let good = serde_json::to_vec(&entry(1.0, 2.0, true)).unwrap();
    let mut random = haltwise_core::workload::SplitMix64(7);
    for _ in 0..2_000 {
        let mut changed = good.clone();
        for _ in 0..=random.below(3) {
            let place = usize::try_from(random.below(changed.len() as u64)).unwrap();
            changed[place] = u8::try_from(random.below(256)).unwrap();
        }
        let lines = changed.split(|byte| *byte == b'\n');
        let lines = lines.filter(|line| !line.trim_ascii().is_empty()).count();
        let file = [&good[..], &changed[..], &good[..]].join(&b'\n');
        let read = file::parse(&file);
        assert_eq!(read.entries.len() + read.unread, lines + 2);
        let untouched = entry(1.0, 2.0, true);
        assert_eq!(read.entries.first(), Some(&untouched));
        assert_eq!(read.entries.last(), Some(&untouched));
        document(
            &Ledger {
                schema: OUTPUT_SCHEMA,
                path: String::new(),
                unread: read.unread,
                summary: Summary::of(&read.entries),
                entries: read.entries,
            },
            60,
        );
    }
}

/// An inconclusive proof changes no figure of accuracy, whatever it says.
#[test]
fn proofs_that_decide_nothing_stand_apart() {
    let judged = [entry(103.0, 100.0, true), entry(120.0, 100.0, false)];
    let alone = Summary::of(&judged);
    for (verdict, cpu_pressure) in [
        (Verdict::TooNoisy { noise: 900.0 }, None),
        (Verdict::TooFewRounds { needed: 6 }, Some(0.01)),
        (Verdict::Better, Some(0.2)),
    ] {
        let mut noisy = entry(900.0, 100.0, true);
        (noisy.verdict, noisy.cpu_pressure) = (verdict, cpu_pressure);
        noisy.predictions[0].noise = 900.0;
        let mut entries = judged.to_vec();
        entries.push(noisy);
        let Summary { inconclusive, .. } = Summary::of(&entries);
        let expected = Inconclusive {
            proofs: 1,
            predictions: 1,
            within: 1,
        };
        assert_eq!(inconclusive, expected);
        let accuracy = Summary {
            inconclusive: alone.inconclusive,
            ..Summary::of(&entries)
        };
        assert_eq!(accuracy, alone);
    }
}

#[test]
fn what_was_measured_as_zero_has_no_relative_error() {
    let summary = Summary::of(&[entry(3.0, 0.0, true)]);
    assert!((summary.figures[0].error_p50 - 3.0).abs() < 1e-9);
    assert_eq!(summary.figures[0].relative_p50_percent, None);
    assert!(Summary::of(&[]).figures.is_empty());
}
