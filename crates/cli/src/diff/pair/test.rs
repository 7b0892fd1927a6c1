//! Pairs of VMs.

use haltwise_core::event::{Observable, Vm};
use haltwise_core::ids::{Pid, VmKey, VmmKind};

use super::*;

/// VMs of these names, in processes from 100 on.
fn roster(names: &str) -> Roster {
    let vms = (0..).zip(names.split_whitespace()).map(|(index, name)| Vm {
        index: VmIndex(index),
        key: VmKey {
            pid: Pid(100 + index),
            start_ticks: 0,
            ordinal: 0,
        },
        name: name.to_owned(),
        vmm: VmmKind::Qemu,
        observable: Observable::Yes,
        ..Vm::default()
    });
    Roster {
        vms: vms.collect(),
        ..Roster::default()
    }
}

/// The pairs as text: names and indices of both.
fn texts(made: &Pairing) -> Vec<String> {
    let side = |named: &Named| {
        let indices: Vec<u32> = named.vms.iter().map(|index| index.0).collect();
        format!("{}{indices:?}", named.name)
    };
    let text = |pair: &Pair| match pair {
        None => "host host".to_owned(),
        Some(both) => both.each_ref().map(side).join(" "),
    };
    made.pairs.iter().map(text).collect()
}

#[test]
fn one_vm_of_a_and_its_namesake_in_b() {
    for (a, b, selector, expected) in [
        ("x y", "x y", "y", Some("y[1] y[1]")),
        // Process 101 is y in A, and x in B.
        ("x y", "y x", "101", Some("y[1] y[0]")),
        ("x", "y", "100", Some("x[0] y[0]")),
        // A VM that was started again: one of its processes in A, all of them in B.
        ("x x y", "x y x", "101", Some("x[1] x[0, 2]")),
        ("a=b a", "a b a=b", "a=b", Some("a=b[0] a=b[2]")),
        ("x y", "x z", "y", None),
        ("x y", "x z", "101", None),
        ("x", "x", "y", None),
    ] {
        let made = of_vm(&roster(a), &roster(b), selector);
        let made = made.ok().map(|made| texts(&made).concat());
        assert_eq!(made.as_deref(), expected, "{a} {b} {selector}");
    }
}

#[test]
fn by_name_or_alone_or_as_asked() {
    for (a, b, unplaced, asked, expected) in [
        ("x", "x", false, "", "x[0] x[0]"),
        // The only one of each, whatever its name; the host besides if some halts have no VM.
        ("x", "y", false, "", "x[0] y[0]"),
        ("x", "y", true, "", "host host; x[0] y[0]"),
        ("x y", "y", false, "", "host host; y[1] y[0]"),
        // A VM that was started again has two rows and one name.
        ("x x", "x", false, "", "x[0, 1] x[0]"),
        ("", "x", false, "", "host host"),
        ("x y", "x y", false, "y", "y[1] y[1]"),
        ("x y", "z x", false, "y=z", "y[1] z[0]"),
        ("x y", "z", false, "101=100", "y[1] z[0]"),
        // A name that holds the sign.
        ("a=b a", "a=b b", false, "a=b", "a=b[0] a=b[0]"),
        ("x y", "x y", false, "x y x", "x[0] x[0]; y[1] y[1]"),
    ] {
        let asked: Vec<String> = asked.split_whitespace().map(str::to_owned).collect();
        let made = pairs(&roster(a), &roster(b), unplaced, &asked).unwrap();
        assert_eq!(texts(&made).join("; "), expected, "{a} {b} {asked:?}");
    }
}

#[test]
fn who_is_only_in_one_is_said() {
    let made = pairs(&roster("x y"), &roster("y z"), false, &[]).unwrap();
    assert_eq!(made.only_a, ["x"]);
    assert_eq!(made.only_b, ["z"]);
    let failure = pairs(&roster("x"), &roster("y"), false, &["x".to_owned()]).unwrap_err();
    assert_eq!(failure.exit, crate::exit::Exit::Usage);
    let said = format!("{:#}", failure.error);
    assert_eq!(said, "compare VMs: in B: no VM `x` in this capture");
}
