//! Steps cover a recording without gaps, and there are not too many of them.

use haltwise_core::event::Vcpu;
use haltwise_core::ids::VcpuId;

use super::*;

fn until(end_ns: u64) -> Interval {
    Interval {
        start_ns: 0,
        end_ns,
    }
}

#[test]
fn even_steps_end_with_the_recording() {
    for (end, length, expected) in [
        (100, 25, vec![25, 50, 75, 100]),
        (110, 25, vec![25, 50, 75, 110]),
        (115, 25, vec![25, 50, 75, 100, 115]),
        (20, 25, vec![20]),
        (0, 25, vec![0]),
    ] {
        assert_eq!(even(until(end), length), expected, "{end} by {length}");
    }
}

#[test]
fn steps_of_counts_end_where_counts_were_read() {
    let along =
        |length, read: &[u64]| at_readings(until(500), length, read.iter().copied().collect());
    // Each reading a little late: as many steps as readings.
    assert_eq!(along(100, &[101, 203, 304, 406]), [101, 203, 304, 406, 500]);
    assert_eq!(along(200, &[101, 203, 304, 406]), [203, 500]);
    // The last reading came at the end, in the middle of an interval.
    assert_eq!(
        along(100, &[101, 203, 304, 406, 500]),
        [101, 203, 304, 406, 500]
    );
    assert_eq!(along(100, &[]), [500]);
    // Readings after the end belong to no step.
    assert_eq!(along(100, &[700]), [500]);
}

#[test]
fn many_vcpus_or_a_long_time_make_steps_longer() {
    let roster = |vcpus: u32, to_ns| Roster {
        vms: vec![Vm {
            to_ns,
            ..Vm::default()
        }],
        vcpus: (0..vcpus)
            .map(|id| Vcpu {
                id: VcpuId(id),
                ..Vcpu::default()
            })
            .collect(),
        ..Roster::default()
    };
    let whole = until(16_000);
    assert_eq!(bounded(&roster(1, None), whole, 0), 1);
    assert_eq!(bounded(&roster(10, None), whole, 1), 4);
    // A VM that was there for a short time needs few cells.
    assert_eq!(bounded(&roster(10, Some(1_000)), whole, 1), 1);
    // One step is the least.
    assert_eq!(bounded(&roster(100_000, None), whole, 1), 16_384);
    let length = bounded(&roster(1, None), until(u64::MAX), 1);
    assert!(even(until(u64::MAX), length).len() as u64 <= STEPS + 1);
}
