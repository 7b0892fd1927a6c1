//! Loads, their cost under a ceiling, and replays of them that may be wrong.

use haltwise_core::kvm::{Arch, Knobs, Version};
use haltwise_core::pilot::evidence::{Answer, Choice, EXCERPT, Evidence, Measured, OfVm, Question};
use haltwise_core::pilot::input::Counts;
use haltwise_core::replay::Cost;
use haltwise_core::stats::Interval;
use haltwise_core::tune::candidates::CEILINGS_NS;
use haltwise_core::workload::SplitMix64;

/// Latency of a wake-up, and CPU time of a sleep.
const LATENCY_NS: f64 = 20_000.0;
const SWITCH_NS: f64 = 10_000.0;

const COST: Cost = Cost {
    switch_cpu_ns: 10_000,
    latency_weight_milli: 1_000,
    ..Cost::FREE
};

/// The default parameters with another ceiling.
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
    /// All gaps are equal; else they are exponential.
    pub(crate) is_fixed: bool,
}

/// A poll of that length costs more than a block: best without polling.
pub(crate) const EACH_150_US: Load = fixed(4_500.0, 150_000.0);
pub(crate) const TICKING: Load = fixed(250.0, 3_900_000.0);
/// A poll of that length costs less than a block: best polled.
pub(crate) const EACH_15_US: Load = fixed(12_000.0, 15_000.0);

pub(crate) const fn fixed(halts_per_s: f64, gap_ns: f64) -> Load {
    Load {
        halts_per_s,
        gap_ns,
        is_fixed: true,
    }
}

impl Load {
    /// Idle, ticking, request and response, or bulk.
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
        let (halts_per_s, gap_ns, is_fixed) = one_of(draw, kinds);
        Self {
            halts_per_s: halts_per_s * (0.8 + 0.4 * draw.unit()),
            gap_ns: gap_ns * (0.8 + 0.4 * draw.unit()),
            is_fixed,
        }
    }

    /// Polling of a halt under a ceiling, in nanoseconds, and the share of halts that sleep.
    fn halt(&self, ceiling_ns: u32) -> [f64; 2] {
        let ceiling = f64::from(ceiling_ns);
        if !self.is_fixed {
            let slept = (-ceiling / self.gap_ns).exp();
            return [self.gap_ns * (1.0 - slept), slept];
        }
        if ceiling >= self.gap_ns + LATENCY_NS {
            return [self.gap_ns, 0.0];
        }
        // The window grows without success now and then.
        [(ceiling / 10.0).min(self.gap_ns), 1.0]
    }

    /// Cost of a second of its halts.
    pub(crate) fn per_s(&self, ceiling_ns: u32) -> f64 {
        let [polled, slept] = self.halt(ceiling_ns);
        self.halts_per_s * (polled + slept * (SWITCH_NS + LATENCY_NS))
    }

    /// Polling, in % of one CPU.
    pub(crate) fn polled_percent(&self, ceiling_ns: u32) -> f64 {
        self.halts_per_s * self.halt(ceiling_ns)[0] / 1e7
    }

    /// KVM's counts of an interval in which it halts so many times as often.
    pub(crate) fn counts(&self, ceiling_ns: u32, interval_ns: u64, times: f64) -> Counts {
        let halts = self.halts_per_s * times * interval_ns as f64 / 1e9;
        let [polled, slept] = self.halt(ceiling_ns);
        Counts {
            interval_ns,
            halts: whole(halts),
            blocks: whole(halts * slept),
            poll_ns: whole(halts * polled),
            failed_poll_ns: 0,
            halt_ns: whole(halts * (self.gap_ns + slept * LATENCY_NS)),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts"
)]
fn whole(of: f64) -> u64 {
    of as u64
}

pub(crate) fn one_of<T: Copy, const N: usize>(draw: &mut SplitMix64, of: [T; N]) -> T {
    of[usize::try_from(draw.below(N as u64)).unwrap()]
}

/// A stretch of facts of one VM.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chunk {
    pub(crate) load: Load,
    pub(crate) ceiling_ns: u32,
    pub(crate) span_ns: u64,
    /// Effect of the host's noise, as a factor of the cost.
    pub(crate) noise: f64,
    pub(crate) halts: usize,
}

