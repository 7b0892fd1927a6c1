//! Rows and their sums; names that strangers chose.

use std::rc::Rc;

use haltwise_core::event::Halt;
use haltwise_core::ids::VcpuId;
use proptest::prelude::*;

use super::*;
use crate::top::figures::IntervalFigures;
use crate::top::world::{slept, step, vm};

#[test]
fn who_did_something_has_a_row_even_if_nobody_knows_it() {
    let vms = [vm(0, "a")];
    let mut step = step(0, &vms);
    step.halt(&slept(0, 7, 5));
    step.halt(&Halt {
        vm: None,
        vcpu: None,
        ..slept(0, 0, 5)
    });
    step.halt(&Halt {
        vcpu: None,
        ..slept(0, 0, 5)
    });
    let rows = of_host(&step, None);
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[0].vcpus, rows[0].figures.halts), (3, Some(4)));
    assert_eq!(
        (rows[1].key, rows[1].figures.halts),
        (Key::Unplaced(None), Some(1))
    );
    let vcpus = of_vcpus(&step, &vms[0], None);
    let names: Vec<&str> = vcpus.iter().map(|row| row.name.as_str()).collect();
    let expected = [
        "vCPU 0 tid 10000",
        "vCPU 1 tid 10001",
        "vCPU 7",
        "(unknown vCPU)",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_long_name_costs_no_more_than_a_screen() {
    let tamed = tame(&"x\u{1b}[2J\u{202e}".repeat(20_000));
    assert!(tamed.len() <= 4 * (NAME + 1), "{}", tamed.len());
    assert!(tamed.ends_with('~') && !tamed.contains('\u{1b}'));
}

fn halts() -> impl Strategy<Value = Vec<Halt>> {
    let place = prop_oneof![
        4 => (0_u32..3, 0_u32..3).prop_map(|(vm, id)| (Some(vm), Some(id))),
        1 => (0_u32..3).prop_map(|vm| (Some(vm), None)),
        1 => Just((None, None)),
    ];
    let halt = (place, any::<bool>(), 0_u64..50_000, 0_u64..40_000);
    let halt = halt.prop_map(|((vm, vcpu), waited, poll_ns, latency)| Halt {
        vm: vm.map(VmIndex),
        vcpu: vcpu.map(VcpuId),
        waited,
        poll_ns: Some(poll_ns),
        wake_latency_ns: Some(if waited { latency } else { 0 }),
        ..slept(0, 0, 1)
    });
    prop::collection::vec(halt, 0..100)
}

const PARTS: [fn(&IntervalFigures) -> Option<f64>; 3] = [
    |it| it.halts_per_s,
    |it| it.wasted_cpu_percent,
    |it| it.useful_cpu_percent,
];

proptest! {
    /// The host is the sum of its rows, and a VM the sum of its own.
    #[test]
    fn rows_add_up(halts in halts()) {
        let vms = [vm(0, "a"), vm(1, "b"), vm(2, "c")];
        let mut step = Step::between(0, 1_000_000_000);
        step.around.vms = Rc::new(vms.to_vec());
        for halt in &halts {
            step.halt(halt);
        }
        step.settle();
        let sums = |rows: &[TopRow]| {
            let of = |part: fn(&IntervalFigures) -> Option<f64>| -> f64 {
                rows.iter().filter_map(|row| part(&row.figures)).sum()
            };
            let count = rows.iter().filter_map(|row| row.figures.halts).sum::<u64>();
            (count, PARTS.map(of))
        };
        let near = |all: &TopRow, (count, parts): (u64, [f64; 3])| {
            let whole = PARTS.map(|part| part(&all.figures).unwrap());
            all.figures.halts == Some(count) && whole.iter().zip(parts).all(|(w, p)| (w - p).abs() < 1e-6 * w.abs().max(1.0))
        };
        let host = of_all(&step, None);
        let rows = of_host(&step, None);
        prop_assert!(near(&host, sums(&rows)));
        for vm in &vms {
            prop_assert!(near(&of_vm(&step, vm, None), sums(&of_vcpus(&step, vm, None))));
        }
        let shown = rows.iter().map(|row| row.vcpus).sum::<usize>();
        prop_assert_eq!(host.vcpus, shown);
    }
}
