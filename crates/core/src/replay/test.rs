//! Worked examples, and laws that hold for any halts.

use proptest::prelude::*;

use super::latency::Latencies;
use super::session::{Plan, Survey};
use super::*;
use crate::event::{Halt, WakeSource};
use crate::ids::{VcpuId, VmIndex};
use crate::kvm::{Arch, Version};
use crate::policy::Setting;
use crate::workload::SplitMix64;

mod guest;
mod overrun;

const US: u64 = 1_000;

fn plan(specs: &[&str]) -> Plan {
    let mut elsewhere = Latencies::default();
    for (slept_us, latency_us) in [(20, 30), (200, 40), (2_000, 90)] {
        elsewhere.add(slept_us * US, latency_us * US);
    }
    Plan {
        specs: specs.iter().map(|text| text.parse().unwrap()).collect(),
        cost: Cost {
            switch_cpu_ns: 10 * US,
            latency_weight_milli: 1_000,
            ..Cost::FREE
        },
        arrivals: Arrivals::BySource,
        elsewhere: Some(elsewhere),
    }
}

pub(crate) fn replay(plan: Plan, halts: &[Halt]) -> session::VcpuResult {
    replay_after(Survey::default(), plan, halts)
}

fn survey_of<'a>(halts: impl IntoIterator<Item = &'a Halt>) -> Survey {
    let mut survey = Survey::default();
    halts.into_iter().for_each(|halt| survey.halt(halt));
    survey
}

fn replay_after(mut survey: Survey, plan: Plan, halts: &[Halt]) -> session::VcpuResult {
    for halt in halts {
        survey.halt(halt);
    }
    let setting = Setting::upstream(Version::new(6, 12), Arch::X86, 0);
    let mut session = Session::new(plan, survey, |_: &Halt| setting);
    for halt in halts {
        session.halt(halt).unwrap();
    }
    let seat = VcpuKey::of(&halts[0]);
    session.finish().find(|result| result.seat == seat).unwrap()
}

/// Halts that were recorded without polling: each slept for its gap and woke after `latency_ns`.
pub(crate) fn slept(
    gaps: impl IntoIterator<Item = u64>,
    latency_ns: u64,
    wake: WakeSource,
) -> Vec<Halt> {
    let mut now_ns = 1_000_000;
    let halt = |gap_ns: u64| {
        let mut halt = Halt::under(0, now_ns, gap_ns, latency_ns);
        halt.wake = wake;
        now_ns = halt.end_ns() + 5 * US;
        halt
    };
    gaps.into_iter().map(halt).collect()
}

/// A window of 5 us makes sleeps of 20 us as short as those of 12 us were, of which there are a few.
#[test]
fn lengths_of_sleep_that_were_seen_a_few_times_are_a_doubt() {
    let doubts = |few: usize| {
        let gaps = [20 * US; 40].into_iter().chain(vec![12 * US; few]);
        let halts = slept(gaps, 30 * US, WakeSource::Device);
        let mut own = plan(&["fixed:5us", "off"]);
        own.elsewhere = None;
        let played = replay(own, &halts).played;
        let [short, off] = [0, 1].map(|index| {
            let doubts = played[index].from_zero.doubts;
            (doubts.latency_thin, doubts.latency_guessed)
        });
        assert_eq!(off, (0, 0), "each has its own latency");
        short
    };
    assert_eq!(doubts(15), (0, 55), "sleeps of 20 us are near, and enough");
    assert_eq!(doubts(16), (0, 16), "of 7 us no sleep was recorded");
}

#[test]
fn halts_that_step_back_in_time_are_left_out_and_counted() {
    let mut halts = slept([20 * US; 4], 30 * US, WakeSource::Device);
    halts[2].start_ns = 5;
    let result = replay(plan(&["off"]), &halts);
    assert_eq!((result.out_of_order, result.recorded.halts), (1, 3));
}

fn any_halts() -> impl Strategy<Value = Vec<Halt>> {
    let times = (0..400 * US, 0..100 * US);
    let one = (times, any::<[bool; 2]>(), 0..5_u8);
    prop::collection::vec(one, 1..80).prop_map(|halts| {
        let mut now_ns = 1_000;
        let halt = |((gap_ns, latency_ns), [waited, cut], wake): ((u64, u64), [bool; 2], u8)| {
            let latency_ns = u64::from(waited) * latency_ns;
            let poll_ns = if waited { gap_ns / 3 } else { gap_ns };
            let halt = Halt {
                halt_ns: gap_ns + latency_ns,
                waited,
                window_ns: u32::try_from(poll_ns).ok(),
                poll_ns: Some(poll_ns),
                wake_latency_ns: Some(latency_ns),
                wake: WakeSource::ALL[usize::from(wake)],
                poll_cut: Some(waited && cut),
                ..Halt::under(0, now_ns, 0, 0)
            };
            now_ns = halt.end_ns() + 1;
            halt
        };
        halts.into_iter().map(halt).collect()
    })
}

