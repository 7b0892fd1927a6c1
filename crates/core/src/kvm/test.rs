//! The table of eras and defaults, each change at its own release, what backports move, and the window that a halt begins with.
//! `tests/kvm_worlds.rs` and `tests/kvm_laws.rs` have the effect of a halt on a window.

use super::rule::GrowthCap;
use super::*;

fn on(version: &str, arch: Arch) -> Rule {
    Rule::of(version.parse().unwrap(), arch)
}

fn x86(version: &str) -> Rule {
    on(version, Arch::X86)
}

/// The releases before and after which the rule of a port differs.
fn changes(arch: Arch) -> Vec<String> {
    let releases = (3..=8).flat_map(|major| (0..30).map(move |minor| Version::new(major, minor)));
    let releases: Vec<Version> = releases.collect();
    let changed = |pair: &&[Version]| Rule::of(pair[0], arch) != Rule::of(pair[1], arch);
    let pairs = releases.windows(2).filter(changed);
    pairs.map(|pair| pair[1].to_string()).collect()
}

#[test]
fn the_rule_changes_at_these_releases() {
    for arch in Arch::ALL {
        let expected = match arch {
            Arch::X86 => "4.0 4.3 4.6 5.1 5.3 5.4 5.8 5.13 5.16 6.1",
            Arch::S390 => "4.0 4.3 4.6 4.7 5.1 5.2 5.4 5.8 5.13 5.16 6.1",
            _ => "4.0 4.3 4.6 5.1 5.8 5.13 5.16 6.1",
        };
        assert_eq!(changes(arch).join(" "), expected, "{arch}");
    }
}

#[test]
fn only_a_vcpus_window_is_traced() {
    for (version, arch, traced) in [
        ("4.2", Arch::X86, false),
        ("4.3", Arch::X86, true),
        ("7.2", Arch::Powerpc, true),
    ] {
        assert_eq!(on(version, arch).is_traced(), traced, "{version} {arch}");
    }
}

fn default_ceiling(version: &str, arch: Arch) -> u32 {
    Knobs::defaults(version.parse().unwrap(), arch).halt_poll_ns
}

#[test]
fn ceilings_are_those_read_in_five_kernels() {
    let read = [
        (Arch::X86, [400_000, 200_000, 200_000, 200_000]),
        (Arch::Arm64, [500_000; 4]),
        (Arch::S390, [80_000, 80_000, 50_000, 50_000]),
        (Arch::Powerpc, [500_000, 10_000, 10_000, 10_000]),
        (Arch::Mips, [500_000; 4]),
    ];
    for (arch, expected) in read {
        let found = ["4.9", "4.19", "5.10", "6.1"].map(|version| default_ceiling(version, arch));
        assert_eq!(found, expected, "{arch}");
        assert_eq!(default_ceiling("7.2", arch), expected[3], "{arch}");
    }
    assert_eq!(default_ceiling("6.1", Arch::Riscv), 500_000);
    assert_eq!(default_ceiling("6.12", Arch::Loongarch), 500_000);
}

#[test]
fn ceilings_change_where_the_commits_say() {
    let x86 = ["4.0", "4.2", "4.3", "4.5", "4.6", "4.11", "4.12"];
    let us = x86.map(|version| default_ceiling(version, Arch::X86) / 1_000);
    assert_eq!(us, [0, 0, 500, 500, 400, 400, 200]);
    let steps = [
        (Arch::Powerpc, "4.9", 500_000, "4.10", 10_000),
        (Arch::S390, "5.1", 80_000, "5.2", 50_000),
        (Arch::S390, "4.6", 500_000, "4.7", 80_000),
        (Arch::Arm64, "4.2", 0, "4.3", 500_000),
    ];
    for (arch, before, was, after, is) in steps {
        let found = [before, after].map(|version| default_ceiling(version, arch));
        assert_eq!(found, [was, is], "{arch} {after}");
    }
}

#[test]
fn the_other_knobs_do_not_depend_on_the_port() {
    for arch in Arch::ALL {
        for (version, grow, grow_start, shrink) in [
            ("4.2", 0, 0, 0),
            ("4.3", 2, 10_000, 0),
            ("5.0", 2, 10_000, 0),
            ("6.10", 2, 10_000, 0),
            ("6.11", 2, 10_000, 2),
            ("7.2", 2, 10_000, 2),
            ("99.0", 2, 10_000, 2),
        ] {
            let knobs = Knobs::defaults(version.parse().unwrap(), arch);
            let found = (knobs.grow, knobs.grow_start, knobs.shrink);
            assert_eq!(found, (grow, grow_start, shrink), "{version} {arch}");
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
    ] {
        let found = [rule.entry(50, 100), rule.entry(200, 100), rule.entry(70, 0)];
        assert_eq!(found, expected, "{rule:?}");
    }
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
        assert_eq!(x86(since).with(backport), x86(since), "{backport}");
    }
}

#[test]
fn with_block_time_a_late_wake_up_does_not_shrink_a_window() {
    let late = |version| {
        let rule = x86(version);
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
        assert_eq!(x86(kept).with(Backport::GrowthCap), x86(kept), "{kept}");
    }
    for backport in Backport::of_windows() {
        assert_eq!(x86("4.2").with(backport), x86("4.2"));
    }
}

#[test]
fn changes_that_build_on_each_other_are_taken_back_oldest_first() {
    let capped = x86("5.7+growth-cap+vm-ceiling");
    assert_eq!(capped.growth_cap, GrowthCap::Ceiling);
    let live = x86("5.7+live-ceiling");
    assert_eq!(x86("5.7+live-ceiling+vm-ceiling"), live);
    assert_eq!(x86("5.0+grow-start"), x86("5.1"));
}

#[test]
fn names_of_backports_read_back() {
    for backport in Backport::ALL {
        assert_eq!(backport.to_string().parse(), Ok(backport));
    }
    let error = "floor".parse::<Backport>().unwrap_err();
    assert!(error.to_string().contains("`floor`"), "{error}");
}
