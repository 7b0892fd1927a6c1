//! The window that a halt begins with. What a halt does to it is in `tests/kvm_worlds.rs` and `tests/kvm_laws.rs`.

use super::*;
use crate::kvm::Arch;

fn x86(version: &str) -> Rule {
    Rule::of(version.parse().unwrap(), Arch::X86)
}

#[test]
fn the_window_at_entry() {
    for (rule, expected) in [
        (x86("3.19"), [0, 0, 0]),
        (x86("4.0"), [100, 100, 0]),
        (x86("4.3"), [50, 200, 70]),
        (x86("6.0"), [50, 200, 70]),
        (x86("6.1"), [50, 100, 0]),
    ] {
        let found = [rule.entry(50, 100), rule.entry(200, 100), rule.entry(70, 0)];
        assert_eq!(found, expected, "{rule:?}");
    }
}
