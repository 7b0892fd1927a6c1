//! Which setting is to be tried, of those that were played.

use super::super::evidence::{Choice, Question};
use super::recorded::Recorded;
use super::{blocks, both, latest_ns};
use crate::kvm::Knobs;
use crate::stats::Interval;
use crate::tune::Inputs;
use crate::tune::advice::{self, Advice, Verdict};
use crate::tune::doubt::Doubt;
use crate::tune::final_round::FinalRound;
use crate::tune::search::Aim;
use crate::tune::stage::{Entry, Part};

/// The setting that is advised, or is to be proved first: a trial proves it.
pub(super) fn choice(
    inputs: &Inputs,
    of: &FinalRound,
    question: &Question,
    advice: &Advice,
    recorded: &Recorded,
) -> Option<Choice> {
    let is_tried = advice.verdict.changes() || advice.verdict == Verdict::Unproven;
    let chosen = advice.choice.as_ref().filter(|_| is_tried)?;
    let (knobs, aim) = (chosen.knobs, &advice.goal.aim);
    let against = advice::compare(inputs, chosen.blocks(), of.in_force.blocks(), aim);
    let gain = -against.cost_share;
    let staying = gain_where_timers_stay(inputs, of, question, aim, knobs);
    Some(Choice {
        knobs,
        gain: staying.filter(|it| it.value < gain.value).unwrap_or(gain),
        more_poll_cpu_percent: against.poll_cpu_percent.value,
        worst_ns_per_s: recorded.worst_ns_per_s(latest_ns(inputs), knobs, &aim.cost),
    })
}

/// The gain if no timer came the sooner for a vCPU that wakes late, where nothing recorded shows whether timers do; no more
/// than that is promised. A timer that is rearmed after each wake-up does not come sooner; for a vCPU that has hardly slept it is
/// not known.
fn gain_where_timers_stay(
    inputs: &Inputs,
    of: &FinalRound,
    question: &Question,
    aim: &Aim,
    knobs: Knobs,
) -> Option<Interval> {
    let doubt = Doubt::Staying;
    if !doubt.is_asked(inputs) {
        return None;
    }
    let part = Part::Doubted(doubt);
    // From the start that counts: polling or not, both may go on for ever.
    let entry = Entry {
        start: of.in_force.start,
        ..Entry::new(question.in_force)
    };
    let in_force = blocks(inputs, entry, part);
    let [_, chosen] = both(inputs, knobs, aim, part);
    Some(-advice::compare(inputs, &chosen, &in_force, aim).cost_share)
}

#[cfg(test)]
mod test {
    use super::super::super::evidence::{Answer, Evidence, OfVm};
    use super::super::super::input::Scope;
    use super::super::test::{self, polled};
    use super::super::{Replayed, Stretch};
    use super::*;
    use crate::event::{Halt, WakeSource};
    use crate::ids::VmKey;

    /// A vCPU that polls for all of its halts, 20 of one length and 60 of another in turn.
    fn in_turn([one_ns, other_ns]: [u64; 2], wake: WakeSource) -> Stretch {
        polled(
            8_000,
            wake,
            |nth| {
                if nth % 80 < 20 { one_ns } else { other_ns }
            },
        )
    }

    fn question(weight_milli: u64) -> Question {
        test::question(Scope::Vm(VmKey::default()), weight_milli)
    }

    fn answer(stretch: &Stretch, tried: &[&Stretch], question: &Question) -> Answer {
        let vm = OfVm {
            tried: tried.to_vec(),
            ..test::vm(question.weight_milli, vec![stretch])
        };
        test::calibrated(5_000).weigh(&[vm], question).unwrap()
    }

    fn chosen(stretch: &Stretch, question: &Question) -> Choice {
        let answer = answer(stretch, &[], question);
        answer
            .choice
            .unwrap_or_else(|| panic!("{}", answer.verdict))
    }

