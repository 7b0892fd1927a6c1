//! A simulated host that does as a replay says: there, the prediction is the measurement.

use crate::event::{Halt, WakeSource};
use crate::ids::Tid;
use crate::kvm::guest::Params;
use crate::kvm::{Arch, Version};
use crate::policy::{Seen, Setting, Side, Spec};
use crate::prove::compare::{Comparison, Prediction};
use crate::prove::figure::{Figure, Figures};
use crate::prove::setting::policy_of_guest;
use crate::prove::tally::{Tally, tally};
use crate::replay::Outcome;
use crate::tune::test::COST;
use crate::workload::{GapSpec, Gaps};

fn setting(_: &Halt) -> Setting {
    Setting::upstream(Version::new(6, 12), Arch::X86, 0)
}

fn in_guest(halt: &Halt) -> Setting {
    let side = Side::Guest;
    Setting {
        side,
        ..setting(halt)
    }
}

/// Halts of a vCPU under a policy: gaps that are drawn, wake-ups that all take as long.
fn halts(policy: &Spec, seed: u64, wake: WakeSource) -> Vec<Halt> {
    const LATENCY_NS: u64 = 20_000;
    let mut policy = policy.build(&in_guest(&Halt::default())).unwrap();
    let mut gaps = Gaps::new("exp:60us".parse::<GapSpec>().unwrap(), seed).unwrap();
    let mut now_ns = 1_000_000;
    let mut halt = |_| {
        // Sooner, the wake-up is pending when the vCPU halts, and it sleeps under no setting.
        let gap_ns = gaps.draw().0.max(501);
        let window_ns = policy.window(None);
        let window_ns = u32::try_from(window_ns).unwrap();
        let halt = Halt {
            tid: Tid(1),
            wake,
            ..Halt::under(window_ns, now_ns, gap_ns, LATENCY_NS)
        };
        policy.learn(&Seen {
            halt_ns: halt.halt_ns,
            poll_ns: halt.poll_ns.unwrap(),
            wake_latency_ns: halt.wake_latency_ns.unwrap(),
            waited: halt.waited,
            valid: true,
        });
        now_ns += halt.halt_ns + 5_000;
        halt
    };
    (0..2_000).map(&mut halt).collect()
}

fn measured(tally: &Tally) -> Figures {
    Figures::of(&tally.recorded, tally.vcpus, &COST)
}

fn predicted(tally: &Tally) -> Figures {
    let played = tally.predicted.as_ref().unwrap();
    Figures::of(&played.from_zero, tally.vcpus, &COST)
}

#[test]
fn on_a_host_that_does_as_the_model_says_the_prediction_is_the_measurement() {
    let [a, b]: [Spec; 2] = ["kvm:max=0", "kvm:max=100us"].map(|text| text.parse().unwrap());
    let mut rounds = Vec::new();
    let mut pairs = Vec::new();
    for seed in 0..6 {
        let [under_a, under_b] = [(&a, &b), (&b, &a)].map(|(own, other)| {
            let halts = halts(own, seed, WakeSource::Device);
            tally(&halts, other, None, setting).unwrap()
        });
        let round = [&under_a, &under_b, &under_a].map(measured);
        for figure in of(Side::Host) {
            let said = [&under_a, &under_b].map(|from| predicted(from).get(figure));
            let is = [round[1], round[0]].map(|measured| measured.get(figure));
            assert_eq!(said, is, "{figure:?}, seed {seed}");
        }
        rounds.push(round);
        pairs.push([round[0], predicted(&under_a), round[1]]);
    }
    for figure in of(Side::Host) {
        let comparison = Comparison::of(figure, &rounds).unwrap();
        let prediction = Prediction::of(&comparison, &pairs).unwrap();
        assert!(prediction.within, "{prediction:?}");
        assert!(prediction.error.reach() <= 0.0, "{prediction:?}");
        assert!(prediction.relative_error().unwrap_or(0.0).abs() <= 0.0);
    }
    let cost = Comparison::of(Figure::Cost, &rounds).unwrap();
    assert!(cost.effect.excludes_zero(), "{cost:?}");
}

/// Those that a replay predicts on a side.
fn of(side: Side) -> impl Iterator<Item = Figure> {
    let all = Figure::PREDICTED.into_iter();
    all.filter(move |figure| figure.is_of(side))
}

/// In a guest whose governor does as the model says, exits and IPIs are predicted to the unit, and what is not sent is
/// spared.
#[test]
fn in_a_guest_exits_and_ipis_are_predicted_as_measured() {
    let off = Params {
        guest_halt_poll_ns: 0,
        ..Params::default()
    };
    let [a, b] = [off, Params::default()].map(|params| policy_of_guest(&params).unwrap());
    let figures = |outcome: &Outcome| Figures::of(outcome, 1, &COST).with_exits_of(outcome);
    for seed in 0..6 {
        let [under_a, under_b] = [(&a, &b), (&b, &a)].map(|(own, other)| {
            let halts = halts(own, seed, WakeSource::Ipi);
            tally(&halts, other, None, in_guest).unwrap()
        });
        for (from, to) in [(&under_a, &under_b), (&under_b, &under_a)] {
            let said = figures(&from.predicted.as_ref().unwrap().from_zero);
            let is = figures(&to.recorded);
            for figure in of(Side::Guest) {
                assert_eq!(said.get(figure), is.get(figure), "{figure:?}, seed {seed}");
                assert!(is.get(figure).is_some(), "{figure:?}");
            }
            let each = |figure| is.get(figure).unwrap();
            let ipis = each(Figure::Ipis) + each(Figure::IpisSpared);
            assert!((ipis - 1.0).abs() < 1e-9, "{ipis}");
        }
        let exits = |tally: &Tally| figures(&tally.recorded).get(Figure::HltExits).unwrap();
        assert!((exits(&under_a) - 1.0).abs() < 1e-9);
        assert!(exits(&under_b) < 0.9, "{}", exits(&under_b));
    }
}

#[test]
fn no_halts_give_no_figures() {
    let off: Spec = "off".parse().unwrap();
    let nothing = tally(&[], &off, None, setting).unwrap();
    assert_eq!((nothing.vcpus, &nothing.predicted), (0, &None));
    assert_eq!(measured(&nothing), Figures::default());
}
