//! Changes that other wake-ups would make, where nothing recorded shows such wake-ups.

use proptest::prelude::*;

use super::*;

fn own(specs: &[&str]) -> Plan {
    Plan {
        elsewhere: None,
        ..plan(specs)
    }
}

/// Gaps about `mean_ns` apart that have no memory.
fn exponential(mean_ns: f64, halts: u32, seed: u64) -> Vec<u64> {
    let mut draw = SplitMix64(seed);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a gap of some microseconds"
    )]
    let gap = |_| (-mean_ns * ((draw.below(1_000_000) + 1) as f64 / 1e6).ln()) as u64;
    (0..halts).map(gap).collect()
}

#[test]
fn a_recording_that_polled_shows_its_wake_ups_itself() {
    let mut halts = slept(vec![60 * US; 100], 40 * US, WakeSource::Device);
    let doubted = |halts: &[Halt]| {
        let played = replay(own(&["kvm", "off"]), halts).played;
        played.iter().all(|played| played.early.is_some())
    };
    assert!(doubted(&halts));
    for halt in &mut halts[..9] {
        halt.window_ns = Some(10_000);
        halt.poll_ns = Some(10_000);
    }
    assert!(doubted(&halts));
    halts[9].window_ns = Some(10_000);
    halts[9].poll_ns = Some(10_000);
    let played = replay(own(&["kvm", "off"]), &halts).played;
    assert!(played.iter().all(|played| played.early.is_none()));
}

/// A poll met nearly all halts, and a few slept, for 24 us or late: without polling no wake-up is known.
#[test]
fn a_recording_that_hardly_slept_gives_how_early_and_how_late_its_wake_ups_may_be() {
    let mut halts = slept(vec![20 * US; 1_000], 24 * US, WakeSource::Device);
    for (index, halt) in halts.iter_mut().enumerate() {
        let sleeps = index % 40 == 0;
        halt.window_ns = Some(if sleeps { 0 } else { 50_000 });
        halt.poll_ns = Some(if sleeps { 0 } else { 20 * US });
        if !sleeps {
            (halt.waited, halt.wake_latency_ns) = (false, Some(0));
            halt.halt_ns = 20 * US;
        }
    }
    // Mean latencies of `off` in us and successful polls of `kvm`: early, as known, late.
    let of = |halts: &[Halt], elsewhere| {
        let specs = plan(&["off", "kvm:max=46us"]);
        let played = replay(Plan { elsewhere, ..specs }, halts).played;
        let all = |it: &session::Played| {
            Some([it.early.clone()?, it.from_zero.clone(), it.late.clone()?])
        };
        let mean_us = |outcome: Outcome| outcome.latency_ns / outcome.halts / US;
        let polls = all(&played[1])?.map(|outcome| outcome.successful_polls);
        Some((all(&played[0])?.map(mean_us), polls))
    };
    // Half the fastest, and a quarter later than any; 20 + 29 us are more than 46 us.
    let (latencies, [early, known, late]) = of(&halts, None).unwrap();
    assert_eq!(latencies, [12, 24, 29]);
    assert!(early == known && known > 900 && late == 0, "{known} {late}");
    // A calibration of 30 us is known to a factor of two.
    assert_eq!(of(&halts, plan(&[]).elsewhere).unwrap().0, [15, 29, 59]);
    // Sleeps enough show their wake-ups.
    let halts = slept(vec![20 * US; 1_000], 24 * US, WakeSource::Device);
    assert_eq!(of(&halts, None), None);
}

proptest! {
    /// The figures told for shorter wake-ups equal the figures of a recording with such wake-ups.
    #[test]
    fn it_is_a_replay_of_the_same_halts_with_shorter_wake_ups(
        seed in any::<u64>(),
        latency in 1..90_u64,
        policy in prop::sample::select(vec!["off", "kvm:max=100us", "kvm", "fixed:30us", "guest-haltpoll"]),
    ) {
        let latency_ns = latency * 100 * 5;
        let gaps = exponential(60e3, 300, seed);
        let of = |latency_ns| {
            let halts = slept(gaps.clone(), latency_ns, WakeSource::Device);
            let plan = Plan { arrivals: Arrivals::FixedGap, ..own(&[policy]) };
            replay(plan, &halts).played.remove(0)
        };
        let figures = |outcome: &Outcome| {
            (outcome.successful_polls, outcome.blocks, outcome.poll_ns, outcome.latency_ns, outcome.halt_ns)
        };
        let (told, truth) = (of(latency_ns).early.unwrap(), of(latency_ns * 80 / 100).from_zero);
        prop_assert_eq!(figures(&told), figures(&truth));
    }

    /// If one of two parts polled, the sum takes that part as recorded.
    #[test]
    fn a_sum_takes_each_part_as_it_is_known(polls in 1..100_u64, more in 1..100_u64) {
        let of = |successful_polls| Outcome { successful_polls, ..Outcome::default() };
        let unknown = session::Played { from_zero: of(polls), early: Some(of(polls + more)), ..session::Played::default() };
        let known = session::Played { from_zero: of(7), ..session::Played::default() };
        for [mut one, other] in [[unknown.clone(), known.clone()], [known, unknown]] {
            one.add(&other);
            prop_assert_eq!(one.early.unwrap().successful_polls, polls + more + 7);
            prop_assert_eq!(one.from_zero.successful_polls, polls + 7);
        }
    }
}
