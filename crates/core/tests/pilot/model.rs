//! Loads, what they cost under a ceiling, and evidence that may be wrong.

use haltwise_core::kvm::{Arch, Knobs, Rule, Version};
use haltwise_core::pilot::errors::Errors;
use haltwise_core::pilot::evidence::{Answer, Choice, EXCERPT, Evidence, Measured, OfVm, Question};
use haltwise_core::pilot::memory::Memory;
use haltwise_core::pilot::{Limits, Setup};
use haltwise_core::replay::Cost;
use haltwise_core::stats::Interval;
use haltwise_core::tune::candidates::CEILINGS_NS;
use haltwise_core::workload::SplitMix64;

/// A wake-up takes so long, and costs so much CPU.
const LATENCY_NS: f64 = 20_000.0;
const SWITCH_NS: f64 = 10_000.0;

pub(crate) const COST: Cost = Cost {
    switch_cpu_ns: 10_000,
    latency_weight_milli: 1_000,
    ..Cost::FREE
};

/// A pilot on a kernel that has all.
pub(crate) fn setup(
    evidence: Modelled,
    memory: Memory,
    limits: Limits,
    seed: u64,
) -> Setup<Modelled> {
    Setup {
        evidence,
        rule: Rule::of(Version::new(6, 12), Arch::X86),
        limits,
        memory,
        proofs: Errors::default(),
        seed,
    }
}

