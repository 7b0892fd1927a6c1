//! Assumptions about unrecorded data of a vCPU that never slept: what wake-ups take, and how timers follow.

use super::*;
use crate::replay::Sums;
use crate::replay::latency::Latencies;
use crate::tune::doubt::Doubt;

/// Wake-ups as a calibration has them, in nanoseconds: two thirds of what a sleep costs.
const CALIBRATED: u64 = 20_000;

/// Halts that were all polled through under the default ceiling.
fn polled(gap_ns: u64, count: u64) -> Vec<Halt> {
    let one = |n: u64| Halt {
        ceiling_ns: Some(200_000),
        ceiling_source: CeilingSource::Param,
        wake: WakeSource::Device,
        ..Halt::under(200_000, 1_000_000 + n * (gap_ns + 5_000), gap_ns, 0)
    };
    (0..count).map(one).collect()
}

fn calibrated() -> Terms {
    let mut elsewhere = Latencies::default();
    for slept_ns in [60_000, 1_000_000] {
        elsewhere.add(slept_ns, CALIBRATED);
    }
    Terms {
        elsewhere: Some(elsewhere),
        ..terms_of_default()
    }
}

/// A final of what is in force, the default, and no polling.
fn final_with_off(inputs: &Inputs, aim: &Aim) -> FinalRound {
    let mut knobs = inputs.terms.in_force;
    knobs.halt_poll_ns = 0;
    let fit = Sums::default();
    play_final(inputs, &[search::Found { knobs, fit }], &[*aim], &Serial)
}

fn advised(halts: &[Halt], aim: Aim) -> Advice {
    tune(&inputs(calibrated(), halts), aim).1
}

/// A sleep costs 30 us as calibrated, 50 us if it wakes twice as late and 20 us if twice as early: polls of 25 and 40 us
/// lie between, and those of 60 us above all. What is twice as cheap as calibrated is always above all.
#[test]
fn a_gain_is_recommended_if_it_outlives_wake_ups_twice_as_late_and_known_to_be_none_if_twice_as_early()
 {
    for (gap_us, verdict) in [
        (15, Verdict::AlreadyBest),
        (25, Verdict::Unproven),
        (40, Verdict::Unproven),
        (49, Verdict::Unproven),
        (52, Verdict::Change),
        (60, Verdict::Change),
    ] {
        let advice = advised(&polled(gap_us * 1_000, 4_000), AIM);
        assert_eq!(advice.verdict, verdict, "{gap_us} us: {advice:?}");
        let choice_ns = advice.choice.map(|choice| choice.knobs.halt_poll_ns);
        let is_told = verdict != Verdict::AlreadyBest;
        assert!(!is_told || choice_ns == Some(0), "{gap_us} us");
    }
}

#[test]
fn both_gains_are_told() {
    let near = |a: f64, b: f64| (a - b).abs() < 0.01;
    for (gap_ns, value, low, high) in [
        (40_000, -0.25, Some(-0.5), 0.25),
        (100_000, -0.7, None, -0.5),
    ] {
        let advice = advised(&polled(gap_ns, 4_000), AIM);
        assert_eq!(advice.hangs_on, Some(Doubt::Late));
        let share = advice.against_in_force.unwrap().cost_share;
        let is_told = near(share.value, value) && near(share.high, high);
        let is_low = low.is_none_or(|low| near(share.low, low));
        assert!(is_told && is_low, "{share:?}");
    }
}

/// A sleep costs 30 us as calibrated and a poll 20: they change places within a wide interval of what a block
/// costs, and not within a narrow one, which only widens the interval of the gain.
#[test]
fn what_gains_only_within_the_calibrations_error_is_not_certain() {
    let inputs = inputs(terms("6.12"), &load(0, "fixed:20us", 4_000, 3));
    let by = |ends| {
        let mut aim = AIM;
        aim.switch_cpu_ends_ns = ends;
        tune(&inputs, aim).1
    };
    let [sure, narrow, wide] = [None, Some([9_000, 11_000]), Some([2_000, 15_000])].map(by);
    assert_eq!(sure.verdict, Verdict::Change);
    assert_eq!(narrow.verdict, Verdict::Change);
    let [alone, widened] = [&sure, &narrow].map(|of| of.against_in_force.unwrap().cost_share);
    assert!(widened.low < alone.low - 0.02 && widened.high > alone.high + 0.02);
    assert!((widened.value - alone.value).abs() < 1e-12);
    assert_eq!(wide.verdict, Verdict::Unproven);
    assert_eq!(wide.hangs_on, None, "the price of a block");
}

/// Every sleep was recorded, so the calibration is not asked; half of the halts slept, so it is not
/// either.
#[test]
fn what_the_recording_tells_needs_no_proof() {
    for every in [1, 2] {
        let mut halts = polled(40_000, 4_000);
        for halt in halts.iter_mut().step_by(every) {
            halt.halt_ns += CALIBRATED;
            (halt.poll_ns, halt.window_ns) = (Some(0), Some(0));
            (halt.waited, halt.wake_latency_ns) = (true, Some(CALIBRATED));
        }
        for (n, halt) in (0..).zip(&mut halts) {
            halt.start_ns = 1_000_000 + n * 70_000;
        }
        let inputs = inputs(calibrated(), &halts);
        let of = final_with_off(&inputs, &AIM);
        assert_eq!(of.others[0].doubted, []);
        let advice = advise(&inputs, &of, &goal(AIM));
        assert_eq!(advice.verdict, Verdict::Change, "{:?}", advice.rejected);
        assert!(advice.choice.unwrap().knobs.halt_poll_ns == 0);
    }
}

