//! Boundary tables of the rule. Small worlds are in `tests/kvm_worlds.rs`, laws in `tests/kvm_laws.rs`.

use super::*;
use crate::kvm::{Arch, Backport};

const KNOBS: Knobs = Knobs {
    halt_poll_ns: 200_000,
    grow: 2,
    grow_start: 10_000,
    shrink: 2,
};

fn on(version: &str, arch: Arch) -> Rule {
    Rule::of(version.parse().unwrap(), arch)
}

fn x86(version: &str) -> Rule {
    on(version, Arch::X86)
}

fn grew(old: u32, new: u32) -> Step {
    Step::called(true, old, new)
}

fn shrank(old: u32, new: u32) -> Step {
    Step::called(false, old, new)
}

#[test]
fn the_branches_of_the_current_rule() {
    let rule = x86("6.12");
    for (window, halt_ns, expected) in [
        (0, 0, Step::silent(0)),
        (0, 1, grew(0, 10_000)),
        (0, 199_999, grew(0, 10_000)),
        (0, 200_000, Step::silent(0)),
        (0, 200_001, Step::silent(0)),
        (10_000, 10_000, Step::silent(10_000)),
        (10_000, 10_001, grew(10_000, 20_000)),
        (160_000, 160_001, grew(160_000, 320_000)),
        (160_000, 200_000, Step::silent(160_000)),
        (160_000, 200_001, shrank(160_000, 80_000)),
        (200_000, 200_000, Step::silent(200_000)),
        (200_000, 200_001, shrank(200_000, 100_000)),
        (19_999, u64::MAX, shrank(19_999, 0)),
        (20_000, u64::MAX, shrank(20_000, 10_000)),
    ] {
        let found = rule.after(&KNOBS, 200_000, window, Observed::valid(halt_ns));
        assert_eq!(found, expected, "{window} {halt_ns}");
    }
}

#[test]
fn a_ceiling_of_zero_empties_the_window_without_a_trace() {
    for version in ["4.3", "5.8", "6.12"] {
        for halt_ns in [0, 1, u64::MAX] {
            let step = x86(version).after(&KNOBS, 0, 7, Observed::valid(halt_ns));
            assert_eq!(step, Step::silent(0), "{version} {halt_ns}");
        }
    }
}

#[test]
fn the_window_at_entry() {
    for (rule, expected) in [
        (x86("3.19"), [0, 0, 0]),
        (x86("4.0"), [100, 100, 0]),
        (x86("4.3"), [50, 200, 70]),
        (x86("6.0"), [50, 200, 70]),
        (x86("6.1"), [50, 100, 0]),
        (on("5.10", Arch::PowerpcHv), [50, 200, 70]),
        (on("4.8", Arch::PowerpcHv), [0, 0, 0]),
    ] {
        let found = [rule.entry(50, 100), rule.entry(200, 100), rule.entry(70, 0)];
        assert_eq!(found, expected, "{rule:?}");
    }
}

#[test]
fn how_growth_is_capped_in_each_era() {
    let knobs = Knobs {
        halt_poll_ns: 11_000,
        ..KNOBS
    };
    let grown = |version: &str, ceiling, window| {
        let step = x86(version).after(&knobs, ceiling, window, Observed::valid(10_500));
        step.call.unwrap().new
    };
    // Commit 313f636d: at a parameter of 11000 the window used to reach 20000 and stay.
    assert_eq!(grown("4.5", 11_000, 10_000), 20_000);
    assert_eq!(grown("4.6", 11_000, 10_000), 11_000);
    assert_eq!(grown("5.7", 11_000, 10_000), 11_000);
    // A VM with a higher ceiling of its own: 5.8 to 5.12 cap with the parameter all the same.
    assert_eq!(grown("5.8", 50_000, 10_000), 11_000);
    assert_eq!(grown("5.12", 50_000, 10_000), 11_000);
    assert_eq!(grown("5.13", 50_000, 10_000), 20_000);
    // And one with a lower ceiling passes it.
    assert_eq!(grown("5.12", 10_600, 10_000), 11_000);
    assert_eq!(grown("5.13", 10_600, 10_000), 10_600);
    assert_eq!(grown("6.1", 10_600, 10_000), 20_000);
    assert_eq!(x86("6.1").entry(20_000, 10_600), 10_600);
}

