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