    /// A trial showed that the VM wakes 60 us late where 20 us are calibrated: what gains by the calibration is not tried again.
    #[test]
    fn what_a_trial_showed_of_wake_ups_counts() {
        let stretch = in_turn([50_000, 50_000], WakeSource::Timer);
        let slept = |halt: &Halt| Halt {
            halt_ns: halt.halt_ns + 60_000,
            waited: true,
            window_ns: Some(0),
            poll_ns: Some(0),
            polled: Some(false),
            wake_latency_ns: Some(60_000),
            ..*halt
        };
        let tried = Stretch {
            halts: stretch.halts.iter().map(slept).collect(),
            ..stretch.clone()
        };
        let tried = Replayed::excerpt(&tried);
        assert_eq!(tried.halts.len(), 256);
        let last_ns = tried.halts.last().map(|halt| halt.start_ns);
        assert!(
            last_ns > Some(tried.span_ns / 4 * 3),
            "of all of it: {last_ns:?}"
        );
        let gain = |tried: &[&Stretch]| {
            let choice = answer(&stretch, tried, &question(1_000)).choice;
            choice.map_or(0.0, |choice| choice.gain.value)
        };
        assert!(gain(&[]) > 0.4, "{}", gain(&[]));
        assert!(gain(&[&tried]) <= 0.0, "{}", gain(&[&tried]));
    }

    #[test]
    fn no_setting_polls_more_than_the_limit() {
        let stretch = in_turn([60_000, 190_000], WakeSource::Unknown);
        let question = Question {
            max_poll_cpu_percent: Some(5.0),
            ..question(10_000)
        };
        let limited = chosen(&stretch, &question);
        // It polls for 157.5 of 162.5 us.
        let polled_percent = 96.9 + limited.more_poll_cpu_percent;
        assert!(polled_percent <= 5.0, "{limited:?}");
    }

    /// Where the best lies above the highest ceiling that may be set, the best of those below it is taken; of VMs and of the host.
    #[test]
    fn a_lower_setting_is_chosen_where_the_best_may_not_be_set() {
        let stretch = in_turn([10_000, 190_000], WakeSource::Unknown);
        let chosen = |scope, max_ceiling_ns| {
            let question = Question {
                scope,
                max_ceiling_ns,
                ..question(1_000)
            };
            chosen(&stretch, &question)
        };
        for scope in [Scope::Vm(VmKey::default()), Scope::Host] {
            let free = chosen(scope, 1_000_000);
            let limit_ns = free.knobs.halt_poll_ns - 1;
            let limited = chosen(scope, limit_ns);
            assert!(limited.knobs.halt_poll_ns <= limit_ns, "{limited:?}");
            assert!(limited.gain.low > 0.0, "{limited:?}");
        }
    }

    /// Polls of a load that succeed are more polling than none, whichever of both was found.
    #[test]
    fn how_much_more_is_polled_than_as_found_is_known() {
        let stretch = in_turn([50_000, 50_000], WakeSource::Unknown);
        let more = |found_ns| {
            let same = question(0);
            let found = Knobs {
                halt_poll_ns: found_ns,
                ..same.found
            };
            let question = Question { found, ..same };
            answer(&stretch, &[], &question).more_poll_than_found_percent
        };
        assert!((more(200_000)).abs() < 1e-9);
        // 50 of each 55 us.
        assert!((more(0) - 91.0).abs() < 1.0, "{}", more(0));
    }

    /// Under 0 a timer that comes at its time has come already after each other sleep, and costs nothing: half of what it costs
    /// where it is rearmed. Halts that polled do not show which it is.
    #[test]
    fn of_timers_no_more_is_promised_than_if_gaps_stayed() {
        let lengths = [15_000, 15_000];
        let gain = |wake| chosen(&in_turn(lengths, wake), &question(0)).gain.value;
        let (timer, device) = (gain(WakeSource::Timer), gain(WakeSource::Device));
        assert!((timer - device).abs() < 0.01, "{timer} {device}");
        assert!((timer - 2.0 / 3.0).abs() < 0.02, "{timer}");
    }
}
