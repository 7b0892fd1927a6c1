//! Loads, their cost under a setting, and replays of them that may be wrong.

use std::cell::Cell;

use haltwise_core::kvm::Knobs;
use haltwise_core::pilot::evidence::{Answer, Choice, EXCERPT, Evidence, Measured, OfVm, Question};
use haltwise_core::pilot::input::Counts;
use haltwise_core::replay::Cost;
use haltwise_core::stats::Interval;
use haltwise_core::tune::candidates::CEILINGS_NS;
use haltwise_core::workload::SplitMix64;

/// Latency of a wake-up, and CPU time of a sleep.
const LATENCY_NS: f64 = 20_000.0;
const SWITCH_NS: f64 = 10_000.0;

/// Halts of one length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) per_s: f64,
    pub(crate) gap_ns: f64,
}

pub(crate) const fn load(per_s: f64, gap_ns: f64) -> Load {
    Load { per_s, gap_ns }
}

/// A poll of that length costs more than a block: best without polling.
pub(crate) const EACH_150_US: Load = load(4_500.0, 150_000.0);
pub(crate) const TICKING: Load = load(250.0, 3_900_000.0);
/// A poll of that length costs less than a block: best polled.
pub(crate) const EACH_15_US: Load = load(12_000.0, 15_000.0);

/// Idle, ticking, request and response, or bulk.
const KINDS: [Load; 7] = [
    load(20.0, 3_000_000.0),
    TICKING,
    EACH_15_US,
    load(8_000.0, 50_000.0),
    EACH_150_US,
    load(8_000.0, 125_000.0),
    load(900.0, 8_000.0),
];

impl Load {
    pub(crate) fn draw(draw: &mut SplitMix64) -> Self {
        let mut about = |of: f64| of * (0.8 + 0.4 * draw.unit());
        let [per_s, gap_ns] = [about(1.0), about(1.0)];
        let of = one_of(draw, KINDS);
        load(of.per_s * per_s, of.gap_ns * gap_ns)
    }

    /// Polling of a halt under a ceiling, in nanoseconds, and the share of halts that sleep.
    fn halt(&self, ceiling_ns: u32) -> [f64; 2] {
        let ceiling = f64::from(ceiling_ns);
        if ceiling >= self.gap_ns + LATENCY_NS {
            return [self.gap_ns, 0.0];
        }
        // The window grows without success now and then.
        [(ceiling / 10.0).min(self.gap_ns), 1.0]
    }

    /// Cost of a second of its halts.
    pub(crate) fn cost(&self, ceiling_ns: u32) -> f64 {
        let [polled, slept] = self.halt(ceiling_ns);
        self.per_s * (polled + slept * (SWITCH_NS + LATENCY_NS))
    }

    /// Polling, in % of one CPU.
    pub(crate) fn polled_percent(&self, ceiling_ns: u32) -> f64 {
        self.per_s * self.halt(ceiling_ns)[0] / 1e7
    }

    /// KVM's counts of an interval in which it halts so many times as often.
    pub(crate) fn counts(&self, ceiling_ns: u32, interval_ns: u64, times: f64) -> Counts {
        let halts = self.per_s * times * interval_ns as f64 / 1e9;
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

thread_local! {
    /// How many readings there were: since the last, another program may have set anything.
    pub(crate) static READINGS: Cell<u64> = const { Cell::new(0) };
}

/// A stretch of facts of one VM.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chunk {
    pub(crate) load: Load,
    /// The setting that it was recorded under, after so many readings.
    pub(crate) under: (Knobs, u64),
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
        let draw = SplitMix64(seed);
        Self {
            bias,
            draw,
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
        let halts = chunk.halts.min(EXCERPT);
        Chunk { halts, ..*chunk }
    }

    fn size(chunk: &Chunk) -> usize {
        chunk.halts
    }

    fn weigh(&mut self, vms: &[OfVm<'_, Chunk>], question: &Question) -> Option<Answer> {
        for chunk in vms.iter().flat_map(|vm| &vm.chunks) {
            let (under, readings) = chunk.under;
            let is_of_now = under == question.in_force || readings == READINGS.get();
            assert!(
                is_of_now,
                "facts of another setting: {chunk:?} {question:?}"
            );
        }
        let last = |vm: &OfVm<'_, Chunk>| vm.chunks.last().map(|chunk| chunk.load);
        let loads: Vec<Load> = vms.iter().filter_map(last).collect();
        let sum = |of: &dyn Fn(&Load) -> f64| loads.iter().map(of).sum::<f64>();
        let cost = |ns: u32| sum(&|load| load.cost(ns));
        let poll = |ns: u32| sum(&|load| load.polled_percent(ns));
        let [in_force, found] = [question.in_force, question.found].map(|it| it.halt_poll_ns);
        let (per_s, now) = (sum(&|load| load.per_s), cost(in_force));
        // The setting that looks best may be the one with the worst prediction.
        let mut predicted = |ns: u32| cost(ns) * self.error().exp();
        let found_ratio = match found {
            _ if found == in_force => Interval::exactly(1.0),
            _ => Interval::around(predicted(found) / now, 0.01),
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
            load.per_s * (polled + SWITCH_NS + 2.0 * LATENCY_NS)
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
        (!loads.is_empty()).then(|| Answer {
            cost: Cost::FREE,
            cost_per_halt_ns: now / per_s,
            halts_per_s: per_s,
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
        let halts = sum(&|chunk| chunk.load.per_s);
        let cost_ns = sum(&|chunk| chunk.load.cost(chunk.under.0.halt_poll_ns) * chunk.noise);
        let predicted = sum(&|chunk| chunk.load.cost(other.halt_poll_ns));
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
