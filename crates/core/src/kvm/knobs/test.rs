//! The table of defaults.

use super::*;

fn ceiling(version: &str, arch: Arch) -> u32 {
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
        let found = ["4.9", "4.19", "5.10", "6.1"].map(|version| ceiling(version, arch));
        assert_eq!(found, expected, "{arch}");
        assert_eq!(ceiling("7.2", arch), expected[3], "{arch}");
    }
    assert_eq!(ceiling("6.1", Arch::Riscv), 500_000);
    assert_eq!(ceiling("6.12", Arch::Loongarch), 500_000);
}

#[test]
fn ceilings_change_where_the_commits_say() {
    let x86 = ["4.0", "4.2", "4.3", "4.5", "4.6", "4.11", "4.12"];
    let us = x86.map(|version| ceiling(version, Arch::X86) / 1_000);
    assert_eq!(us, [0, 0, 500, 500, 400, 400, 200]);
    let steps = [
        (Arch::Powerpc, "4.9", 500_000, "4.10", 10_000),
        (Arch::S390, "5.1", 80_000, "5.2", 50_000),
        (Arch::S390, "4.6", 500_000, "4.7", 80_000),
        (Arch::Arm64, "4.2", 0, "4.3", 500_000),
    ];
    for (arch, before, was, after, is) in steps {
        let found = [before, after].map(|version| ceiling(version, arch));
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
