//! Answers from recorded halts, by the search and the advice of [`crate::tune`]; `choose` takes one of the settings.

mod choose;

use super::evidence::{Answer, EXCERPT, Evidence, Measured, OfVm, Question};
use super::input::Scope;
use crate::event::{CeilingSource, Halt};
use crate::ids::VmIndex;
use crate::kvm::{Arch, Knobs, Version};
use crate::policy::{Setting, Start};
use crate::prove::figure::{Figure, Figures};
use crate::prove::tally::tally;
use crate::recording::Side;
use crate::replay::calibration::SwitchCpu;
use crate::replay::cost::Assumed;
use crate::replay::latency::{Latencies, class_of};
use crate::replay::sample::sleep_and_latency_ns;
use crate::replay::session::Survey;
use crate::replay::{Arrivals, Cost, Outcome};
use crate::tune::advice::{self, Final, Verdict};
use crate::tune::interval::Interval;
use crate::tune::material::Seated;
use crate::tune::search::{self, Aim};
use crate::tune::stage::{self, Entry, Part};
use crate::tune::{Alone, Gather, Keep, Material, Sums, Terms, late};

/// A stretch of full facts of one VM.
#[derive(Debug, Clone, Default)]
pub struct Stretch {
    /// When it began, on the clock of the halts.
    pub began_ns: u64,
    /// How long it was.
    pub span_ns: u64,
    /// The halts that ended in it.
    pub halts: Vec<Halt>,
}

/// An excerpt is so many runs of halts that follow each other, spread over the stretch: neighbours show how gaps follow
/// wake-ups, and a run alone is a moment.
const RUNS: usize = 4;

/// Answers from recorded halts.
#[derive(Debug)]
pub struct Replayed {
    version: Version,
    arch: Arch,
    /// CPU time of a block, as calibrated.
    switch_cpu: Option<SwitchCpu>,
    /// Wake-up latencies as calibrated, and those of all VMs so far.
    elsewhere: Latencies,
    is_calibrated: bool,
    seed: u64,
}

impl Replayed {
    /// On this kernel, with what was calibrated.
    pub fn new(
        (version, arch): (Version, Arch),
        switch_cpu: Option<SwitchCpu>,
        calibrated: Latencies,
        seed: u64,
    ) -> Self {
        Self {
            version,
            arch,
            switch_cpu,
            is_calibrated: !calibrated.is_empty(),
            elsewhere: calibrated,
            seed,
        }
    }

    fn elsewhere(&self) -> Option<&Latencies> {
        (!self.elsewhere.is_empty()).then_some(&self.elsewhere)
    }

    fn switch_cpu_ns(&self, survey: &Survey) -> Option<u64> {
        if let Some(measured) = self.switch_cpu {
            return Some(measured.ns);
        }
        let shortest = survey.shortest_sleeps_ns();
        let shortest = shortest.or_else(|| self.elsewhere.shortest_sleeps_ns())?;
        Some(Assumed::of_shortest_sleeps(shortest).switch_cpu_ns)
    }

