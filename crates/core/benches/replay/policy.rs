//! Ten million halts under one policy, as `haltwise tune` plays them: survey, both starts, figures.

use haltwise_core::event::Halt;
use haltwise_core::kvm::{Arch, Version};
use haltwise_core::policy::Setting;
use haltwise_core::replay::session::{Plan, Survey};
use haltwise_core::replay::{Arrivals, Cost, Session};

use super::load::{Load, elsewhere};
use super::rounds::{Rounds, Scale, TIMES, timed};

const POLICIES: [&str; 4] = ["off", "kvm", "fixed:50us", "leader"];

/// Cost of a block: measurements/2026-11-21-vm-calibrate.
pub(crate) const COST: Cost = Cost {
    switch_cpu_ns: 10_400,
    latency_weight_milli: 1_000,
    ..Cost::FREE
};

/// The first pass, which all policies of a replay share.
const SURVEY: &str = "survey";

pub(crate) fn measure(loads: &[&Load], scale: &Scale, rounds: &mut Rounds) {
    let millions = (scale.drawn as u64 * TIMES) as f64 / 1e6;
    for load in loads {
        let drawn = load.halts(scale.drawn);
        for round in 0..scale.rounds {
            for policy in POLICIES {
                let (survey_s, play_s) = replay(policy, &mut drawn.clone());
                rounds.add(load.name, SURVEY, round, survey_s);
                rounds.add(load.name, policy, round, survey_s + play_s);
            }
        }
    }
    println!("{millions} million halts under one policy, seconds, survey included (95 % interval)");
    println!(
        "{:<8} {:>17} {:>17} {:>17} {:>17} {:>17}",
        "load", SURVEY, POLICIES[0], POLICIES[1], POLICIES[2], POLICIES[3]
    );
    for load in loads {
        let cell = |what| rounds.cell(load.name, what);
        let [off, kvm, fixed, leader] = POLICIES.map(cell);
        println!(
            "{:<8} {:>17} {off:>17} {kvm:>17} {fixed:>17} {leader:>17}",
            load.name,
            cell(SURVEY)
        );
    }
    println!();
}

/// Both passes; what each takes, in seconds.
fn replay(policy: &str, drawn: &mut [Halt]) -> (f64, f64) {
    let mut survey = Survey::default();
    let (survey_s, ()) = timed(|| each(drawn, |halt| survey.halt(halt)));
    let plan = Plan {
        specs: vec![policy.parse().expect("a policy")],
        cost: COST,
        arrivals: Arrivals::BySource,
        elsewhere: Some(elsewhere()),
    };
    let setting = Setting::upstream(Version::new(6, 12), Arch::X86, 0);
    let mut session = Session::new(plan, survey, |_: &Halt| setting);
    let (play_s, ()) = timed(|| each(drawn, |halt| session.halt(halt).expect("known latencies")));
    std::hint::black_box(session.finish().count());
    (survey_s, play_s)
}

/// The drawn halts, so many times one behind the other.
fn each(drawn: &mut [Halt], mut take: impl FnMut(&Halt)) {
    let first_ns = drawn.first().map_or(0, |halt| halt.start_ns);
    let last_ns = drawn.last().map_or(0, Halt::end_ns);
    for _ in 0..TIMES {
        for halt in &mut *drawn {
            take(halt);
            halt.start_ns += last_ns - first_ns;
        }
    }
}
