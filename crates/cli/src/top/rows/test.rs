//! Rows and their sums; names that strangers chose.

use std::rc::Rc;

use haltwise_core::event::Halt;
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

use super::*;
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
    assert_eq!((rows[0].figures.vcpus, rows[0].figures.halts), (3, 4));
    assert_eq!(
        (rows[1].key, rows[1].figures.halts),
        (Key::Unplaced(None), 1)
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
    let name = "x\u{1b}[2J\u{202e}".repeat(20_000);
    let tamed = tame(&name);
    assert!(tamed.len() <= 4 * (NAME + 1), "{}", tamed.len());
    assert!(tamed.ends_with('~') && !tamed.contains('\u{1b}'));
    assert_eq!(tame("数据库"), "数据库");
}

#[test]
fn a_filter_means_a_piece_of_the_name_in_any_case() {
    let vms = [vm(0, "Web-1")];
    let row = &of_host(&step(0, &vms), None)[0];
    for (filter, meant) in [("", true), ("web", true), ("EB-1", true), ("web-2", false)] {
        assert_eq!(is_meant(row, filter), meant, "{filter}");
    }
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
            let of = |part: &dyn Fn(&Figures) -> Option<f64>| -> f64 {
                rows.iter().filter_map(|row| part(&row.figures)).sum()
            };
            let count = rows.iter().map(|row| row.figures.halts).sum::<u64>();
            (count, [of(&|f| Some(f.halts_per_s)), of(&|f| f.wasted), of(&|f| f.useful)])
        };
        let near = |all: &Figures, (count, parts): (u64, [f64; 3])| {
            let whole = [all.halts_per_s, all.wasted.unwrap(), all.useful.unwrap()];
            all.halts == count && whole.iter().zip(parts).all(|(w, p)| (w - p).abs() < 1e-6)
        };
        let rows = of_host(&step, None);
        prop_assert!(near(&host(&step, None), sums(&rows)));
        for vm in &vms {
            prop_assert!(near(&of_vm(&step, vm, None).figures, sums(&of_vcpus(&step, vm, None))));
        }
        let shown = rows.iter().map(|row| row.figures.vcpus).sum::<usize>();
        prop_assert_eq!(host(&step, None).vcpus, shown);
    }

    /// No name steers a terminal.
    #[test]
    fn any_name_is_tame(name in "\\PC{0,40}|.{0,40}") {
        let tamed = tame(&name);
        prop_assert!(!tamed.chars().any(char::is_control));
        prop_assert!(tamed.width() >= tamed.chars().count().min(1));
    }
}
