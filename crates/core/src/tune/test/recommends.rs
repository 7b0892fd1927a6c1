//! Recommendations for loads whose answer is known beforehand, and for corner cases.

use super::*;
use crate::replay::Sums;

/// Relevant parts of an advice, for a test that fails.
fn said(advice: &Advice) -> String {
    let choice = advice.choice.as_ref().map(|choice| choice.knobs);
    let share = advice.against_in_force.map(|against| against.cost_share);
    let (verdict, rejected) = (advice.verdict, &advice.rejected);
    format!("{verdict:?} {choice:?} {share:?} {rejected:?}")
}

#[test]
fn what_does_not_surely_gain_is_left() {
    let long = load(0, "uniform:900us:3ms", 4_000, 2);
    // The second half of the time brings gaps that no poll is worth.
    let mut fits_first = load(0, "fixed:20us", 2_000, 5);
    let shift_ns = fits_first.last().unwrap().end_ns() + 5_000;
    fits_first.extend(load(0, "fixed:400us", 200, 5).into_iter().map(|halt| Halt {
        start_ns: halt.start_ns + shift_ns,
        ..halt
    }));
    let mut own_ceiling = load(0, "fixed:20us", 2_000, 10);
    for halt in &mut own_ceiling {
        halt.ceiling_ns = Some(10_000);
        halt.ceiling_source = CeilingSource::Cap;
    }
    // The setting in force does not poll, which is no reason to change the setting.
    let no_cpus = Aim {
        possible_poll_cpu_percent: Some(30.0),
        ..AIM
    };
    for (what, halts, aim) in [
        ("long gaps under off", long, AIM),
        ("the first part alone gains", fits_first, AIM),
        ("a VM's own ceiling", own_ceiling, AIM),
        ("no idle CPU", load(0, "fixed:20us", 4_000, 13), no_cpus),
    ] {
        let inputs = inputs(terms("6.12"), &halts);
        let (of, advice) = tune(&inputs, aim);
        let (said, polls) = (said(&advice), of.in_force.judged().poll_ns > 0);
        let fixed = Entry::new(candidates::fixed(100_000));
        let is_left = match what {
            "long gaps under off" => advice.verdict == Verdict::AlreadyBest,
            "a VM's own ceiling" => fixed.ceiling_ns(&inputs.seats[0]) == 10_000,
            "no idle CPU" => !polls,
            _ => true,
        };
        assert!(is_left && !advice.verdict.changes(), "{what}: {said}");
    }
}

#[test]
fn a_setting_with_two_steady_states_is_rejected() {
    let inputs = inputs(terms("6.12"), &load(0, "bimodal:0.8:15us:2ms", 4_000, 6));
    // A window that begins with nothing grows to 15 us and stays there; one that stands at the ceiling
    // stays there too, and polls 200 us of each long gap without success.
    let knobs = Knobs::of([200_000, 2, 15_500, 1]);
    let fit = Sums::default();
    let found = [search::Found { knobs, fit }];
    let of = play_final(&inputs, &found, &[AIM], &Serial);
    let two_states = of.others.iter().find(|it| it.knobs == knobs).unwrap();
    assert!(two_states.two_states(&COST).is_some());
    let advice = advise(&inputs, &of, &goal(AIM));
    assert!(advice.choice.as_ref().is_some_and(|it| it.knobs != knobs));
    let is_it =
        |(of, why): &(Knobs, Rejected)| matches!(why, Rejected::Bistable(..)) && *of == knobs;
    assert!(advice.rejected.iter().any(is_it), "{}", said(&advice));
}

#[test]
fn corners_have_answers() {
    let mut some = load(0, "fixed:20us", 2_000, 7);
    for halt in &mut some {
        halt.ceiling_ns = Some(200_000);
    }
    let (mut all_cut, mut all_unseen) = (some.clone(), some.clone());
    for halt in &mut all_cut {
        (halt.poll_cut, halt.poll_ns) = (Some(true), Some(1_000));
        halt.window_ns = Some(200_000);
    }
    for halt in &mut all_unseen {
        (halt.poll_ns, halt.window_ns) = (None, None);
    }
    for (what, halts, verdict) in [
        // The validation half is empty, so nothing tells any setting from what is in force.
        ("one halt", &some[..1], Verdict::TooShort),
        ("two halts", &some[..2], Verdict::TooShort),
        // A microsecond of each poll is without success, of 31 that a halt costs.
        ("polls cut at once", &all_cut[..], Verdict::Change),
        ("polls unknown", &all_unseen[..], Verdict::AlreadyBest),
    ] {
        let inputs = inputs(terms_of_default(), halts);
        let (of, advice) = tune(&inputs, AIM);
        assert_eq!(of.in_force.judged().halts, of.default.judged().halts);
        assert_eq!(advice.verdict, verdict, "{what}: {}", said(&advice));
    }
}

#[test]
fn old_kernels_are_tuned_by_what_they_have() {
    for version in ["4.1", "4.4", "4.19", "5.10", "5.15"] {
        let inputs = inputs(terms(version), &load(0, "fixed:20us", 2_000, 8));
        let (_, advice) = tune(&inputs, AIM);
        let said = said(&advice);
        assert_eq!(advice.verdict, Verdict::Change, "{version}: {said}");
        let cost_ns = advice.choice.unwrap().judged().cost_per_halt_ns(&COST);
        assert!((cost_ns - 20_000.0).abs() < 500.0, "{version}: {cost_ns}");
    }
    let none = inputs(terms("3.19"), &load(0, "fixed:20us", 200, 8));
    assert_eq!(tune(&none, AIM).1.verdict, Verdict::NoPolling);
}

#[test]
fn a_long_capture_is_thinned_by_stretches_of_time() {
    let halts = load(0, "fixed:20us", 10_000, 11);
    let span_ns = halts.last().unwrap().end_ns() - halts[0].start_ns;
    let keep = Keep::at_most(2_500, 10_000, span_ns);
    let thinned = gathered(terms("6.12"), keep, &halts);
    assert_eq!(thinned.halts() + thinned.skipped, 10_000);
    let kept = thinned.halts();
    assert!((2_400..2_600).contains(&kept), "{kept}");
    let (_, advice) = tune(&thinned, AIM);
    assert_eq!(advice.verdict, Verdict::Change);
}

#[test]
fn a_search_for_a_ceiling_moves_nothing_else() {
    let mut halts = load(0, "fixed:20us", 2_000, 12);
    for halt in &mut halts {
        halt.ceiling_source = CeilingSource::Cap;
    }
    let mut terms = terms("6.12");
    terms.ceiling_only = true;
    let in_force = terms.in_force;
    let inputs = inputs(terms, &halts);
    let (of, advice) = tune(&inputs, AIM);
    assert_eq!(advice.verdict, Verdict::Change, "{}", said(&advice));
    for finalist in &of.others {
        let mut with_ceiling = in_force;
        with_ceiling.halt_poll_ns = finalist.knobs.halt_poll_ns;
        assert_eq!(finalist.knobs, with_ceiling);
    }
}