    fn gather(&self, vms: &[OfVm<'_, Stretch>], question: &Question) -> Option<(Material, Aim)> {
        let (mut survey, mut gather) = (Survey::default(), Gather::new(Keep::ALL));
        let mut weights_milli = std::collections::BTreeMap::new();
        for (vm, of) in (0..).map(VmIndex).zip(vms) {
            if of.weight_milli != question.weight_milli {
                weights_milli.insert(vm, of.weight_milli);
            }
            for halt in placed(vm, &of.tried, question) {
                survey.halt(&halt);
            }
            for halt in placed(vm, &of.chunks, question) {
                survey.halt(&halt);
                gather.halt(&halt);
            }
        }
        let cost = Cost {
            switch_cpu_ns: self.switch_cpu_ns(&survey)?,
            latency_weight_milli: question.weight_milli,
            ..Cost::FREE
        };
        let terms = Terms {
            version: self.version,
            arch: self.arch,
            in_force: question.in_force,
            arrivals: Arrivals::BySource,
            elsewhere: self.elsewhere().cloned(),
            seed: self.seed,
            ceiling_only: matches!(question.scope, Scope::Vm(_)),
            weights_milli,
        };
        let material = gather.finish(terms, survey).ok()?;
        let polled = material.recorded_poll_cpu_percent();
        let aim = Aim {
            cost,
            switch_cpu_ends_ns: self.switch_cpu.map(|measured| measured.ends_ns),
            max_poll_cpu_percent: question.max_poll_cpu_percent,
            possible_poll_cpu_percent: question.idle_cpu_percent.map(|idle| idle + polled),
        };
        (!material.seats.is_empty()).then_some((material, aim))
    }
}

/// The halts of a VM on a time of their own, stretch behind stretch, under the ceiling in force.
fn placed<'a>(
    vm: VmIndex,
    stretches: &'a [&Stretch],
    question: &Question,
) -> impl Iterator<Item = Halt> + 'a {
    let in_force = question.in_force.halt_poll_ns;
    let source = match question.scope {
        Scope::Vm(_) => CeilingSource::Cap,
        Scope::Host => CeilingSource::Param,
    };
    let mut from_ns = 0_u64;
    stretches.iter().flat_map(move |chunk| {
        let at_ns = from_ns;
        from_ns = from_ns.saturating_add(chunk.span_ns);
        chunk.halts.iter().map(move |halt| Halt {
            start_ns: at_ns.saturating_add(halt.start_ns.saturating_sub(chunk.began_ns)),
            vm: Some(vm),
            ceiling_ns: Some(in_force),
            ceiling_source: source,
            ..*halt
        })
    })
}

/// Sums as recorded.
#[derive(Debug, Default)]
struct Recorded {
    vcpus: u64,
    halts: u64,
    /// Wake-up latencies of those that slept.
    latencies_ns: Vec<u64>,
    cost_milli: u128,
    latency_ns: u64,
    gap_ns: u64,
    halt_ns: u64,
    poll_ns: u64,
    span_ns: u64,
}