fn any_policy() -> impl Strategy<Value = String> {
    let policies = crate::policy::POLICIES.iter().map(|entry| entry.name);
    let policies: Vec<&'static str> = policies.collect();
    (prop::sample::select(policies), 0..300_u64).prop_map(|(name, us)| {
        let texts = [
            name.to_owned(),
            format!("{name}:{us}us"),
            format!("{name}:{}%|kvm", us % 101),
        ];
        let setting = Setting::upstream(Version::new(6, 12), Arch::X86, 30 * US);
        let builds = |text: &&String| {
            text.parse::<crate::policy::Spec>()
                .is_ok_and(|spec| spec.build(&setting).is_ok())
        };
        texts.iter().find(builds).unwrap().clone()
    })
}

fn any_arrivals() -> impl Strategy<Value = Arrivals> {
    prop::sample::select(Arrivals::ALL.to_vec())
}

proptest! {
    /// No part exceeds its whole; no figure of CPU exceeds the vCPU's time, whatever a block is said to cost.
    #[test]
    fn no_part_exceeds_its_whole(
        halts in any_halts(), policy in any_policy(), arrivals in any_arrivals(), switch_cpu_ns: u64,
    ) {
        let cost = Cost { switch_cpu_ns, latency_weight_milli: 0, ..Cost::FREE };
        let plan = Plan { arrivals, ..plan(&[&policy]) };
        let mut result = replay(plan, &halts);
        let played = result.played.remove(0);
        for outcome in [played.from_zero, played.from_ceiling] {
            prop_assert!(outcome.poll_ns <= outcome.halt_ns);
            prop_assert!(outcome.poll_fail_ns <= outcome.poll_ns);
            prop_assert!(outcome.poll_fail_ns + outcome.sleep_ns + outcome.latency_ns <= outcome.halt_ns);
            prop_assert!(outcome.successful_polls <= outcome.polls);
            prop_assert!(outcome.successful_polls + outcome.blocks <= outcome.halts);
            prop_assert!(outcome.cpu_ns(&cost) <= outcome.span_ns, "{outcome:?}");
        }
        prop_assert!(result.recorded.cpu_ns(&cost) <= result.recorded.span_ns);
    }

    /// However cheap a block is, and whatever an exit; where overruns are known, a poll in the guest sleeps where one in
    /// the host would be met.
    #[test]
    fn no_policy_beats_the_clairvoyant(
        halts in any_halts(),
        policy in any_policy(),
        arrivals in any_arrivals(),
        switch_cpu_ns in prop_oneof![Just(10 * US), 0..6_000_u64],
        weight in prop_oneof![0..3_000_u64, 0..20_000_u64],
        price in prop_oneof![Just(0), 0..40_000_u64],
        knows_overruns: bool,
    ) {
        let cost = Cost { switch_cpu_ns, latency_weight_milli: weight, exit_cpu_ns: price, ipi_cpu_ns: price };
        let plan = Plan { cost, arrivals, ..plan(&[&policy, "clairvoyant"]) };
        let survey = if knows_overruns { overrun::shown() } else { Survey::default() };
        let result = replay_after(survey, plan, &halts);
        for played in &result.played {
            for outcome in [&played.from_zero, &played.from_ceiling] {
                let milli = outcome.milli(&cost);
                prop_assert!(milli >= outcome.clairvoyant_milli, "{milli} < {}", outcome.clairvoyant_milli);
            }
        }
    }

    #[test]
    fn thresholds_at_the_ends_are_off_and_always(halts in any_halts(), arrivals in any_arrivals()) {
        let plan = Plan { arrivals, ..plan(&["off", "fixed:0", "fixed:always", "fixed:1h"]) };
        let played = replay(plan, &halts).played;
        prop_assert_eq!(&played[0], &played[1]);
        prop_assert_eq!(&played[2], &played[3]);
    }

    #[test]
    fn off_replayed_on_what_was_recorded_without_polling_is_what_was_recorded(seed in any::<u64>(), latency in 0..90_u64) {
        let mut draw = SplitMix64(seed);
        let gaps = (0..50).map(|_| draw.below(900 * US) + 1);
        let halts = slept(gaps, latency * US, WakeSource::Timer);
        let result = replay(plan(&["off"]), &halts);
        let off = &result.played[0].from_zero;
        let figures = |outcome: &Outcome| (outcome.halts, outcome.blocks, outcome.poll_ns, outcome.latency_ns, outcome.halt_ns, outcome.sleep_ns);
        prop_assert_eq!(figures(off), figures(&result.recorded));
    }

    /// A vCPU takes its own typical sleeps, then its VM's, then the host's; and those that saw too little share a table.
    #[test]
    fn a_vcpus_table_is_its_own_then_its_vms_then_the_hosts(halts in any_halts(), seats in prop::collection::vec(0..5_u32, 80), calibrated: bool) {
        let mut survey = Survey::default();
        let mut known = std::collections::BTreeMap::<VcpuKey, Latencies>::new();
        let [mut few, mut disturbed] = [Latencies::default(), Latencies::default()];
        // VM 0 has one vCPU, VM 1 the others.
        let of = |seat: u32| (Some(VmIndex(seat.min(1))), Some(VcpuId(seat)));
        for (halt, seat) in halts.iter().zip(seats) {
            let (vm, vcpu) = of(seat);
            // Few classes, so that some have enough.
            let halt = Halt { vm, vcpu, halt_ns: halt.halt_ns.next_power_of_two(), ..*halt };
            survey.halt(&halt);
            let own = known.entry(VcpuKey::of(&halt)).or_default();
            own.halted();
            let Some((slept_ns, latency_ns)) = sample::sleep_and_latency_ns(&halt) else { continue };
            if halt.is_preempted() {
                disturbed.add(slept_ns, latency_ns);
                continue;
            }
            own.add(slept_ns, latency_ns);
            few.add(slept_ns, latency_ns);
        }
        let typical = |of: &dyn Fn(&VcpuKey) -> bool| {
            let mut typical = Latencies::default();
            known.iter().filter(|(seat, _)| of(seat)).for_each(|(_, own)| typical.add_typical(own));
            typical
        };
        let mut measured = plan(&[]).elsewhere.unwrap_or_default();
        measured.on_the_same_cpu(1);
        let elsewhere = Some(&measured).filter(|_| calibrated);
        let common = survey.common(elsewhere);
        let host = typical(&|_| true);
        let cut = halts.iter().filter(|halt| halt.is_preempted()).count() as u64;
        let is_busy = latency::is_typical(cut, halts.len() as u64);
        let price = elsewhere.map(|measured| latency::Price::new(measured, &host, is_busy));
        for seat in survey.seats() {
            let of_vm = typical(&|other| other.vm == seat.vm);
            let expected = latency::Table::new(&latency::Sources {
                typical: &[&known[&seat], &of_vm, &host],
                price: price.as_ref(),
                few: [&few, &disturbed],
                overruns: survey.overruns(),
            });
            let table = survey.table(seat, &common);
            prop_assert_eq!(table.as_deref(), expected.as_ref());
        }
    }

    /// Halts that are passed over leave a policy where counted ones do.
    #[test]
    fn what_nobody_counts_goes_on_all_the_same(seed in any::<u64>(), policy in any_policy(), latency in 1..90_u64) {
        let mut draw = SplitMix64(seed);
        let gaps = (0..200).map(|_| draw.below(120 * US) + 1);
        let halts = slept(gaps, latency * US, WakeSource::Timer);
        let survey = survey_of(&halts);
        let seat = VcpuKey::of(&halts[0]);
        let plan = plan(&[&policy]);
        let table = survey.table_of(seat, None).unwrap();
        let frame = run::Frame { table: &table, cost: plan.cost, follow: survey.follow(seat, plan.arrivals) };
        let setting = Setting::upstream(Version::new(6, 12), Arch::X86, 0);
        let [mut counted, mut passed] = [(); 2].map(|()| run::Run::new(plan.specs[0].build(&setting).unwrap()));
        for (turn, halt) in (0..).zip(&halts) {
            let sample = Sample::new(halt, &table, turn);
            counted.step(&sample, &frame);
            if turn < 100 {
                passed.pass_beside(&sample, &frame, Some(&mut run::LeastCost::default()));
                counted.take();
            } else {
                passed.step(&sample, &frame);
            }
        }
        prop_assert_eq!(counted.take(), passed.take());
    }
}

/// Text of other tools has no time polled, but a halt of so few ns found its wake-up pending.
#[test]
fn a_wake_up_that_was_pending_never_sleeps() {
    let mut halts = slept([30 * US; 40], 20 * US, WakeSource::Device);
    for halt in halts.iter_mut().step_by(2) {
        *halt = Halt {
            halt_ns: 354,
            waited: false,
            window_ns: None,
            poll_ns: None,
            wake_latency_ns: Some(0),
            ..*halt
        };
    }
    let result = replay(plan(&["off"]), &halts);
    let outcome = &result.played[0].from_zero;
    assert_eq!((outcome.halts, outcome.blocks), (40, 20));
}
