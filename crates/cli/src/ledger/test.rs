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
        page::document(
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
