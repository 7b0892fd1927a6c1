//! Rows and their sums; names that strangers chose.

use haltwise_core::event::Halt;
use haltwise_core::ids::VcpuId;
use proptest::prelude::*;

use super::*;
use crate::top::figures::IntervalFigures;
use crate::top::step::Key;
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
    assert!(tamed.len() <= 4 * (LONGEST_NAME + 1), "{}", tamed.len());
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

const ALL: There = There {
    cpu: true,
    exits: true,
    history: true,
    pilot: false,
};
fn names(columns: &[(Column, usize)]) -> Vec<Column> {
    columns.iter().map(|(column, _)| *column).collect()
}

/// Where CPU time is known; screens without it are among the goldens.
#[test]
fn narrow_screens_hold_what_matters() {
    use Column::{Ceiling, Cpu, Exits, Halts, Name, P99, Pilot, Useful, Wasted};
    let pilot = There { pilot: true, ..ALL };
    let all = [Name, Cpu, Halts, Wasted, Useful, P99, Ceiling, Exits];
    let piloted = [Name, Cpu, Halts, Wasted, Useful, P99, Ceiling, Pilot];
    for (there, width, expected) in [
        (ALL, 80, &all[..]),
        (ALL, 40, &all[..4]),
        (ALL, 10, &all[..1]),
        (pilot, 80, &piloted),
    ] {
        assert_eq!(names(&fitting(Table::Vms, there, width)), expected);
    }
    // All but the window, all but the number of vCPUs, and the pilot sets VMs.
    for (table, there) in [
        (Table::Vms, ALL),
        (Table::Vcpus, ALL),
        (Table::Vcpus, pilot),
    ] {
        assert_eq!(fitting(table, there, 200).len(), 12);
    }
}

#[test]
fn every_heading_leaves_room_for_the_mark_of_sorting() {
    for column in Column::all() {
        for table in [Table::Vms, Table::Vcpus] {
            assert!(column.title(table).len() < column.width(), "{column:?}");
        }
    }
}

#[test]
fn names_stand_as_people_count() {
    for (a, b, order) in [
        ("vCPU 9", "vCPU 10", Ordering::Less),
        ("web-2", "web-10", Ordering::Less),
        ("a", "b", Ordering::Less),
        ("a", "a1", Ordering::Less),
        ("x7", "x7", Ordering::Equal),
        (
            "x99999999999999999999999999999999999999999",
            "x1",
            Ordering::Greater,
        ),
    ] {
        assert_eq!(natural(a, b), order, "{a} {b}");
        assert_eq!(natural(b, a), order.reverse(), "{b} {a}");
    }
}

#[test]
fn what_is_not_known_comes_last_in_either_order() {
    let mut vms = vec![vm(0, "a"), vm(1, "blind"), vm(2, "c")];
    vms[1].observable = Observable::No("no HLT exits".into());
    let mut rows = of_host(&step(0, &vms), None);
    for reversed in [false, true] {
        for column in Column::all() {
            sort(&mut rows, column, reversed);
            assert_eq!(rows[2].key, Key::Vm(vms[1].index), "{column:?}");
        }
    }
    rows[0].figures.wasted_cpu_percent = None;
    let unknown = rows[0].name.clone();
    sort(&mut rows, Column::Wasted, false);
    assert_eq!(rows[1].name, unknown);
    assert_eq!(Column::Wasted.text(&rows[1]), "-");
}

proptest! {
    /// On any screen the columns fit, in their order, and the name is never missing.
    #[test]
    fn columns_fit(width in 1_usize..400, cpu in any::<bool>(), exits in any::<bool>(), history in any::<bool>(), pilot in any::<bool>()) {
        for table in [Table::Vms, Table::Vcpus] {
            let columns = fitting(table, There { cpu, exits, history, pilot }, width);
            let taken: usize = columns.iter().map(|(_, width)| width + GAP).sum::<usize>() - GAP;
            prop_assert!(taken <= width, "{taken} in {width}");
            prop_assert_eq!(columns[0].0, Column::Name);
            prop_assert!(columns.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
    }
}
