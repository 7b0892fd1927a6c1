//! Which field each backport moves, and where it does nothing.

use super::super::rule::GrowthCap;
use super::*;
use crate::kvm::{Arch, Knobs, Observed, Version};

fn rule(version: &str) -> Rule {
    Rule::of(version.parse().unwrap(), Arch::X86)
}

#[test]
fn a_backport_does_nothing_to_a_kernel_that_has_it() {
    for (backport, since) in [
        (Backport::GrowStart, "5.1"),
        (Backport::VmCeiling, "5.8"),
        (Backport::GrowthCap, "5.13"),
        (Backport::NeedResched, "5.13"),
        (Backport::ShrinkFloor, "5.16"),
        (Backport::LiveCeiling, "6.1"),
    ] {
        for arch in Arch::ALL {
            let rule = Rule::of(Version::new(7, 2), arch);
            assert_eq!(rule.with(backport), rule, "{backport} {arch}");
        }
        assert_eq!(rule(since).with(backport), rule(since), "{backport}");
    }
}

#[test]
fn with_block_time_a_late_wake_up_does_not_shrink_a_window() {
    let late = |version| {
        let rule = rule(version);
        let halt_ns = rule.counted_ns(230_000, 40_000);
        let knobs = Knobs::defaults(Version::new(6, 12), Arch::X86);
        rule.after(&knobs, 200_000, 20_000, Observed::valid(halt_ns))
            .window
    };
    assert_eq!((late("6.12"), late("6.12+block-time")), (10_000, 40_000));
}

#[test]
fn a_backport_needs_something_to_change() {
    // Without a ceiling of the VM's own the cap of growth is the parameter all the same.
    for kept in ["4.0", "4.3", "5.7"] {
        assert_eq!(rule(kept).with(Backport::GrowthCap), rule(kept), "{kept}");
    }
    for backport in Backport::of_windows() {
        assert_eq!(rule("4.2").with(backport), rule("4.2"));
    }
}

#[test]
fn changes_that_build_on_each_other_are_taken_back_oldest_first() {
    let capped = rule("5.7+growth-cap+vm-ceiling");
    assert_eq!(capped.growth_cap, GrowthCap::Ceiling);
    let live = rule("5.7+live-ceiling");
    assert_eq!(rule("5.7+live-ceiling+vm-ceiling"), live);
    assert_eq!(rule("5.0+grow-start"), rule("5.1"));
}

#[test]
fn names_read_back() {
    for backport in Backport::ALL {
        assert_eq!(backport.to_string().parse(), Ok(backport));
    }
    let error = "floor".parse::<Backport>().unwrap_err();
    assert!(error.to_string().contains("`floor`"), "{error}");
}
