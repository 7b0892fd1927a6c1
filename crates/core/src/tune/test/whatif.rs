//! The grid that a page shows.

use super::*;
use crate::tune::whatif::{self, Shape};

fn two_vms() -> Inputs {
    let mut halts = load(0, "bimodal:0.7:20us:150us", 3_000, 5);
    halts.extend(load(1, "exp:60us", 2_500, 6));
    halts.extend(load(2, "fixed:2ms", 120, 7));
    for halt in &mut halts {
        halt.ceiling_ns = Some(33_000);
    }
    let mut terms = terms_of_default();
    terms.in_force.halt_poll_ns = 33_000;
    inputs(terms, &halts)
}

/// A setting has the figures that the search gave it, and its VMs are parts of the whole.
#[test]
fn the_grid_has_the_figures_of_the_search() {
    let inputs = two_vms();
    let (of, advice) = tune(&inputs, AIM);
    let choice = advice.choice.as_ref().map(|choice| choice.knobs);
    let grid = whatif::play(&inputs, &of, choice, 2, &Serial);
    assert_eq!(grid.cells.len(), grid.ceilings_ns.len() * grid.shapes.len());
    assert_eq!(grid.vms, [VmIndex(0), VmIndex(1)]);
    let mut met = 0;
    let named = [&of.in_force, &of.default].into_iter();
    for finalist in named.chain(&advice.choice).chain(&of.others) {
        let Some(place) = grid.place(&finalist.knobs) else {
            continue;
        };
        let cell = &grid.cells[place];
        assert_eq!(cell.own, finalist.judged(), "{:?}", finalist.knobs);
        let parts: u64 = cell.vms.iter().map(|sums| sums.halts).sum();
        assert!(parts > 0 && parts < cell.own.halts, "the third VM is left");
        met += 1;
    }
    assert!(met >= 3, "in force, the default and the choice are members");
    for shape in &grid.shapes {
        for &ceiling_ns in &grid.ceilings_ns {
            assert!(grid.place(&shape.with(ceiling_ns)).is_some());
        }
    }
}

#[test]
fn a_first_window_at_the_ceiling_moves_with_it() {
    let fixed = Shape::new(1, None, 1);
    assert_eq!(fixed.with(50_000), candidates::fixed(50_000));
    let inputs = two_vms();
    let (of, _) = tune(&inputs, AIM);
    let fixed_of_search = Some(candidates::fixed(47_000));
    let grid = whatif::play(&inputs, &of, fixed_of_search, 9, &Serial);
    assert!(grid.shapes.contains(&fixed) && grid.ceilings_ns.contains(&47_000));
    assert_eq!(grid.vms.len(), 3);
}

/// Where only a ceiling is sought, nothing else moves.
#[test]
fn a_ceiling_alone_has_one_shape() {
    let mut inputs = two_vms();
    inputs.terms.ceiling_only = true;
    let (of, _) = tune(&inputs, AIM);
    let grid = whatif::play(&inputs, &of, None, 1, &Serial);
    let in_force = &inputs.terms.in_force;
    assert!(grid.shapes.iter().all(|shape| shape.grow == in_force.grow));
    assert_eq!(grid.shapes.len(), 1, "{:?}", grid.shapes);
}
