//! The table of eras: each change at its own release, and nowhere else.

use super::*;

fn on(version: &str, arch: Arch) -> Rule {
    Rule::of(version.parse().unwrap(), arch)
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
    let common = [
        "4.0", "4.3", "4.6", "5.1", "5.8", "5.13", "5.16", "5.17", "6.1",
    ];
    for arch in [
        Arch::Arm64,
        Arch::Powerpc,
        Arch::Riscv,
        Arch::Loongarch,
        Arch::Mips,
    ] {
        assert_eq!(changes(arch), common, "{arch}");
    }
    assert_eq!(
        changes(Arch::X86),
        [
            "4.0", "4.3", "4.6", "5.1", "5.3", "5.4", "5.8", "5.13", "5.16", "5.17", "6.1"
        ]
    );
    assert_eq!(
        changes(Arch::S390),
        [
            "4.0", "4.3", "4.6", "4.7", "5.1", "5.2", "5.4", "5.8", "5.13", "5.16", "5.17", "6.1"
        ]
    );
    assert_eq!(changes(Arch::PowerpcHv), ["4.9", "5.1", "5.14"]);
}

#[test]
fn the_current_rule_is_the_one_of_6_1() {
    let expected = Rule {
        window: WindowOf::Vcpu,
        ceiling: CeilingRule::CapElseParam,
        grow_start: GrowStart::Param,
        growth_cap: GrowthCap::None,
        shrink_floor: true,
        clamp: Clamp::AtEntry,
        invalid_wakeups: false,
        no_poll: NoPoll::Freezes,
        success: Success::NeverWaited,
        stops_on_need_resched: true,
    };
    for version in ["6.1", "6.12", "6.18", "7.2", "9.0"] {
        assert_eq!(on(version, Arch::X86), expected, "{version}");
    }
    let s390 = Rule {
        invalid_wakeups: true,
        ..expected
    };
    assert_eq!(on("6.1", Arch::S390), s390);
    let arm64 = Rule {
        no_poll: NoPoll::Unknown,
        ..expected
    };
    assert_eq!(on("6.1", Arch::Arm64), arm64);
}

type Change = fn(&mut Rule);

#[test]
fn each_era_differs_from_the_last_by_what_its_commits_did() {
    let steps: [(&str, Change, &str); 11] = [
        ("4.2", |r| r.window = WindowOf::Vcpu, "4.3"),
        ("4.5", |r| r.growth_cap = GrowthCap::Param, "4.6"),
        ("4.6", |r| r.invalid_wakeups = true, "4.7"),
        ("5.0", |r| r.grow_start = GrowStart::Param, "5.1"),
        ("5.1", |r| r.no_poll = NoPoll::Adapts, "5.2"),
        ("5.3", |r| r.no_poll = NoPoll::Freezes, "5.4"),
        ("5.7", |r| r.ceiling = CeilingRule::SnapshotOrCap, "5.8"),
        ("5.12", mend, "5.13"),
        ("5.15", |r| r.shrink_floor = true, "5.16"),
        ("5.16", |r| r.success = Success::NeverWaited, "5.17"),
        ("6.0", |r| *r = r.with_live_ceiling(), "6.1"),
    ];
    for (before, change, after) in steps {
        let mut rule = on(before, Arch::S390);
        change(&mut rule);
        assert_eq!(rule, on(after, Arch::S390), "{before} -> {after}");
    }
}

fn mend(rule: &mut Rule) {
    rule.growth_cap = GrowthCap::Ceiling;
    rule.stops_on_need_resched = true;
}

#[test]
fn only_a_vcpus_window_is_traced() {
    for (version, arch, traced) in [
        ("4.2", Arch::X86, false),
        ("4.3", Arch::X86, true),
        ("7.2", Arch::Powerpc, true),
        ("7.2", Arch::PowerpcHv, false),
    ] {
        assert_eq!(on(version, arch).is_traced(), traced, "{version} {arch}");
    }
}