impl Recorded {
    fn of(vms: &[OfVm<'_, Stretch>], cost: &Cost) -> Self {
        let mut all = Self::default();
        for of in vms {
            let cost = Cost {
                latency_weight_milli: of.weight_milli,
                ..*cost
            };
            let span_ns = of.chunks.iter().map(|chunk| chunk.span_ns).sum();
            all.span_ns = all.span_ns.max(span_ns);
            all.vcpus += of.vcpus.max(1);
            for halt in of.chunks.iter().flat_map(|chunk| &chunk.halts) {
                let latency_ns = halt.wake_latency_ns.unwrap_or(0);
                let poll_ns = halt.poll_ns.unwrap_or(0);
                all.halts += 1;
                all.latencies_ns
                    .extend(halt.wake_latency_ns.filter(|_| halt.waited));
                all.cost_milli += cost.milli(poll_ns, u64::from(halt.waited), latency_ns);
                all.latency_ns = all.latency_ns.saturating_add(latency_ns);
                let gap_ns = halt.halt_ns.saturating_sub(latency_ns);
                all.gap_ns = all.gap_ns.saturating_add(gap_ns);
                all.halt_ns = all.halt_ns.saturating_add(halt.halt_ns);
                all.poll_ns = all.poll_ns.saturating_add(poll_ns);
            }
        }
        all
    }

    fn per_halt(&self, ns: f64) -> f64 {
        ns / self.halts.max(1) as f64
    }

    fn per_s(&self, ns: f64) -> f64 {
        ns * 1e9 / self.span_ns.max(1) as f64
    }

    /// The most that a ceiling can cost more than what was recorded, in a second: each halt polls for all of it and meets
    /// nothing, then sleeps, and wakes twice as late as the latest class of sleeps was calibrated, or as half of the sleeps
    /// recorded did. (The latest of all wake-ups is one that others delayed, and no measure of thousands.) A vCPU that
    /// wakes so late halts less often.
    fn worst_ns_per_s(&self, calibrated_ns: u64, to: Knobs, cost: &Cost) -> f64 {
        let mut sorted = self.latencies_ns.clone();
        sorted.sort_unstable();
        let recorded_ns = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
        let latency_ns = late::TIMES * calibrated_ns.max(recorded_ns);
        let most_polled_ns = (self.per_halt(self.halt_ns as f64)).min(f64::from(to.halt_poll_ns));
        let worst_ns = most_polled_ns + cost.break_even_ns(latency_ns) as f64;
        let more_ns = worst_ns - self.per_halt(self.cost_milli as f64 / 1e3);
        let later_ns = latency_ns as f64 - self.per_halt(self.latency_ns as f64);
        let halts_per_s = self.per_s(self.halts as f64);
        let of_each = halts_per_s / self.vcpus.max(1) as f64;
        let slower = 1.0 + of_each * later_ns.max(0.0) / 1e9;
        (halts_per_s / slower * more_ns).max(0.0)
    }
}

/// The latest class of sleeps, as calibrated.
fn latest_ns(material: &Material) -> u64 {
    let classes = 0..=class_of(u64::MAX);
    let seats = material.seats.iter();
    let calibrated =
        seats.flat_map(|seated| classes.clone().map(|class| seated.table.median(class)));
    calibrated.max().unwrap_or(0)
}

/// Of all blocks that judge, the sums under a setting, from the start that is given.
fn blocks(material: &Material, entry: Entry) -> Vec<Sums> {
    let seats: Vec<&Seated> = material.seats.iter().collect();
    let played = stage::play(material, &seats, &[entry], Part::Whole, "pilot", &Alone);
    let mut parts = played.into_iter().next().unwrap_or_default();
    if !parts.is_empty() {
        parts.remove(0);
    }
    parts
}

/// The same from both starts: first the cheaper, then the dearer.
fn both(material: &Material, knobs: Knobs, aim: &Aim) -> [Vec<Sums>; 2] {
    let from = |start| {
        blocks(
            material,
            Entry {
                start,
                ..Entry::new(knobs)
            },
        )
    };
    let [zero, ceiling] = [from(Start::Zero), from(Start::Ceiling)];
    let milli = |blocks: &[Sums]| Sums::total(blocks).milli(&aim.cost);
    if milli(&zero) <= milli(&ceiling) {
        [zero, ceiling]
    } else {
        [ceiling, zero]
    }
}

/// What the setting found would cost, as a multiple of what is in force: from the cheaper of both starts.
fn found_ratio(material: &Material, of: &Final, question: &Question, aim: &Aim) -> Interval {
    let one = |value| Interval {
        value,
        low: value,
        high: value,
    };
    if question.found == question.in_force {
        return one(1.0);
    }
    let [cheaper, _] = both(material, question.found, aim);
    let share = advice::compare(material, &cheaper, of.in_force.blocks(), aim).cost_share;
    Interval {
        value: 1.0 + share.value,
        low: 1.0 + share.low,
        high: 1.0 + share.high,
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Change => "a better setting was found",
        Verdict::ObeyLimit => "polling is over its limit",
        Verdict::AlreadyBest => "no setting is better",
        Verdict::NotSignificant => "no setting is certainly better",
        Verdict::TooSmall => "the best setting gains too little",
        Verdict::TooShort => "too few halts were recorded",
        Verdict::NoPolling => "this kernel does not poll",
        Verdict::AllRejected => "no better setting is certain enough",
        Verdict::Unproven => "what is better by the calibration is to be tried",
    }
}

impl Evidence for Replayed {
    type Chunk = Stretch;