/// The host's parameters, of which that one is set.
pub(crate) fn knobs(halt_poll_ns: u32) -> Knobs {
    Knobs {
        halt_poll_ns,
        ..Knobs::defaults(Version::new(6, 12), Arch::X86)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Load {
    pub(crate) halts_per_s: f64,
    pub(crate) gap_ns: f64,
    /// Gaps are all alike; else they are exponential.
    pub(crate) is_fixed: bool,
}

impl Load {
    /// One of those that the benchmarks have: idle, ticking, request and response, bulk.
    pub(crate) fn draw(draw: &mut SplitMix64) -> Self {
        let kinds = [
            (20.0, 3_000_000.0, false),
            (250.0, 3_900_000.0, true),
            (12_000.0, 15_000.0, true),
            (8_000.0, 50_000.0, true),
            (4_500.0, 150_000.0, true),
            (8_000.0, 125_000.0, true),
            (9_000.0, 60_000.0, false),
            (900.0, 8_000.0, false),
        ];
        let kind = usize::try_from(draw.below(kinds.len() as u64)).unwrap();
        let (halts_per_s, gap_ns, is_fixed) = kinds[kind];
        let vary = 0.8 + 0.4 * draw.unit();
        Self {
            halts_per_s: halts_per_s * vary,
            gap_ns: gap_ns * (0.8 + 0.4 * draw.unit()),
            is_fixed,
        }
    }

    /// Polling and all that a halt costs under a ceiling, in nanoseconds.
    pub(crate) fn cost_ns(&self, ceiling_ns: u32) -> (f64, f64) {
        let ceiling = f64::from(ceiling_ns);
        let sleep = SWITCH_NS + LATENCY_NS;
        if self.is_fixed {
            return if ceiling >= self.gap_ns + LATENCY_NS {
                (self.gap_ns, self.gap_ns)
            } else {
                // The window grows in vain now and then.
                let vain = (ceiling / 10.0).min(self.gap_ns);
                (vain, vain + sleep)
            };
        }
        let slept = (-ceiling / self.gap_ns).exp();
        let poll = self.gap_ns * (1.0 - slept);
        (poll, poll + slept * sleep)
    }

    /// All that its halts cost in a second.
    pub(crate) fn per_s(&self, ceiling_ns: u32) -> f64 {
        self.halts_per_s * self.cost_ns(ceiling_ns).1
    }

    pub(crate) fn polled_cpus(&self, ceiling_ns: u32) -> f64 {
        self.halts_per_s * self.cost_ns(ceiling_ns).0 / 1e9
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Chunk {
    pub(crate) load: Load,
    pub(crate) ceiling_ns: u32,
    pub(crate) span_ns: u64,
    /// Effect of the host's noise on the chunk, as a factor.
    pub(crate) noise: f64,
    /// Halts that it holds.
    pub(crate) halts: usize,
}

/// Evidence: what replays would say. `bias` is by how much their gains are wrong.
#[derive(Debug)]
pub(crate) struct Modelled {
    pub(crate) bias: f64,
    pub(crate) seed: SplitMix64,
    /// A setting that is said to poll more polls less in truth, and the reverse.
    pub(crate) is_inverted: bool,
}

impl Modelled {
    pub(crate) fn right(seed: u64) -> Self {
        Self::wrong_by(0.0, seed)
    }

    pub(crate) fn wrong_by(bias: f64, seed: u64) -> Self {
        Self {
            bias,
            seed: SplitMix64(seed),
            is_inverted: false,
        }
    }
}

impl Evidence for Modelled {
    type Chunk = Chunk;

    fn learn(&mut self, _: &Chunk) {}

    fn excerpt(chunk: &Chunk) -> Chunk {
        Chunk {
            halts: chunk.halts.min(EXCERPT),
            ..*chunk
        }
    }

    fn size(chunk: &Chunk) -> usize {
        chunk.halts
    }

    fn weigh(&mut self, vms: &[OfVm<'_, Chunk>], question: &Question) -> Option<Answer> {
        let chunks: Vec<Chunk> = vms
            .iter()
            .filter_map(|vm| vm.chunks.last().map(|chunk| **chunk))
            .collect();
        if chunks.is_empty() {
            return None;
        }
        let sum = |of: &dyn Fn(&Chunk) -> f64| chunks.iter().map(of).sum::<f64>();
        let halts_per_s = sum(&|chunk| chunk.load.halts_per_s);
        let cost = |ceiling_ns: u32| sum(&|chunk| chunk.load.per_s(ceiling_ns));
        let poll = |ceiling_ns: u32| 100.0 * sum(&|chunk| chunk.load.polled_cpus(ceiling_ns));
        let in_force = question.in_force.halt_poll_ns;
        let now = cost(in_force);
        // A setting that looks best may be the one that is predicted worst.
        let mut wrong = |ns: u32| {
            (
                cost(ns) * (self.bias * (2.0 * self.seed.unit() - 1.0)).exp(),
                ns,
            )
        };
        let found = question.found.halt_poll_ns;
        let found_ratio = if found == in_force {
            Interval::around(1.0, 0.0)
        } else {
            Interval::around(wrong(found).0 / now, 0.01)
        };
        let may = question.max_poll_cpu_percent.unwrap_or(f64::INFINITY);
        let idle = question.idle_cpu_percent.unwrap_or(f64::INFINITY);
        let most = may.min(idle + poll(in_force));
        let allowed = CEILINGS_NS.into_iter().filter(|ns| {
            let is_within = *ns <= question.max_ceiling_ns && poll(*ns) <= most;
            is_within && *ns != in_force
        });
        let predicted = allowed.map(&mut wrong);
        let predicted = predicted.min_by(|a, b| a.0.total_cmp(&b.0));
        let (predicted, best) = predicted.unwrap_or((now, in_force));
        let gain = 1.0 - predicted / now;
        let sign = if self.is_inverted { -1.0 } else { 1.0 };
        let worst = sum(&|chunk| {
            let polled = (chunk.load.gap_ns + LATENCY_NS).min(f64::from(best));
            chunk.load.halts_per_s * (polled + SWITCH_NS + 2.0 * LATENCY_NS)
        });
        let choice = Choice {
            knobs: Knobs {
                halt_poll_ns: best,
                ..question.in_force
            },
            gain: Interval::around(gain, 0.03),
            more_poll_cpu_percent: sign * (poll(best) - poll(in_force)),
            worst_ns_per_s: (worst - now).max(0.0),
        };
        Some(Answer {
            cost: COST,
            cost_per_halt_ns: now / halts_per_s,
            halts_per_s,
            latency_mean_ns: LATENCY_NS,
            gap_mean_ns: sum(&|chunk| chunk.load.gap_ns) / chunks.len() as f64,
            found_ratio,
            more_poll_than_found_percent: sign * (poll(in_force) - poll(found)),
            choice: (gain > 0.02).then_some(choice),
            verdict: "no setting is better",
        })
    }

    fn measure(&mut self, vms: &[OfVm<'_, Chunk>], other: Knobs, _: &Cost) -> Option<Measured> {
        let chunks = || vms.iter().flat_map(|vm| vm.chunks.iter());
        let seconds = |chunk: &Chunk| chunk.span_ns as f64 / 1e9;
        let halts: f64 = chunks()
            .map(|chunk| chunk.load.halts_per_s * seconds(chunk))
            .sum();
        let own = |chunk: &Chunk| chunk.load.per_s(chunk.ceiling_ns) * chunk.noise * seconds(chunk);
        let cost_ns: f64 = chunks().map(|chunk| own(chunk)).sum();
        let wrong = 1.0 + self.bias * (2.0 * self.seed.unit() - 1.0);
        let theirs: f64 = chunks()
            .map(|chunk| chunk.load.per_s(other.halt_poll_ns) * wrong * seconds(chunk))
            .sum();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count"
        )]
        let whole = halts as u64;
        (halts >= 1.0).then(|| Measured {
            halts: whole,
            cost_ns,
            per_halt_ns: Some(cost_ns / halts),
            predicted_per_halt_ns: Some(theirs / halts),
            span_ns: chunks().map(|chunk| chunk.span_ns).max().unwrap_or(0),
        })
    }
}