#[test]
fn a_window_above_the_ceiling_stays_in_kernels_without_a_cap() {
    let rule = x86("4.5");
    for halt_ns in [0, 11_000, 11_001, 20_000] {
        let step = rule.after(&KNOBS, 11_000, 20_000, Observed::valid(halt_ns));
        assert_eq!(step, Step::silent(20_000), "{halt_ns}");
    }
    let step = rule.after(&KNOBS, 11_000, 20_000, Observed::valid(20_001));
    assert_eq!(step, shrank(20_000, 10_000));
}

#[test]
fn what_a_factor_of_zero_does() {
    let knobs = Knobs { grow: 0, ..KNOBS };
    for (version, window, new) in [
        ("4.3", 0, 0),
        ("4.3", 15_000, 0),
        ("5.0", 15_000, 0),
        ("5.1", 0, 0),
        ("5.1", 15_000, 15_000),
        ("6.1", 15_000, 15_000),
    ] {
        let step = x86(version).after(&knobs, 200_000, window, Observed::valid(16_000));
        assert_eq!(step, grew(window, new), "{version} {window}");
    }
}

#[test]
fn where_growth_starts() {
    let knobs = Knobs {
        grow_start: 30_000,
        ..KNOBS
    };
    for (version, window, new) in [
        ("5.0", 0, 10_000),
        ("5.0", 3_000, 6_000),
        ("5.1", 0, 30_000),
        ("5.1", 3_000, 30_000),
        ("5.1", 15_000, 30_000),
        ("5.1", 16_000, 32_000),
    ] {
        let step = x86(version).after(&knobs, 200_000, window, Observed::valid(100_000));
        assert_eq!(step, grew(window, new), "{version} {window}");
    }
    // A start of 0 never leaves 0: 0 times anything.
    let knobs = Knobs {
        grow_start: 0,
        ..KNOBS
    };
    let step = x86("6.12").after(&knobs, 200_000, 0, Observed::valid(1));
    assert_eq!(step, grew(0, 0));
}

#[test]
fn growth_wraps_at_32_bits() {
    let knobs = Knobs {
        grow: 3,
        grow_start: 5,
        halt_poll_ns: u32::MAX,
        ..KNOBS
    };
    let halt = Observed::valid(u64::from(u32::MAX) - 1);
    for version in ["5.1", "5.13", "6.1"] {
        // 3 * 1431655766 = 2^32 + 2, below the start.
        let step = x86(version).after(&knobs, u32::MAX, 1_431_655_766, halt);
        assert_eq!(step, grew(1_431_655_766, 5), "{version}");
    }
    let step = x86("4.6").after(&knobs, u32::MAX, 1_431_655_766, halt);
    assert_eq!(step, grew(1_431_655_766, 2));
}

#[test]
fn shrinking_with_and_without_a_floor() {
    for (version, shrink, window, new) in [
        ("4.3", 0, 10_000, 0),
        ("4.3", 2, 10_000, 5_000),
        ("5.15", 2, 10_000, 5_000),
        ("5.15", 2, 1, 0),
        ("5.15", 3, 200_000, 66_666),
        ("5.16", 2, 10_000, 0),
        ("5.16", 2, 20_000, 10_000),
        ("5.16", 1, 9_999, 0),
        ("5.16", 1, 10_000, 10_000),
        ("5.16", 0, 200_000, 0),
    ] {
        let knobs = Knobs { shrink, ..KNOBS };
        let step = x86(version).after(&knobs, 200_000, window, Observed::valid(200_001));
        assert_eq!(step, shrank(window, new), "{version} /{shrink} {window}");
    }
    let stable = x86("5.10").with(Backport::ShrinkFloor);
    let step = stable.after(&KNOBS, 200_000, 10_000, Observed::valid(200_001));
    assert_eq!(step, shrank(10_000, 0));
}

