//! Which halts are kept.

use super::*;
use crate::top::world::slept;

const SPAN_NS: u64 = 3_600_000_000_000;

fn keep(starts: impl Iterator<Item = u64> + Clone) -> Sampled {
    let halts = starts.clone().count() as u64;
    let mut keep = Keep::new(0, SPAN_NS, halts);
    starts.for_each(|start_ns| keep.halt(&slept(0, 0, start_ns)));
    keep.finish(SPAN_NS)
}

#[test]
fn a_short_recording_is_kept_whole() {
    let sampled = keep((0..MOST).map(|n| n * 1_000));
    assert!(sampled.is_whole());
    assert_eq!(sampled.stretches, [(0, SPAN_NS)]);
}

#[test]
fn of_a_long_one_about_as_many_are_kept_as_fit_in_whole_stretches() {
    let halts = 100 * MOST;
    let sampled = keep((0..halts).map(|n| n * (SPAN_NS / halts)));
    assert_eq!(sampled.of, halts);
    assert!(
        sampled.halts.abs_diff(MOST) < MOST / 10,
        "{}",
        sampled.halts
    );
    assert!(sampled.stretches.len() as u64 >= STRETCHES);
    let inside = |ns: u64| {
        let mut all = sampled.stretches.iter();
        all.any(|(from, to)| (*from..*to).contains(&ns))
    };
    assert!(sampled.seats[0].1.iter().all(|halt| inside(halt.start_ns)));
    let kept: u64 = sampled.stretches.iter().map(|(from, to)| to - from).sum();
    assert!(kept.abs_diff(SPAN_NS / 100) < SPAN_NS / 1_000, "{kept}");
}

/// All in one minute of an hour: a sample by time alone would hold sixty times as many.
#[test]
fn what_comes_all_at_once_does_not_make_the_file_long() {
    let halts = 100 * MOST;
    let minute = SPAN_NS / 60;
    let sampled = keep((0..halts).map(|n| 7 * minute + n * (minute / halts)));
    assert!(sampled.halts <= 2 * MOST, "{}", sampled.halts);
}

#[test]
fn a_halt_that_steps_back_is_left_out() {
    let sampled = keep([10_000, 5_000, 20_000].into_iter());
    let starts: Vec<u64> = sampled.seats[0]
        .1
        .iter()
        .map(|halt| halt.start_ns)
        .collect();
    assert_eq!(starts, [10_000, 20_000]);
    assert!(!sampled.is_whole());
}

#[test]
fn of_too_many_vcpus_those_that_halt_most_are_kept_in_their_order() {
    let vcpus = u32::try_from(SEATS).unwrap() + 50;
    let mut keep = Keep::new(0, SPAN_NS, 1);
    for n in 0..5 {
        for vcpu in 0..vcpus {
            // The even ones halt five times, the odd ones once.
            if n == 0 || vcpu % 2 == 0 {
                keep.halt(&slept(0, vcpu, n * 10_000));
            }
        }
    }
    let sampled = keep.finish(SPAN_NS);
    assert_eq!((sampled.seats.len(), sampled.seats_left_out), (SEATS, 50));
    let often = sampled.seats.iter().filter(|(_, halts)| halts.len() == 5);
    assert_eq!(often.count(), vcpus as usize / 2);
    assert!(sampled.seats.is_sorted_by_key(|(seat, _)| *seat));
}

#[test]
fn packed_numbers_take_the_bytes_that_they_need() {
    let mut packed = Packed::default();
    for value in [0, 127, 128, 300, u64::MAX] {
        packed.number(value);
    }
    let start = [0, 0x7f, 0x80, 1, 0xac, 2];
    assert_eq!(packed.0, [&start[..], &[0xff; 9], &[1]].concat());
}
