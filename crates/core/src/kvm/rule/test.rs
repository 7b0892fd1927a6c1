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