#[test]
fn an_invalid_wakeup_shrinks_on_s390_alone() {
    let invalid = Observed {
        valid: false,
        ..Observed::valid(1)
    };
    let s390 =
        |version, ceiling, window| on(version, Arch::S390).after(&KNOBS, ceiling, window, invalid);
    assert_eq!(s390("6.1", 200_000, 40_000), shrank(40_000, 20_000));
    // Also at a window of 0, where the call changes nothing, and at a ceiling of 0, before it is looked at.
    assert_eq!(s390("6.1", 200_000, 0), shrank(0, 0));
    assert_eq!(s390("6.1", 0, 40_000), shrank(40_000, 20_000));
    assert_eq!(s390("4.6", 200_000, 40_000), Step::silent(40_000));
    assert_eq!(s390("4.7", 200_000, 40_000), shrank(40_000, 20_000));
    for arch in [Arch::X86, Arch::Arm64, Arch::PowerpcHv] {
        let step = on("6.1", arch).after(&KNOBS, 200_000, 40_000, invalid);
        assert_eq!(step, Step::silent(40_000), "{arch}");
    }
}

#[test]
fn a_vcpu_that_must_not_poll_adapts_before_5_4_and_freezes_after() {
    let forbidden = Observed {
        allowed: false,
        ..Observed::valid(50_000)
    };
    for (version, arch, expected) in [
        ("5.2", Arch::X86, grew(40_000, 80_000)),
        ("5.3", Arch::X86, grew(40_000, 80_000)),
        ("5.4", Arch::X86, Step::silent(40_000)),
        ("7.2", Arch::X86, Step::silent(40_000)),
        ("5.2", Arch::S390, grew(40_000, 80_000)),
        ("5.4", Arch::S390, Step::silent(40_000)),
        ("7.2", Arch::Arm64, grew(40_000, 80_000)),
    ] {
        let step = on(version, arch).after(&KNOBS, 200_000, 40_000, forbidden);
        assert_eq!(step, expected, "{version} {arch}");
    }
    // Frozen is frozen: neither an invalid wakeup nor a ceiling of 0 is looked at.
    let both = Observed {
        valid: false,
        ..forbidden
    };
    let step = on("6.1", Arch::S390).after(&KNOBS, 0, 40_000, both);
    assert_eq!(step, Step::silent(40_000));
}

#[test]
fn a_virtual_core_is_clamped_after_each_halt_and_has_no_floor() {
    let core = on("5.10", Arch::PowerpcHv);
    let after = |window, halt_ns| core.after(&KNOBS, 10_000, window, Observed::valid(halt_ns));
    assert_eq!(after(0, 9_999), grew(0, 10_000));
    let clamped = Step {
        window: 10_000,
        ..grew(6_000, 12_000)
    };
    assert_eq!(after(6_000, 6_001), clamped);
    assert_eq!(after(10_000, 10_001), shrank(10_000, 5_000));
    assert_eq!(after(1, 10_001), shrank(1, 0));
    // A ceiling that sank is applied even if nothing is called.
    assert_eq!(after(40_000, 1), Step::silent(10_000));
    assert_eq!(
        core.after(&KNOBS, 0, 40_000, Observed::valid(1)),
        Step::silent(0)
    );
    // The old growth: 10 us, and a factor of 0 empties the window.
    let old = on("4.19", Arch::PowerpcHv);
    let knobs = Knobs { grow: 0, ..KNOBS };
    let step = old.after(&knobs, 10_000, 4_000, Observed::valid(4_001));
    assert_eq!(step, grew(4_000, 0));
}

#[test]
fn a_static_kernel_polls_for_the_parameter_whatever_happened() {
    let rule = x86("4.2");
    for halt_ns in [0, 200_000, u64::MAX] {
        let step = rule.after(&KNOBS, 200_000, 77, Observed::valid(halt_ns));
        assert_eq!(step, Step::silent(200_000));
        assert_eq!(rule.entry(step.window, 500), 500, "the parameter is live");
    }
}
