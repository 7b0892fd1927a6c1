//! Time that is spread over steps stays what it is.

use haltwise_core::event::Halt;
use haltwise_core::ids::VcpuId;

use super::*;
use crate::top::world::slept;

const SPAN_NS: u64 = 240_000;

fn halt(start_ns: u64, halt_ns: u64, poll_ns: u64, latency_ns: u64) -> Halt {
    Halt {
        halt_ns,
        waited: latency_ns > 0,
        poll_ns: Some(poll_ns),
        wake_latency_ns: Some(latency_ns),
        ..slept(0, 0, start_ns)
    }
}

#[test]
fn every_nanosecond_between_the_first_and_the_last_halt_is_somewhere() {
    let mut gather = Gather::new(1_000, SPAN_NS);
    for (start, length, poll, latency) in [
        (1_500, 700, 700, 0),
        (3_000, 50_000, 20_000, 9_000),
        (100_000, 100, 0, 50),
        (200_000, 30_000, 30_000, 0),
    ] {
        gather.halt(&halt(start, length, poll, latency));
    }
    let overview = gather.finish();
    let [row] = &overview.rows[..] else {
        panic!("{overview:?}");
    };
    let sum = |state: usize| row.steps.iter().map(|spent| spent[state]).sum::<u64>();
    let told: u64 = (0..STATES.len()).map(sum).sum();
    assert_eq!(told, 230_000 - 1_500);
    assert_eq!(sum(1), 30_700);
    assert_eq!(sum(2), 20_000);
    assert_eq!(sum(3), 21_000 + 50);
    assert_eq!(sum(4), 9_050);
    let step = SPAN_NS / STEPS as u64;
    assert!(
        row.steps
            .iter()
            .all(|spent| spent.iter().sum::<u64>() <= step)
    );
    assert_eq!(row.shares(SPAN_NS)[0][0], 0);
    assert_eq!(row.shares(SPAN_NS)[0][1], 128, "half a step was polled");
}

#[test]
fn of_too_many_vcpus_those_that_halt_most_are_kept() {
    let mut gather = Gather::new(0, SPAN_NS);
    for vcpu in 0..200_u32 {
        for n in 0..=u64::from(vcpu) {
            let halt = Halt {
                vcpu: Some(VcpuId(vcpu)),
                ..halt(n * 100, 50, 50, 0)
            };
            gather.halt(&halt);
        }
    }
    let overview = gather.finish();
    assert_eq!((overview.rows.len(), overview.left_out), (MOST, 200 - MOST));
    assert!(overview.rows.iter().all(|row| row.halts > 72));
}
