//! Laws of the policies, each in one sentence.

use proptest::prelude::*;

use super::super::*;
use super::every_policy;
use super::model::{build, seen, setting, walk};

fn ns() -> impl Strategy<Value = u64> {
    prop_oneof![
        1 => Just(0),
        2 => 1..20_u64,
        8 => 1..1_000_000_u64,
        2 => 0..1_u64 << 36,
        1 => any::<u64>(),
        1 => Just(u64::MAX),
    ]
}

prop_compose! {
    fn any_seen()(
        halt_ns in ns(), poll_ns in ns(), wake_latency_ns in ns(), waited in any::<bool>(),
        valid in any::<bool>(),
    ) -> Seen {
        Seen { halt_ns, poll_ns, wake_latency_ns, waited, valid }
    }
}

proptest! {
    /// With factor 1, divisor 1 and the start at the ceiling, KVM's rule is a fixed threshold from the
    /// first halt on that is shorter, and nothing before.
    #[test]
    fn kvm_can_be_set_to_any_fixed_threshold(
        gaps in proptest::collection::vec(ns(), 0..200), threshold_ns in 2..2_000_000_u64,
    ) {
        let text = format!("kvm:max={threshold_ns}ns,grow=1,grow_start={threshold_ns}ns,shrink=1");
        let windows = walk(build(&text, &setting(30_000)).as_mut(), &gaps);
        let shorter = |gap: &u64| 0 < *gap && *gap < threshold_ns;
        let armed = gaps.iter().position(shorter).map_or(windows.len(), |halt| halt + 1);
        prop_assert!(windows[..armed].iter().all(|window| *window == 0), "{:?}", windows);
        prop_assert!(windows[armed..].iter().all(|window| *window == threshold_ns), "{:?}", windows);
    }

    /// A policy answers on any input, true or not, and gives the same answer each time.
    #[test]
    fn nothing_upsets_a_policy(
        halts in proptest::collection::vec((proptest::option::of(ns()), any_seen()), 0..40),
        break_even_ns in ns(), at_ceiling in any::<bool>(),
    ) {
        let start = if at_ceiling { Start::Ceiling } else { Start::Zero };
        let setting = Setting { start, ..setting(break_even_ns) };
        let run = |mut policy: Box<dyn Policy>| -> Vec<u64> {
            let answer = |(best_ns, seen): &(Option<u64>, Seen)| {
                let window_ns = policy.window(*best_ns);
                policy.learn(seen);
                window_ns
            };
            halts.iter().map(answer).collect()
        };
        for ((name, one), (_, other)) in every_policy(&setting).into_iter().zip(every_policy(&setting)) {
            prop_assert_eq!(run(one), run(other), "{}", name);
        }
    }

    /// A constant gap that is worth polling is polled for always, and one that is not never, a few halts in.
    #[test]
    fn constant_gaps_are_learned(gap_ns in 1_000..1_000_000_u64, latency_ns in 1_000..350_000_u64) {
        let block_ns = 2 * latency_ns;
        // Polls lower the price a little, and with it the windows.
        prop_assume!([1, 2, 4].iter().all(|part| gap_ns.abs_diff(block_ns * part / 4) > 1_000));
        for text in ["leader", "payback"] {
            let mut policy = build(text, &setting(0));
            for halt in 0..20 {
                let window_ns = policy.window(None);
                let polls = window_ns >= gap_ns;
                prop_assert!(halt < 4 || polls == (gap_ns < block_ns), "{text} {window_ns}");
                policy.learn(&seen(gap_ns, window_ns, latency_ns));
            }
        }
    }
}
