//! Ceilings of VMs and the host's parameters, chosen together.

use std::collections::BTreeSet;

use super::super::caps::{self, Caps};
use super::super::final_round::Finalist;
use super::*;

const SHORT: VmIndex = VmIndex(0);
const LONG: VmIndex = VmIndex(1);

/// One VM mostly halts for less than the break-even of 30 us, which is to be polled through; the other for more,
/// with no rhythm that a window could follow.
fn unlike() -> Inputs {
    let mut halts = load(0, "exp:10us", 4_000, 9);
    halts.extend(load(1, "exp:100us", 1_100, 9));
    inputs(terms("6.12"), &halts)
}

fn search(inputs: &Inputs, settable: &[VmIndex], aim: Aim) -> Option<Caps> {
    let (of, advice) = tune(inputs, aim);
    let in_force = || Entry::new(inputs.terms.in_force);
    let base = (advice.choice.as_ref()).map_or_else(in_force, Finalist::entry);
    let settable: BTreeSet<VmIndex> = settable.iter().copied().collect();
    caps::search(inputs, &of, &base, (&aim, &settable), &Serial).unwrap()
}

/// The ceilings of VMs with one of their own.
fn ceilings(caps: &Caps) -> Vec<u32> {
    let own = caps.groups.iter().filter(|group| group.vm.is_some());
    own.map(|group| group.ceiling_ns).collect()
}

fn ceiling(caps: &Caps, vm: VmIndex) -> u32 {
    let mut groups = caps.groups.iter();
    groups.find(|of| of.vm == Some(vm)).unwrap().ceiling_ns
}

#[test]
fn vms_that_want_different_ceilings_gain_by_caps() {
    let inputs = unlike();
    let caps = search(&inputs, &[SHORT, LONG], AIM).unwrap();
    assert_eq!(ceilings(&caps).len(), 2);
    assert!(ceiling(&caps, SHORT) > ceiling(&caps, LONG), "{caps:?}");
    let costs = &caps.costs;
    let [least, most] = [
        [costs.oracle_ns, costs.own_ns],
        [costs.one_ns, costs.current_ns],
    ];
    assert!([least, most].concat().is_sorted(), "{costs:?}");
    assert!(caps.cost_share.is_below_zero(), "{:?}", caps.cost_share);
    // Each VM's share adds up to the whole.
    let sum: f64 = (caps.groups.iter())
        .map(|group| group.costs.own_ns * group.halts as f64)
        .sum();
    let halts: u64 = caps.groups.iter().map(|group| group.halts).sum();
    assert!((sum / halts as f64 - costs.own_ns).abs() < 1e-6);
    let own = caps.judged.cost_per_halt_ns(&COST);
    assert!((own - costs.own_ns).abs() < 1.0, "{own} {costs:?}");
    let alone = super::inputs(terms("6.12"), &load(0, "fixed:20us", 100, 9));
    assert_eq!(search(&alone, &[SHORT], AIM), None);
}

#[test]
fn vms_that_can_have_no_ceiling_follow_the_parameter_that_is_best_for_them() {
    let inputs = unlike();
    for (settable, follows) in [(SHORT, LONG), (LONG, SHORT)] {
        let caps = search(&inputs, &[settable], AIM).unwrap();
        assert_eq!(ceilings(&caps).len(), 1);
        assert_eq!(caps.groups.len(), 2);
        assert_eq!(caps.groups[1].vm, None);
        let polls = |vm, ns: u32| match vm {
            SHORT => ns >= 20_000,
            _ => ns < 30_000,
        };
        assert!(polls(settable, ceiling(&caps, settable)), "{caps:?}");
        assert!(polls(follows, caps.knobs.halt_poll_ns), "{caps:?}");
    }
    assert_eq!(search(&inputs, &[], AIM), None);
}

/// A sleep costs 10 us of CPU and 20 of latency: polling 40 us pays where latency counts ten times.
const LATENCY_MILLI: u64 = 10_000;

/// Two VMs that halt alike; those have a goal of their own.
fn alike(weights_milli: &[(VmIndex, u64)]) -> Inputs {
    let mut halts = load(0, "fixed:40us", 3_000, 9);
    halts.extend(load(1, "fixed:40us", 3_000, 10));
    let mut terms = terms("6.12");
    terms.weights_milli = weights_milli.iter().copied().collect();
    inputs(terms, &halts)
}

