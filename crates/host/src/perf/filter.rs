//! Filters that the kernel applies to an event: only these threads.
//!
//! The kernel takes a filter of less than a page of text and tries its parts one by one for every
//! event. Threads of a VM have numbers close to each other, so ranges keep the text short; a range
//! may take in threads that were not asked for, whose events are then ignored here.

use haltwise_core::ids::Tid;

/// Longest filter, in bytes: the kernel takes less than one page (`ftrace_profile_set_filter`).
const LONGEST: usize = 4000;

/// A filter that lets through every thread in `tids` by the field `field`, and few others.
pub(super) fn threads(field: &str, tids: &[Tid]) -> String {
    let mut ranges: Vec<(u32, u32)> = tids.iter().map(|tid| (tid.0, tid.0)).collect();
    ranges.sort_unstable();
    ranges.dedup();
    if ranges.is_empty() {
        return format!("{field}==-1");
    }
    // Join what lies closest until the text fits.
    let mut gap = 1;
    loop {
        ranges = join(&ranges, gap);
        let text = text(field, &ranges);
        if text.len() <= LONGEST {
            return text;
        }
        gap *= 2;
    }
}

/// Joins ranges with at most `gap` from one's end to the next one's start.
fn join(ranges: &[(u32, u32)], gap: u32) -> Vec<(u32, u32)> {
    let mut joined: Vec<(u32, u32)> = Vec::new();
    for &(low, high) in ranges {
        match joined.last_mut() {
            Some(last) if low.saturating_sub(last.1) <= gap => last.1 = last.1.max(high),
            _ => joined.push((low, high)),
        }
    }
    joined
}

fn text(field: &str, ranges: &[(u32, u32)]) -> String {
    let parts: Vec<String> = ranges
        .iter()
        .map(|&(low, high)| {
            if low == high {
                format!("{field}=={low}")
            } else {
                format!("({field}>={low}&&{field}<={high})")
            }
        })
        .collect();
    parts.join("||")
}

#[cfg(test)]
mod test {
    use proptest::prelude::*;

    use super::*;

    fn passes(filter: &str, tid: u32) -> bool {
        filter.split("||").any(|part| {
            let part = part.trim_matches(['(', ')']);
            part.split("&&").all(|term| {
                let term = term.trim_start_matches("prev_pid");
                let number = |n: &str| n.parse::<i64>().unwrap();
                let tid = i64::from(tid);
                match term.split_at(2) {
                    ("==", n) => tid == number(n),
                    (">=", n) => tid >= number(n),
                    ("<=", n) => tid <= number(n),
                    other => panic!("{other:?}"),
                }
            })
        })
    }

    #[test]
    fn few_threads_are_named_exactly() {
        assert_eq!(threads("pid", &[]), "pid==-1");
        assert_eq!(threads("pid", &[Tid(7)]), "pid==7");
        assert_eq!(
            threads("pid", &[Tid(9), Tid(7), Tid(8), Tid(20), Tid(9)]),
            "(pid>=7&&pid<=9)||pid==20"
        );
    }

    proptest! {
        #[test]
        fn all_pass_and_the_text_fits(tids in prop::collection::vec(1..4_194_304_u32, 1..600)) {
            let list: Vec<Tid> = tids.iter().map(|&tid| Tid(tid)).collect();
            let filter = threads("prev_pid", &list);
            prop_assert!(filter.len() <= LONGEST);
            for &tid in tids.iter().step_by(1 + tids.len() / 20) {
                prop_assert!(passes(&filter, tid));
            }
        }
    }
}
