//! Which columns fit, and in which order rows stand.

use proptest::prelude::*;

use super::*;
use crate::top::rows::of_host;
use crate::top::step::Key;
use crate::top::world::{step, vm};
use haltwise_core::event::Observable;

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
