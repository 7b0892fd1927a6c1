//! The bound, a second model, and the edges of the rule.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::super::test::model::{build, seen, setting};
use super::super::test::worst::{BLOCK, rounded, worst};
use super::*;
use crate::policy::Setting;

#[test]
fn no_gaps_cost_more_than_the_bound() {
    let all = windows(BLOCK, u32::MAX);
    let after = |debts: &Debts, gap: u32| {
        let mut debts = *debts;
        charge(&mut debts, all, gap.into(), BLOCK, 4);
        debts.map(|debt| u32::try_from(rounded(debt.into())).unwrap())
    };
    let worst = worst([0; 4], |debts| window(debts, all), after);
    worst.print();
    assert!((2.743..2.745).contains(&worst.ratio), "{worst:?}");
}

/// The rule in the words of its description, with a queue of outcomes and signed numbers of any size.
struct Model {
    max: i128,
    price: i128,
    debts: [[i128; 4]; 4],
    outcomes: VecDeque<bool>,
}

impl Model {
    fn context(&mut self) -> &mut [i128; 4] {
        let number = usize::from(self.outcomes[0]) * 2 + usize::from(self.outcomes[1]);
        &mut self.debts[number]
    }

    fn window(&mut self) -> i128 {
        let first = self.context().iter().position(|debt| *debt == 0).unwrap();
        (2 * self.price * [0, 1, 2, 4][first] / 4).min(self.max)
    }

    fn learn(&mut self, seen: &Seen) {
        let (gap, block, max) = (i128::from(seen.gap_ns()), 2 * self.price, self.max);
        let debts = self.context();
        for (quarters, debt) in [0, 1, 2, 4].into_iter().zip(&mut *debts) {
            let window = (block * quarters / 4).min(max);
            *debt += if gap <= window { gap } else { window + block };
        }
        let least = *debts.iter().min().unwrap();
        for debt in debts {
            *debt = (*debt - least).min(16 * block);
        }
        self.outcomes.pop_front();
        self.outcomes.push_back(gap <= block);
        let latency = i128::from(seen.wake_latency_ns).clamp(1_000, 350_000);
        if !seen.waited && seen.poll_ns > 0 && self.price > 1_000 {
            self.price -= self.price / 16_384 + 1;
        }
        let is_known = seen.waited && seen.wake_latency_ns > 0;
        if is_known && self.price == 0 {
            self.price = latency;
        } else if is_known && latency < self.price {
            self.price -= (self.price - latency) / 4;
        } else if is_known {
            self.price += (latency - self.price) / 32;
        }
    }
}

fn halts() -> impl Strategy<Value = Vec<(u64, u64, bool)>> {
    let gap_ns = prop_oneof![4 => 0..100_000_u64, 2 => 0..2_000_000_u64, 1 => any::<u64>()];
    let latency_ns = prop_oneof![4 => 5_000..60_000_u64, 1 => 0..20_000_000_u64, 1 => Just(0)];
    prop::collection::vec((gap_ns, latency_ns, prop::bool::weighted(0.9)), 0..400)
}

proptest! {
    #[test]
    fn it_does_what_its_description_says(
        halts in halts(), max_ns in prop_oneof![Just(0), 1..200_000_u32, Just(u32::MAX)],
    ) {
        let mut policy = build(&format!("leader:max={max_ns}ns"), &setting(0));
        let outcomes = VecDeque::from([false; 2]);
        let mut model = Model { max: max_ns.into(), price: 0, debts: [[0; 4]; 4], outcomes };
        for (gap_ns, latency_ns, valid) in halts {
            let window_ns = policy.window(None);
            prop_assert_eq!(i128::from(window_ns), model.window());
            prop_assert!(window_ns <= max_ns.into());
            let seen = Seen { valid, ..seen(gap_ns.min(1 << 62), window_ns, latency_ns) };
            let before = format!("{policy:?}");
            policy.learn(&seen);
            if valid {
                model.learn(&seen);
            } else {
                prop_assert_eq!(before, format!("{policy:?}"), "an invalid wake-up teaches nothing");
            }
        }
    }

    /// A poll that another task cuts short teaches what the same halt would have taught without polling.
    #[test]
    fn how_long_a_halt_polled_teaches_nothing(halts in halts(), cut_ns in 0..50_000_u64) {
        let [mut cut, mut whole] = ["leader"; 2].map(|name| build(name, &setting(0)));
        for (gap_ns, latency_ns, _) in halts {
            let window_ns = whole.window(None);
            prop_assert_eq!(cut.window(None), window_ns);
            // A gap of 0 sleeps under no window: no poll of it can be cut.
            let slept = seen(gap_ns.clamp(1, 1 << 62), 0, latency_ns);
            whole.learn(&slept);
            cut.learn(&Seen { poll_ns: window_ns.min(cut_ns), ..slept });
        }
    }
}

/// Two gaps that pay and one that does not, in turn: after a few rounds each gets its own window.
#[test]
fn gaps_that_take_turns_are_told_apart() {
    let mut policy = build("leader", &setting(0));
    let mut failed_ns = 0;
    for turn in 0..600 {
        let gap_ns = [12_000, 12_000, 2_000_000][turn % 3];
        let window_ns = policy.window(None);
        policy.learn(&seen(gap_ns, window_ns, 20_000));
        if turn >= 60 && gap_ns > window_ns {
            assert_eq!(gap_ns, 2_000_000, "{turn}");
            failed_ns += window_ns;
        }
    }
    assert_eq!(failed_ns, 0);
}

/// A price learned while all sleeps were disturbed ends, though no gap is longer than it.
#[test]
fn a_price_that_is_too_high_does_not_stay() {
    for text in ["leader", "payback"] {
        let setting = Setting {
            start: Start::Ceiling,
            ..setting(700_000)
        };
        let mut policy = build(text, &setting);
        let polled = (0..60_000).filter(|_| {
            let window_ns = policy.window(None);
            policy.learn(&seen(125_000, window_ns, 20_000));
            window_ns > 0
        });
        assert!((20_000..40_000).contains(&polled.count()), "{text}");
        assert_eq!(policy.window(None), 0, "{text}");
    }
}

#[test]
fn it_starts_without_a_window_or_with_its_longest() {
    let first = |text: &str, start| {
        let setting = Setting {
            start,
            ..setting(56_000)
        };
        build(text, &setting).window(None)
    };
    assert_eq!(first("leader", Start::Zero), 0);
    assert_eq!(first("leader", Start::Ceiling), 56_000);
    assert_eq!(first("leader:max=30us", Start::Ceiling), 30_000);
    assert_eq!(first("leader:max=0", Start::Ceiling), 0);
}
