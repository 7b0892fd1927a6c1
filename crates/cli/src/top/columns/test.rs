//! Which columns fit, and in which order rows stand.

use proptest::prelude::*;

use super::*;
use crate::top::rows::{Key, of_host};
use crate::top::world::{step, vm};
use haltwise_core::event::Observable;

const ALL: There = There {
    cpu: true,
    exits: true,
    history: true,
    pilot: false,
};
const FEW: There = There {
    cpu: false,
    exits: false,
    history: false,
    pilot: false,
};

fn names(columns: &[(Column, u16)]) -> Vec<Column> {
    columns.iter().map(|(column, _)| *column).collect()
}

#[test]
fn eighty_columns_hold_what_matters() {
    use Column::{Ceiling, Cpu, Exits, Halts, Name, P50, P99, Pilot, Saved, Useful, Vcpus, Wasted};
    let plain = fitting(Table::Vms, FEW, 80);
    assert_eq!(
        names(&plain),
        [Name, Vcpus, Halts, Wasted, Useful, P50, P99, Ceiling]
    );
    let exits = fitting(Table::Vms, ALL, 80);
    assert_eq!(
        names(&exits),
        [Name, Cpu, Halts, Wasted, Useful, P99, Ceiling, Exits]
    );
    assert_eq!(
        names(&fitting(Table::Vms, ALL, 40)),
        [Name, Cpu, Halts, Wasted]
    );
    assert_eq!(names(&fitting(Table::Vms, ALL, 10)), [Name]);
    assert_eq!(
        fitting(Table::Vms, ALL, 200).len(),
        12,
        "all but the window"
    );
    assert_eq!(
        fitting(Table::Vcpus, ALL, 200).len(),
        12,
        "all but the number of vCPUs"
    );
    let pilot = |there| There {
        pilot: true,
        ..there
    };
    assert_eq!(
        names(&fitting(Table::Vms, pilot(FEW), 80)),
        [Name, Halts, Wasted, Useful, P99, Ceiling, Pilot, Saved]
    );
    assert_eq!(
        names(&fitting(Table::Vms, pilot(ALL), 80)),
        [Name, Cpu, Halts, Wasted, Useful, P99, Ceiling, Pilot]
    );
    assert_eq!(
        fitting(Table::Vcpus, pilot(ALL), 200).len(),
        12,
        "the pilot sets VMs"
    );
}

#[test]
fn every_heading_leaves_room_for_the_mark_of_sorting() {
    for column in Column::ALL {
        for table in [Table::Vms, Table::Vcpus] {
            assert!(
                column.title(table).len() < usize::from(column.width()),
                "{column:?}"
            );
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
fn who_cannot_be_observed_comes_last_in_either_order() {
    let mut vms = vec![vm(0, "a"), vm(1, "blind"), vm(2, "c")];
    vms[1].observable = Observable::No("no HLT exits".into());
    let mut rows = of_host(&step(0, &vms), None);
    for reversed in [false, true] {
        for column in Column::ALL {
            sort(&mut rows, column, reversed);
            assert_eq!(rows[2].key, Key::Vm(vms[1].index), "{column:?}");
        }
    }
}

#[test]
fn what_is_not_known_comes_after_what_is() {
    let vms = [vm(0, "a"), vm(1, "b")];
    let mut rows = of_host(&step(0, &vms), None);
    rows[1].figures.wasted = None;
    sort(&mut rows, Column::Wasted, false);
    assert_eq!(rows[1].name, "b");
    assert_eq!(Column::Wasted.text(&rows[1]), "-");
}

proptest! {
    /// On any screen the columns fit, in their order, and the name is never missing.
    #[test]
    fn columns_fit(width in 1_u16..400, cpu in any::<bool>(), exits in any::<bool>(), history in any::<bool>(), pilot in any::<bool>()) {
        for table in [Table::Vms, Table::Vcpus] {
            let columns = fitting(table, There { cpu, exits, history, pilot }, width);
            let taken: u16 = columns.iter().map(|(_, width)| width + GAP).sum::<u16>() - GAP;
            prop_assert!(taken <= width, "{taken} in {width}");
            prop_assert_eq!(columns[0].0, Column::Name);
            prop_assert!(columns.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
    }

    /// A wider screen shows at least as much.
    #[test]
    fn wider_is_more(width in 12_u16..300) {
        let narrow = names(&fitting(Table::Vms, ALL, width));
        let wide = names(&fitting(Table::Vms, ALL, width + 1));
        prop_assert!(narrow.iter().all(|column| wide.contains(column)));
    }
}
