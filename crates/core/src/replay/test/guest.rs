//! Polling in the guest: what no other task ends, and what it spares.

use proptest::prelude::*;

use super::*;

const GUESTS: [&str; 5] = [
    "guest-haltpoll",
    "smart-idle-poll",
    "guest-haltpoll:max=1ms,shrink=0",
    "idle-poll",
    "cpu-pm",
];

/// Outcome of samples under a policy that starts without a window.
fn outcome_of(policy: &str, samples: &[Sample], table: &latency::Table, cost: Cost) -> Outcome {
    let setting = Setting::upstream(Version::new(6, 12), Arch::X86, 0);
    let spec: crate::policy::Spec = policy.parse().unwrap();
    let mut run = run::Run::new(spec.build(&setting).unwrap());
    let follow = arrivals::Follow::new(Arrivals::FixedGap, &arrivals::Evidence::default());
    let frame = run::Frame {
        table,
        cost,
        follow,
    };
    for sample in samples {
        run.step(sample, &frame);
    }
    run.take()
}

fn samples_of(halts: &[Halt]) -> (Vec<Sample>, latency::Table) {
    let survey = survey_of(halts);
    let plan = plan(&[]);
    let table = survey.table_of(VcpuKey::of(&halts[0]), plan.elsewhere.as_ref());
    let table = table.unwrap();
    let sample = |(turn, halt): (u64, &Halt)| Sample::new(halt, &table, turn);
    ((0..).zip(halts).map(sample).collect(), table)
}

fn cost(exit_cpu_ns: u64) -> Cost {
    Cost {
        exit_cpu_ns,
        ipi_cpu_ns: exit_cpu_ns,
        ..plan(&[]).cost
    }
}

#[test]
fn a_poll_in_the_guest_spares_the_exit_and_the_ipi() {
    let mut halts = slept(vec![20 * US; 300], 30 * US, WakeSource::Ipi);
    halts.extend(slept(vec![20 * US; 300], 30 * US, WakeSource::Timer));
    let (samples, table) = samples_of(&halts);
    let guest = outcome_of("guest-haltpoll", &samples, &table, Cost::FREE);
    let host = outcome_of("fixed:always", &samples, &table, Cost::FREE);
    // The first halt makes the first window.
    let exits = |of: &Outcome| [of.hlt_exits, of.timer_exits, of.ipis];
    assert_eq!([exits(&guest), exits(&host)], [[1, 300, 1], [600, 0, 300]]);
}

proptest! {
    /// KVM ends its own polls when another task wants the CPU, and none of a guest.
    #[test]
    fn cuts_of_the_hosts_polls_change_nothing_for_a_policy_of_the_guest(
        halts in any_halts(),
        policy in prop::sample::select(GUESTS.to_vec()),
        price in 0..10_000_u64,
    ) {
        let (samples, table) = samples_of(&halts);
        let uncut: Vec<Sample> = samples.iter().map(|sample| Sample { cut_ns: u32::MAX, ..*sample }).collect();
        let of = |samples: &[Sample]| outcome_of(policy, samples, &table, cost(price));
        let (cut, uncut) = (of(&samples), of(&uncut));
        prop_assert_eq!(uncut.contended_polls, 0);
        // How far it is from the least possible is a question of both sides.
        let alike = Outcome { contended_polls: 0, clairvoyant_milli: uncut.clairvoyant_milli, ..cut };
        prop_assert_eq!(alike, uncut);
    }

    /// The price of an exit changes no halt; a price of 0 changes no cost, and a higher price never lowers a cost.
    #[test]
    fn a_cost_rises_with_the_price_of_an_exit_and_is_as_before_without(
        halts in any_halts(),
        policy in any_policy(),
        low in 0..20_000_u64,
        more in 0..20_000_u64,
    ) {
        let (samples, table) = samples_of(&halts);
        let of = |price| outcome_of(&policy, &samples, &table, cost(price));
        let [free, cheap, dear] = [0, low, low + more].map(of);
        let as_before = cost(0).milli(free.poll_ns, free.blocks, free.latency_ns);
        prop_assert_eq!(free.milli(&cost(0)), as_before);
        prop_assert!(cheap.milli(&cost(low)) >= free.milli(&cost(0)));
        prop_assert!(dear.milli(&cost(low + more)) >= cheap.milli(&cost(low)));
        prop_assert!(dear.clairvoyant_milli >= cheap.clairvoyant_milli);
        let unpriced = |outcome: &Outcome| Outcome { clairvoyant_milli: 0, ..outcome.clone() };
        prop_assert_eq!(unpriced(&free), unpriced(&dear));
    }
}
