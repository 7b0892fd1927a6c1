//! Ceilings of VMs and the host's parameters, chosen together.

use std::collections::{BTreeMap, BTreeSet};

use super::super::caps::{self, Aims, Caps};
use super::*;

const SHORT: VmIndex = VmIndex(0);
const LONG: VmIndex = VmIndex(1);

/// One VM mostly halts for less than the break-even of 30 us, which is to be polled through; the other for more,
/// with no rhythm that a window could follow.
fn unlike() -> Material {
    let mut halts = load(0, "exp:10us", 4_000, 9);
    halts.extend(load(1, "exp:100us", 1_100, 9));
    material(terms("6.12"), &halts)
}

fn seek(
    material: &Material,
    settable: &[VmIndex],
    costs: &[(VmIndex, Cost)],
    aim: Aim,
) -> Option<Caps> {
    let (of, advice) = tune(material, aim);
    let base = advice.choice.as_ref().map_or_else(
        || Entry::new(material.terms.in_force),
        |choice| Entry {
            start: choice.start,
            ..Entry::new(choice.knobs)
        },
    );
    let costs: BTreeMap<VmIndex, Cost> = costs.iter().copied().collect();
    let settable: BTreeSet<VmIndex> = settable.iter().copied().collect();
    let aims = Aims {
        aim: &aim,
        costs: &costs,
        settable: &settable,
    };
    caps::seek(material, &of, &base, &aims, &Alone).unwrap()
}

fn ceiling(caps: &Caps, vm: VmIndex) -> u32 {
    caps.vms.iter().find(|cap| cap.vm == vm).unwrap().ceiling_ns
}

#[test]
fn vms_that_want_different_ceilings_gain_by_caps() {
    let material = unlike();
    let caps = seek(&material, &[SHORT, LONG], &[], AIM).unwrap();
    assert_eq!(caps.vms.len(), 2);
    assert!(ceiling(&caps, SHORT) > ceiling(&caps, LONG), "{caps:?}");
    let costs = &caps.costs;
    assert!(
        costs.oracle <= costs.own && costs.own <= costs.one && costs.one <= costs.current,
        "{costs:?}"
    );
    assert!(caps.cost_share.is_below_zero(), "{:?}", caps.cost_share);
    // Each VM's share adds up to the whole.
    let sum: f64 = (caps.groups.iter())
        .map(|group| group.costs.own * group.halts as f64)
        .sum();
    let halts: u64 = caps.groups.iter().map(|group| group.halts).sum();
    assert!((sum / halts as f64 - costs.own).abs() < 1e-6);
    let own = caps.judged.cost_per_halt_ns(&COST);
    assert!((own - costs.own).abs() < 1.0, "{own} {costs:?}");
    let alone = super::material(terms("6.12"), &load(0, "fixed:20us", 100, 9));
    assert_eq!(seek(&alone, &[SHORT], &[], AIM), None);
}

#[test]
fn vms_that_can_have_no_ceiling_follow_the_parameter_that_is_best_for_them() {
    let material = unlike();
    for (settable, follows) in [(SHORT, LONG), (LONG, SHORT)] {
        let caps = seek(&material, &[settable], &[], AIM).unwrap();
        assert_eq!(caps.vms.len(), 1);
        assert_eq!(caps.groups.len(), 2);
        assert_eq!(caps.groups[1].vm, None);
        let polls = |vm, ns: u32| {
            if vm == SHORT {
                ns >= 20_000
            } else {
                ns < 30_000
            }
        };
        assert!(polls(settable, ceiling(&caps, settable)), "{caps:?}");
        assert!(polls(follows, caps.knobs.halt_poll_ns), "{caps:?}");
    }
    assert_eq!(seek(&material, &[], &[], AIM), None);
}

#[test]
fn a_vm_with_a_goal_of_its_own_is_judged_by_it() {
    let mut halts = load(0, "fixed:40us", 3_000, 9);
    halts.extend(load(1, "fixed:40us", 3_000, 10));
    let material = material(terms("6.12"), &halts);
    // A sleep costs 10 us of CPU and 20 of latency: polling 40 us pays where latency counts ten times.
    let latency = Cost {
        latency_weight_milli: 10_000,
        ..COST
    };
    let caps = seek(&material, &[SHORT, LONG], &[(SHORT, latency)], AIM).unwrap();
    assert!(ceiling(&caps, SHORT) >= 40_000, "{caps:?}");
    assert!(ceiling(&caps, LONG) < 40_000, "{caps:?}");
    let costs = caps.costs;
    assert!(
        costs.own < costs.one && costs.oracle <= costs.own,
        "{costs:?}"
    );
    // One setting for all is chosen by the goals of all.
    let short = |costs: &[(VmIndex, Cost)]| seek(&material, &[LONG], costs, AIM).unwrap();
    assert!(short(&[(SHORT, latency)]).knobs.halt_poll_ns >= 40_000);
    assert!(short(&[]).knobs.halt_poll_ns < 40_000);
}

#[test]
fn a_limit_of_polling_holds_for_ceilings_too() {
    let material = unlike();
    let limited = Aim {
        max_poll_cpu_percent: Some(0.5),
        ..AIM
    };
    assert_eq!(seek(&material, &[SHORT, LONG], &[], limited), None);
}
