//! The plain peer: the obvious loop over settings and halts, with the reference model.

use haltwise_core::kvm::{Observed, Rule};
use haltwise_core::replay::Sample;
use haltwise_core::replay::grid::Choice;
use haltwise_core::replay::latency::{Table, class_of};

/// Sums over all settings, on which all peers must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sums {
    pub(crate) blocks: u64,
    pub(crate) poll_ns: u64,
    pub(crate) latency_ns: u64,
}

/// Plays halts with gaps as recorded and polls that no task cut.
pub(crate) fn play(rule: Rule, choices: &[Choice], samples: &[Sample], table: &Table) -> Sums {
    let mut sums = Sums::default();
    for choice in choices {
        let ceiling = choice.ceiling_ns;
        let mut window = choice.start.window(ceiling);
        for (turn, sample) in (0..).zip(samples) {
            window = rule.entry(window, ceiling);
            let window_ns = u64::from(window);
            let mut halt_ns = sample.gap_ns;
            if sample.gap_ns <= window_ns {
                sums.poll_ns += sample.gap_ns;
            } else {
                let latency_ns = latency(sample, sample.gap_ns - window_ns, table, turn);
                sums.blocks += 1;
                sums.poll_ns += window_ns;
                sums.latency_ns += latency_ns;
                halt_ns += latency_ns;
            }
            window = rule
                .after(&choice.knobs, ceiling, window, Observed::valid(halt_ns))
                .window;
        }
    }
    sums
}

/// The latency of a sleep: its own where it is as long, else the one whose turn it is.
pub(crate) fn latency(sample: &Sample, slept_ns: u64, table: &Table, turn: u64) -> u64 {
    let class = class_of(slept_ns);
    if sample.slept_class() == class {
        sample.latency_ns
    } else {
        table.at(class, turn).0
    }
}
