//! A governor that follows the rule, as a recorder tells of it, and what differs from it.

use super::*;
use crate::kvm::Version;
use crate::kvm::guest::Params;
use proptest::prelude::*;

/// A guest whose governor is the rule, and what a recorder tells of it.
struct Governor {
    rule: Rule,
    params: Params,
    limit_ns: u32,
    last: Last,
    now_ns: u64,
}

impl Governor {
    fn new(params: Params) -> Self {
        Self {
            rule: Rule::of(Version::LAST_READ).unwrap(),
            params,
            limit_ns: 0,
            last: Last::Halt { residency_ns: 0 },
            now_ns: 1_000,
        }
    }

    /// A gap of the guest's world, as a period.
    fn idle(&mut self, gap_ns: u64) -> (Halt, Option<WindowChange>) {
        let limit_ns = self.limit_ns;
        let polled = select(limit_ns, self.last, 1) == State::Poll;
        let met = polled && gap_ns <= u64::from(limit_ns);
        let poll_ns = u64::from(polled) * gap_ns.min(u64::from(limit_ns) + 1);
        let halt_ns = if met { gap_ns } else { gap_ns.max(poll_ns + 1) };
        let residency_ns = halt_ns - poll_ns;
        self.last = if met {
            Last::Poll { timed_out: false }
        } else {
            Last::Halt { residency_ns }
        };
        let adjusted = self.rule.reflect(&self.params, limit_ns, self.last);
        self.limit_ns = adjusted.limit_ns;
        let halt = Halt {
            start_ns: self.now_ns,
            halt_ns,
            waited: !met,
            window_ns: Some(limit_ns),
            window_next_ns: Some(adjusted.limit_ns),
            change: adjusted.call.into(),
            poll_ns: Some(poll_ns),
            polled: Some(polled),
            ..Halt::default()
        };
        self.now_ns += halt_ns + 1_000;
        let row = adjusted.call.map(|call| call.row(&halt));
        (halt, row)
    }
}

fn verifier(params: Params) -> Verifier {
    Verifier::new(Setup {
        rule: Rule::of(Version::LAST_READ).unwrap(),
        settings: Settings::fixed(params),
        losses: Losses::default(),
    })
}

prop_compose! {
    fn any_params()(
        guest_halt_poll_ns in prop_oneof![Just(0), 1..400_000_u32], grow in 0..4_u32,
        grow_start in 0..300_000_u32, shrink in 0..4_u32, allow_shrink in any::<bool>(),
    ) -> Params {
        Params { guest_halt_poll_ns, grow, grow_start, shrink, allow_shrink }
    }
}

proptest! {
    /// Whatever a governor that follows the rule does is a match, but for a CPU's first period.
    #[test]
    fn the_rule_matches_itself(params in any_params(), gaps in prop::collection::vec(1..900_000_u64, 1..80)) {
        let mut governor = Governor::new(params);
        let mut verifier = verifier(params);
        for gap_ns in &gaps {
            let (halt, row) = governor.idle(*gap_ns);
            verifier.period(&halt, row.as_ref());
        }
        let tally = verifier.tally();
        prop_assert_eq!(tally.differences(), 0);
        prop_assert_eq!(tally.checked.checked, gaps.len() as u64 - 1);
    }

    /// A limit that is off by a nanosecond, a call that was not made, and a poll that was not due are differences.
    #[test]
    fn what_the_rule_does_not_do_differs(params in any_params(), gaps in prop::collection::vec(1..900_000_u64, 3..40), which: prop::sample::Index, how in 0..3) {
        let mut governor = Governor::new(params);
        let mut verifier = verifier(params);
        let which = 1 + which.index(gaps.len() - 1);
        for (place, gap_ns) in gaps.iter().enumerate() {
            let (mut halt, mut row) = governor.idle(*gap_ns);
            if place == which {
                match how {
                    0 => halt.window_next_ns = halt.window_next_ns.map(|ns| ns + 1),
                    1 if row.is_some() => (row, halt.change) = (None, WindowCall::None),
                    // Where the limit is 0, a latency limit of 0 may be why.
                    _ if halt.window_ns != Some(0) => halt.polled = halt.polled.map(|polled| !polled),
                    _ => halt.window_ns = Some(7),
                }
                let verdict = verifier.period(&halt, row.as_ref());
                prop_assert!(matches!(verdict, Verdict::Differs(_)), "{:?} {:?}", halt, verdict);
                return Ok(());
            }
            verifier.period(&halt, row.as_ref());
        }
    }
}

/// A period of 150 us under a limit of 100 us that stays.
fn period(start_ns: u64, waited: bool, poll_ns: Option<u64>) -> Halt {
    Halt {
        start_ns,
        halt_ns: 150_000,
        waited,
        window_ns: Some(100_000),
        window_next_ns: Some(100_000),
        poll_ns,
        polled: Some(true),
        ..Halt::default()
    }
}

#[test]
fn after_a_poll_that_its_limit_may_have_ended_either_choice_is_the_rules() {
    let period = |start_ns, polled, waited, poll_ns, halt_ns| Halt {
        halt_ns,
        polled: Some(polled),
        ..period(start_ns, waited, Some(poll_ns))
    };
    for (poll_ns, at_once, expected) in [
        (100_050, true, true),
        (100_050, false, true),
        (99_000, true, false),
        (99_000, false, true),
    ] {
        let mut verifier = verifier(Params::default());
        verifier.period(&period(0, true, true, 100_001, 150_001), None);
        verifier.period(&period(1_000_000, true, false, poll_ns, poll_ns), None);
        let (poll_ns, halt_ns) = if at_once {
            (0, 60_000)
        } else {
            (100_001, 160_000)
        };
        let next = period(2_000_000, !at_once, true, poll_ns, halt_ns);
        let verdict = verifier.period(&next, None);
        let matched = matches!(verdict, Verdict::Matched(_));
        assert_eq!(matched, expected, "{poll_ns} {at_once}");
    }
}

#[test]
fn without_cpuidles_own_numbers_calls_are_checked_and_times_need_not_be_exact() {
    let params = Params {
        guest_halt_poll_ns: 0,
        ..Params::default()
    };
    let mut verifier = verifier(params);
    let period = |start_ns| Halt {
        start_ns,
        halt_ns: 5_000,
        waited: true,
        poll_ns: Some(0),
        polled: Some(false),
        change: WindowCall::Shrink,
        ..Halt::default()
    };
    let (grow, old) = (false, 0);
    let call = |new| Call { grow, old, new }.row(&period(0));
    verifier.period(&period(0), Some(&call(0)));
    let matched = verifier.period(&period(10_000), Some(&call(0)));
    assert_eq!(matched, Verdict::Matched(Transition::Shrink));
    let differs = verifier.period(&period(20_000), Some(&call(3)));
    assert!(matches!(differs, Verdict::Differs(_)), "{differs:?}");
}

#[test]
fn a_poll_of_unknown_length_is_checked_and_a_halt_after_one_is_not() {
    let mut verifier = verifier(Params::default());
    verifier.period(&period(0, true, Some(100_001)), None);
    let poll = verifier.period(&period(1_000_000, false, None), None);
    assert_eq!(poll, Verdict::Matched(Transition::None));
    let halt = verifier.period(&period(2_000_000, true, None), None);
    assert_eq!(halt, Verdict::Skipped(Skip::Window));
}