    fn learn(&mut self, chunk: &Stretch) {
        for halt in &chunk.halts {
            self.elsewhere.halt_ended(halt);
        }
        // What was calibrated is not mixed with what other VMs slept.
        if self.is_calibrated {
            return;
        }
        let undisturbed = chunk.halts.iter().filter(|halt| !halt.poll_cut);
        for (slept_ns, latency_ns) in undisturbed.filter_map(sleep_and_latency_ns) {
            self.elsewhere.add(slept_ns, latency_ns);
        }
    }

    fn excerpt(chunk: &Stretch) -> Stretch {
        let most = EXCERPT / RUNS;
        let of_part = chunk.halts.len().div_ceil(RUNS).max(1);
        let parts = chunk.halts.chunks(of_part);
        let runs = parts.flat_map(|part| &part[..part.len().min(most)]);
        Stretch {
            halts: runs.copied().collect(),
            ..*chunk
        }
    }

    fn size(chunk: &Stretch) -> usize {
        chunk.halts.len()
    }

    fn weigh(&mut self, vms: &[OfVm<'_, Stretch>], question: &Question) -> Option<Answer> {
        let (material, aim) = self.gather(vms, question)?;
        let recorded = Recorded::of(vms, &aim.cost);
        let found = search::search(&material, &[aim], &Alone);
        let of = advice::play_final(&material, &found, &[aim], &Alone);
        let goal = advice::Goal {
            name: String::new(),
            aim,
        };
        let advice = advice::advise(&material, &of, &goal);
        let choice = choose::choice(&material, &of, &advice, question, &recorded);
        Some(Answer {
            cost: aim.cost,
            cost_per_halt_ns: recorded.per_halt(recorded.cost_milli as f64 / 1e3),
            halts_per_s: recorded.per_s(recorded.halts as f64),
            latency_mean_ns: recorded.per_halt(recorded.latency_ns as f64),
            gap_mean_ns: recorded.per_halt(recorded.gap_ns as f64),
            found_ratio: found_ratio(&material, &of, question, &aim),
            choice: choice.map(|choice| choose::promised(material, &of, question, &aim, choice)),
            verdict: word(advice.verdict),
        })
    }

    fn measure(
        &mut self,
        vms: &[OfVm<'_, Stretch>],
        other: Knobs,
        cost: &Cost,
    ) -> Option<Measured> {
        let kvm = "kvm".parse().ok()?;
        let setting = |_: &Halt| Setting {
            version: self.version,
            side: Side::Host,
            arch: self.arch,
            knobs: other,
            ceiling_ns: other.halt_poll_ns,
            break_even_ns: 0,
            seed: self.seed,
            start: Start::Zero,
        };
        // Each VM by its own goal.
        let (mut vcpus, mut recorded, mut cost_ns) = (0, Outcome::default(), 0.0);
        let (mut predicted, mut predicted_ns) = (Some(Outcome::default()), 0.0);
        for of in vms {
            let cost = Cost {
                latency_weight_milli: of.weight_milli,
                ..*cost
            };
            let halts = of.chunks.iter().flat_map(|chunk| &chunk.halts);
            let halts: Vec<Halt> = halts.copied().collect();
            if halts.is_empty() {
                continue;
            }
            let tally = tally(&halts, &kvm, self.elsewhere(), setting).ok()?;
            vcpus += tally.vcpus;
            recorded.add(&tally.recorded);
            cost_ns += tally.recorded.cost_ns(&cost);
            predicted = predicted.zip(tally.predicted).map(|(mut sum, played)| {
                sum.add(&played.from_zero);
                predicted_ns += played.from_zero.cost_ns(&cost);
                sum
            });
        }
        let figures = |of: &Outcome, cost_ns: f64| {
            let figures = Figures::of(of, vcpus, cost);
            let known = figures.get(Figure::Cost);
            figures.with(Figure::Cost, known.map(|_| cost_ns / of.halts as f64))
        };
        Some(Measured {
            figures: figures(&recorded, cost_ns),
            predicted: predicted.map(|of| figures(&of, predicted_ns)),
            halts: recorded.halts,
            cost_ns,
        })
    }
}

#[cfg(test)]
mod test {
    use super::*;

    /// Of a vCPU that polls for 50 us 14,000 times a second, with three sleeps, one of which somebody delayed.
    fn recorded(longest_ns: u64) -> Recorded {
        Recorded {
            vcpus: 1,
            halts: 14_000,
            latencies_ns: vec![20_000, longest_ns, 20_000],
            cost_milli: 14_000 * 50_000 * 1_000,
            halt_ns: 14_000 * 50_000,
            span_ns: 1_000_000_000,
            ..Recorded::default()
        }
    }

    /// Of VMs with different goals, each is measured by its own.
    #[test]
    fn a_period_of_several_vms_costs_each_by_its_own_goal() {
        let version = Version::new(6, 12);
        let slept = |nth: u64| Halt {
            start_ns: nth * 1_000_000,
            halt_ns: 120_000,
            waited: true,
            valid: true,
            window_ns: Some(0),
            poll_ns: Some(0),
            polled: Some(false),
            wake_latency_ns: Some(20_000),
            ..Halt::default()
        };
        let stretch = Stretch {
            began_ns: 0,
            span_ns: 100_000_000,
            halts: (0..100).map(slept).collect(),
        };
        let vm = |weight_milli| OfVm {
            weight_milli,
            vcpus: 1,
            chunks: vec![&stretch],
            tried: Vec::new(),
        };
        let cost = Cost {
            switch_cpu_ns: 5_000,
            latency_weight_milli: 0,
            ..Cost::FREE
        };
        let mut replayed = Replayed::new((version, Arch::X86), None, Latencies::default(), 1);
        let off = Knobs {
            halt_poll_ns: 0,
            ..Knobs::defaults(version, Arch::X86)
        };
        let mut measured = |vms: &[OfVm<'_, Stretch>]| replayed.measure(vms, off, &cost).unwrap();
        let idle = OfVm {
            weight_milli: 0,
            vcpus: 1,
            chunks: Vec::new(),
            tried: Vec::new(),
        };
        let of = measured(&[vm(0), idle, vm(10_000)]);
        // 100 halts for 5 us each, and 100 for 205.
        let is_about =
            |value: f64, expected: f64| assert!((value - expected).abs() < 1.0, "{value}");
        is_about(of.cost_ns, 21_000_000.0);
        is_about(of.figures.get(Figure::Cost).unwrap(), 105_000.0);
        is_about(of.predicted.unwrap().get(Figure::Cost).unwrap(), 105_000.0);
        is_about(measured(&[vm(0)]).cost_ns, 500_000.0);
    }

    /// What a trial may cost at the most hangs on no single wake-up, and is less than the vCPU can be late in that time.
    #[test]
    fn the_worst_is_no_latest_wake_up_at_every_halt() {
        let off = Knobs {
            halt_poll_ns: 0,
            ..Knobs::defaults(Version::new(6, 12), Arch::X86)
        };
        let cost = Cost {
            switch_cpu_ns: 5_000,
            latency_weight_milli: 1_000,
            ..Cost::FREE
        };
        let worst = |longest_ns| recorded(longest_ns).worst_ns_per_s(30_000, off, &cost);
        // Twice 30 us late and the switch, 15 us more than the poll, at 14,000 / (1 + 14,000 * 60 us) halts a second.
        let expected = 15_000.0 * 14_000.0 / 1.84;
        assert!((worst(20_000) - expected).abs() < 1.0, "{}", worst(20_000));
        assert!((worst(900_000) - expected).abs() < 1.0);
        assert!(worst(20_000) > 0.0 && worst(20_000) < 1e9);
    }
}