#[test]
fn a_vm_with_a_goal_of_its_own_is_judged_by_it() {
    let inputs = alike(&[(SHORT, LATENCY_MILLI)]);
    let caps = search(&inputs, &[SHORT, LONG], AIM).unwrap();
    assert!(ceiling(&caps, SHORT) >= 40_000, "{caps:?}");
    assert!(ceiling(&caps, LONG) < 40_000, "{caps:?}");
    let costs = caps.costs;
    let gains = costs.own_ns < costs.one_ns && costs.oracle_ns <= costs.own_ns;
    assert!(gains, "{costs:?}");
    assert!(!caps.is_over_limit);
}

/// Without ceilings the parameters are those that are best for the sum of both VMs' costs, each by its own goal.
#[test]
fn the_hosts_parameters_serve_the_goals_of_single_vms() {
    let choice = |weights: &[(VmIndex, u64)]| {
        let (_, advice) = tune(&alike(weights), AIM);
        let choice = advice.choice.map_or(0, |choice| choice.knobs.halt_poll_ns);
        (choice, advice.against_in_force)
    };
    assert!(choice(&[]).0 < 40_000);
    let (ns, against) = choice(&[(SHORT, LATENCY_MILLI)]);
    assert!(ns >= 40_000, "{ns}");
    // For each halt as recorded, one VM pays 10 + 20 us, the other 10 + 200.
    let cost = against.unwrap().cost_ns_per_halt.value;
    assert!((-85_000.0..-75_000.0).contains(&cost), "{cost}");
    // A goal that is that of all changes nothing.
    let same = choice(&[(SHORT, COST.latency_weight_milli)]);
    assert_eq!(same.0, choice(&[]).0);
}

/// Under a ceiling of 60 us gaps of 50 us are polled through once the window is open, and never open it, since the
/// wake-up makes the halt 70 us long. A ceiling is judged by the worse of the two.
#[test]
fn no_vm_gets_a_ceiling_that_locks_it_out() {
    let mut halts = load(0, "fixed:50us", 3_000, 9);
    halts.extend(load(1, "fixed:50us", 3_000, 10));
    let inputs = inputs(terms("6.12"), &halts);
    let mut cost = COST;
    cost.latency_weight_milli = LATENCY_MILLI;
    let caps = search(&inputs, &[SHORT, LONG], Aim { cost, ..AIM }).unwrap();
    let is_open = ceilings(&caps).iter().all(|ns| *ns >= 75_000);
    assert!(is_open, "{caps:?}");
}

/// Where both may not poll as they would, the one polls on to which that is worth more.
#[test]
fn a_limit_of_polling_is_kept_by_lower_ceilings() {
    let inputs = unlike();
    let free = search(&inputs, &[SHORT, LONG], AIM).unwrap();
    let polls = |caps: &Caps| inputs.judged_wall.poll_cpu_percent(&caps.judged);
    let limited = |percent| search(&inputs, &[SHORT, LONG], super::limited(percent)).unwrap();
    let half = limited(polls(&free) / 2.0);
    assert!(polls(&half) > 0.0 && polls(&half) <= polls(&free) / 2.0);
    assert!(half.costs.own_ns > free.costs.own_ns && !half.is_over_limit);
    // Ceilings that poll more on the validation half than on the part that fits are within the limit there too.
    let mut halts = load(0, "exp:5us", 2_000, 9);
    let shift_ns = halts.last().unwrap().end_ns();
    halts.extend(load(0, "exp:20us", 2_000, 9).into_iter().map(|halt| Halt {
        start_ns: halt.start_ns + shift_ns,
        ..halt
    }));
    halts.extend(load(1, "exp:100us", 1_100, 9));
    let later = super::inputs(terms("6.12"), &halts);
    let polls_of = |caps: &Caps| later.judged_wall.poll_cpu_percent(&caps.judged);
    let limit = 0.7 * polls_of(&search(&later, &[SHORT, LONG], AIM).unwrap());
    let caps = search(&later, &[SHORT, LONG], super::limited(limit)).unwrap();
    let is_kept = polls_of(&caps) <= limit && !caps.is_over_limit;
    assert!(is_kept, "{limit} {caps:?}");
    let none = limited(0.0);
    assert!(ceilings(&none).iter().all(|ns| *ns == 0), "{none:?}");
    // A VM with a ceiling that stays polls for more than is allowed, whatever the others get.
    let mut halts = load(0, "exp:10us", 4_000, 9);
    for halt in &mut halts {
        halt.ceiling_source = CeilingSource::Cap;
        halt.ceiling_ns = Some(200_000);
    }
    halts.extend(load(1, "exp:100us", 1_100, 9));
    let inputs = super::inputs(terms("6.12"), &halts);
    let over = search(&inputs, &[LONG], super::limited(0.0)).unwrap();
    assert!(over.is_over_limit);
}