/// Replays that are off by up to `bias`.
#[derive(Debug)]
pub(crate) struct Replays {
    pub(crate) bias: f64,
    pub(crate) draw: SplitMix64,
    /// A setting that is predicted to poll more polls less in truth, and the reverse.
    pub(crate) is_inverted: bool,
}

impl Replays {
    pub(crate) fn wrong_by(bias: f64, seed: u64) -> Self {
        Self {
            bias,
            draw: SplitMix64(seed),
            is_inverted: false,
        }
    }

    fn error(&mut self) -> f64 {
        self.bias * (2.0 * self.draw.unit() - 1.0)
    }
}

impl Evidence for Replays {
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
        let last = |vm: &OfVm<'_, Chunk>| vm.chunks.last().map(|chunk| chunk.load);
        let loads: Vec<Load> = vms.iter().filter_map(last).collect();
        let sum = |of: &dyn Fn(&Load) -> f64| loads.iter().map(of).sum::<f64>();
        let cost = |ns: u32| sum(&|load| load.per_s(ns));
        let poll = |ns: u32| sum(&|load| load.polled_percent(ns));
        let [in_force, found] = [question.in_force, question.found].map(|it| it.halt_poll_ns);
        let (halts_per_s, now) = (sum(&|load| load.halts_per_s), cost(in_force));
        // The setting that looks best may be the one with the worst prediction.
        let mut predicted = |ns: u32| cost(ns) * self.error().exp();
        let found_ratio = if found == in_force {
            Interval::exactly(1.0)
        } else {
            Interval::around(predicted(found) / now, 0.01)
        };
        let idle = question.idle_cpu_percent.unwrap_or(f64::INFINITY);
        let may = question.max_poll_cpu_percent.unwrap_or(f64::INFINITY);
        let most = may.min(idle + poll(in_force));
        let is_allowed =
            |ns: &u32| *ns <= question.max_ceiling_ns && *ns != in_force && poll(*ns) <= most;
        let allowed = CEILINGS_NS.into_iter().filter(is_allowed);
        let best = allowed.map(|ns| (predicted(ns), ns));
        let best = best.min_by(|a, b| a.0.total_cmp(&b.0));
        let (cheapest, best) = best.unwrap_or((now, in_force));
        let gain = 1.0 - cheapest / now;
        let sign = if self.is_inverted { -1.0 } else { 1.0 };
        let worst = sum(&|load| {
            let polled = (load.gap_ns + LATENCY_NS).min(f64::from(best));
            load.halts_per_s * (polled + SWITCH_NS + 2.0 * LATENCY_NS)
        });
        let choice = Choice {
            knobs: knobs(best),
            gain: Interval::around(gain, 0.03),
            more_poll_cpu_percent: sign * (poll(best) - poll(in_force)),
            worst_ns_per_s: (worst - now).max(0.0),
        };
        (!loads.is_empty()).then(|| Answer {
            cost: COST,
            cost_per_halt_ns: now / halts_per_s,
            halts_per_s,
            latency_mean_ns: LATENCY_NS,
            gap_mean_ns: sum(&|load| load.gap_ns) / loads.len() as f64,
            found_ratio,
            more_poll_than_found_percent: sign * (poll(in_force) - poll(found)),
            choice: (gain > 0.02).then_some(choice),
            verdict: "no setting is better",
        })
    }

    fn measure(&mut self, vms: &[OfVm<'_, Chunk>], other: Knobs, _: &Cost) -> Option<Measured> {
        let chunks: Vec<&Chunk> = vms.iter().flat_map(|vm| vm.chunks.clone()).collect();
        let sum = |of: &dyn Fn(&Chunk) -> f64| {
            let of = |chunk: &&Chunk| of(chunk) * chunk.span_ns as f64 / 1e9;
            chunks.iter().map(of).sum::<f64>()
        };
        let halts = sum(&|chunk| chunk.load.halts_per_s);
        let cost_ns = sum(&|chunk| chunk.load.per_s(chunk.ceiling_ns) * chunk.noise);
        let predicted = sum(&|chunk| chunk.load.per_s(other.halt_poll_ns));
        let predicted_ns = (1.0 + self.error()) * predicted;
        (halts >= 1.0).then(|| Measured {
            halts: whole(halts),
            cost_ns,
            per_halt_ns: Some(cost_ns / halts),
            predicted_per_halt_ns: Some(predicted_ns / halts),
            span_ns: chunks.iter().map(|chunk| chunk.span_ns).max().unwrap_or(0),
        })
    }
}
