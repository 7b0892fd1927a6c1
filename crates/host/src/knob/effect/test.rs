//! VMs that follow, VMs that do not, and those that cannot be told: the trap of 5.8 to 6.0 among them.

use haltwise_core::ids::VcpuId;
use haltwise_core::kvm::Arch;

use super::*;

fn found(pid: u32, ceiling: Option<(u32, CeilingSource)>) -> FoundVcpu {
    FoundVcpu {
        pid: Pid(pid),
        vm: u64::from(pid),
        window_ns: 20_000,
        vm_ceiling: ceiling,
        ..FoundVcpu::default()
    }
}

fn change(old: u32, new: u32) -> CeilingChange {
    let now = Knobs::of([new, 2, 10_000, 2]);
    CeilingChange { old, now }
}

fn rule(version: &str) -> Rule {
    Rule::of(version.parse().unwrap(), Arch::X86)
}

/// Halts of a vCPU, as a kernel with that rule makes them under a ceiling.
fn made(rule: Rule, ceiling: u32, lengths: &[u64]) -> Vec<Halt> {
    let mut window = 0;
    let knobs = change(0, ceiling).now;
    let halts = lengths.iter().map(|halt_ns| {
        window = rule.entry(window, ceiling);
        let step = rule.after(&knobs, ceiling, window, Observed::valid(*halt_ns));
        let halt = Halt {
            halt_ns: *halt_ns,
            valid: true,
            window_ns: Some(window),
            change: step.call.into(),
            ..Halt::default()
        };
        window = step.window;
        halt
    });
    halts.collect()
}

#[test]
fn a_ceiling_that_was_read_tells_who_follows() {
    use CeilingSource::{Cap, Snapshot};
    for (ceiling, effect) in [
        (None, Effect::Follows),
        (Some((70_000, Cap)), Effect::OwnCap),
        (Some((80_000, Cap)), Effect::OwnCap),
        // 5.8 to 6.0: copied when the VM was made.
        (Some((200_000, Snapshot)), Effect::Keeps),
        (Some((80_000, Snapshot)), Effect::Follows),
    ] {
        let watched = by_ceiling(&[found(7, ceiling)], &[], 80_000);
        let in_force = ceiling.map_or(80_000, |(ns, _)| ns);
        let expected = (effect, Some(in_force));
        assert_eq!((watched[0].effect, watched[0].ceiling_ns), expected);
        assert_eq!(watched[0].name, "process 7");
        assert_eq!(watched[0].window_ns, Some((20_000, 20_000)));
    }
    // A guest that disabled host polling: KVM keeps the window of before, and polls none of it.
    let disabled = |id, is: bool| FoundVcpu {
        id: VcpuId(id),
        window_ns: 5_000_000 * u32::from(is),
        guest_veto: Some(is),
        ..found(7, Some((5_000_000, Cap)))
    };
    let watched = by_ceiling(&[disabled(0, true)], &[], 80_000);
    assert_eq!(watched[0].effect, Effect::GuestDisabled);
    assert_eq!((watched[0].ceiling_ns, watched[0].window_ns), (None, None));
    let watched = by_ceiling(&[disabled(0, true), disabled(1, false)], &[], 80_000);
    assert_eq!(watched[0].effect, Effect::OwnCap);
    assert_eq!(watched[0].window_ns, Some((0, 0)));
    assert_eq!(watched[0].vetoed_vcpus, [0]);
    let mut blind = found(7, None);
    blind.hlt_in_guest = true;
    let watched = by_ceiling(&[found(3, None), blind], &[], 80_000);
    assert_eq!(watched[1].effect, Effect::NotTold);
}

/// Lengths on both sides of both ceilings, so that the window moves.
const LENGTHS: [u64; 9] = [
    5_000, 60_000, 60_000, 120_000, 120_000, 150_000, 60_000, 120_000, 900_000,
];

#[test]
fn halts_tell_who_follows_on_every_kernel() {
    for version in ["4.19", "5.10", "6.1", "6.12"] {
        let rule = rule(version);
        for (old, new) in [
            (200_000, 80_000),
            (80_000, 200_000),
            (200_000, 0),
            (0, 200_000),
        ] {
            let judged =
                |ceiling| by_halts(&made(rule, ceiling, &LENGTHS), &rule, &change(old, new));
            assert_eq!(judged(new), Ok(Effect::Follows), "{version} {old} {new}");
            assert_eq!(judged(old), Ok(Effect::Keeps), "{version} {old} {new}");
        }
    }
}

#[test]
fn what_halts_do_not_tell_is_not_guessed() {
    let rule = rule("6.12");
    let told = |lengths: &[u64], change: CeilingChange| {
        let halts = made(rule, change.now.halt_poll_ns, lengths);
        by_halts(&halts, &rule, &change).unwrap_err()
    };
    assert!(told(&[], change(200_000, 80_000)).contains("none of its halts was seen"));
    // Far above both ceilings, with the window at 0.
    assert!(told(&[900_000; 5], change(200_000, 80_000)).contains("tells the old"));
    assert!(told(&LENGTHS, change(80_000, 80_000)).contains("only a changed"));
    let mut mixed = made(rule, 80_000, &LENGTHS);
    mixed.extend(made(rule, 200_000, &LENGTHS));
    let why = by_halts(&mixed, &rule, &change(200_000, 80_000)).unwrap_err();
    assert!(why.contains("some by the new"), "{why}");
}
