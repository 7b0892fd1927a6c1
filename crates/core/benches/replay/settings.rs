//! The grid of settings: what a search looks through.

use haltwise_core::kvm::{Arch, Knobs, Rule, Version};
use haltwise_core::policy::Start;
use haltwise_core::replay::grid::Choice;

const CEILINGS: [u32; 16] = [
    0, 10, 20, 30, 40, 50, 75, 100, 125, 150, 200, 250, 300, 400, 500, 1_000,
];

pub(crate) fn rule() -> Rule {
    Rule::of(Version::new(6, 12), Arch::X86)
}

/// 1024 settings: ceilings, first windows, factors, divisors (one no power of two), starts.
pub(crate) fn choices() -> Vec<Choice> {
    let mut choices = Vec::new();
    for ceiling_us in CEILINGS {
        for grow_start_us in [5, 10, 20, 50] {
            for (grow, shrink) in [2, 4]
                .into_iter()
                .flat_map(|grow| [0, 2, 3, 4].map(|n| (grow, n)))
            {
                for start in [Start::Zero, Start::Ceiling] {
                    let ceiling_ns = ceiling_us * 1_000;
                    let knobs = Knobs {
                        halt_poll_ns: ceiling_ns,
                        grow,
                        grow_start: grow_start_us * 1_000,
                        shrink,
                    };
                    choices.push(Choice {
                        knobs,
                        ceiling_ns,
                        start,
                    });
                }
            }
        }
    }
    choices
}