/// A user who asks for less polling gets it, whatever a sleep costs; and where latency counts for nothing, what
/// wake-ups take is no matter.
#[test]
fn a_limit_is_obeyed_and_density_asks_no_latency() {
    let halts = polled(40_000, 4_000);
    let limited = advised(&halts, limited(2.0));
    assert_eq!(limited.verdict, Verdict::ObeyLimit);
    let polls = limited.choice.unwrap().judged();
    let wall = inputs(calibrated(), &halts).judged_wall;
    assert!(wall.poll_cpu_percent(&polls) <= 2.0);
    assert_eq!(advised(&halts, density()).verdict, Verdict::Change);
}

/// One VM polls without success by the calibration, the other in any case: no cap hangs on the first.
#[test]
fn a_ceiling_for_a_vm_that_hangs_on_the_calibration_is_not_told() {
    let both = |gaps_ns: [u64; 2]| {
        let mut halts = polled(gaps_ns[0], 3_000);
        halts.extend(polled(gaps_ns[1], 3_000).into_iter().map(|halt| Halt {
            vm: Some(VmIndex(1)),
            ..halt
        }));
        let inputs = inputs(calibrated(), &halts);
        let (of, _) = tune(&inputs, AIM);
        let base = Entry::new(inputs.terms.in_force);
        let settable = [0, 1].map(VmIndex).into();
        caps::search(&inputs, &of, &base, (&AIM, &settable), &Serial).unwrap()
    };
    assert_eq!(both([40_000, 10_000]), None);
    let caps = both([100_000, 10_000]).unwrap();
    assert!(caps.cost_share.value < -0.5, "{caps:?}");
}

/// A vCPU that polls for timers all of one gap. What a sleep costs, 30 us, is known from one halt in sixteen, which a device ends. Timers
/// at a fixed time that are not polled for have come already when the vCPU is up again, every other time, and cost nothing then.
fn timers() -> Inputs {
    let mut halts = polled(19_000, 16_000);
    for (nth, halt) in halts.iter_mut().enumerate() {
        halt.start_ns = 1_000_000 + nth as u64 * 50_000;
        // The halt after a late wake-up would show how timers follow.
        if nth % 16 > 1 {
            halt.wake = WakeSource::Timer;
        }
        if nth % 16 == 0 {
            halt.waited = true;
            (halt.halt_ns, halt.poll_ns) = (19_000 + CALIBRATED, Some(0));
            (halt.window_ns, halt.wake_latency_ns) = (Some(0), Some(CALIBRATED));
        }
    }
    let terms = Terms {
        arrivals: Arrivals::BySource,
        elsewhere: None,
        ..calibrated()
    };
    inputs(terms, &halts)
}

/// Gains of not polling, as taken and if gaps stay.
fn gains_of_off(inputs: &Inputs, aim: &Aim) -> [f64; 2] {
    let of = final_with_off(inputs, aim);
    let (own, other) = (&of.others[0], &of.in_force);
    [None, Some(Doubt::Staying)].map(|doubt| {
        let [own, other] = [own, other].map(|of| Sums::total(of.blocks_under(doubt)));
        own.gain_on(&other, &aim.cost)
    })
}

#[test]
fn a_gain_by_timers_at_a_fixed_time_that_nothing_shows_is_to_be_proved() {
    let inputs = timers();
    let [gain, staying] = gains_of_off(&inputs, &AIM);
    assert!(gain > 0.1 && staying < -0.1, "{gain} {staying}");
    let advice = tune(&inputs, AIM).1;
    assert_eq!(advice.verdict, Verdict::Unproven);
    assert_eq!(advice.hangs_on, Some(Doubt::Staying));
}

/// Where latency counts for nothing, not polling gains by both readings.
#[test]
fn intervals_reach_to_both_readings_of_timers() {
    let inputs = timers();
    let [gain, staying] = gains_of_off(&inputs, &density());
    assert!(gain > staying + 0.1 && staying > 0.1, "{gain} {staying}");
    let (_, advice) = tune(&inputs, density());
    assert_eq!(advice.verdict, Verdict::Change, "{:?}", advice.rejected);
    let share = advice.against_in_force.unwrap().cost_share;
    let reaches = share.value <= -gain + 0.01 && share.high >= -staying - 0.01;
    assert!(reaches, "{share:?}");
}

/// Off costs 30 us a halt as calibrated, and a ceiling between 22 and 190 us less; 20 us if wake-ups are as early as they may
/// be, and the ceiling more. Both cost far less than the default: the simpler one is taken.
#[test]
fn a_value_that_some_assumption_makes_dearer_does_not_replace_off() {
    let both = [22_000, 190_000].map(|gap_ns| polled(gap_ns, 80));
    let mut halts = both.concat().repeat(50);
    for nth in 1..halts.len() {
        halts[nth].start_ns = halts[nth - 1].end_ns() + 5_000;
    }
    let advice = advised(&halts, AIM);
    assert_eq!(advice.verdict, Verdict::Change);
    assert_eq!(advice.choice.unwrap().knobs.halt_poll_ns, 0);
}
