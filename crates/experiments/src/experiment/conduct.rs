//! An experiment, from its description to what was found: rounds, until all effects are decided or the time is used up.

use std::os::fd::AsFd;

use anyhow::Context as _;
use haltwise_core::units::Nanos;

use super::found::{Found, FoundEffect, FoundScaled, FoundVariant, Host, Report, SCHEMA};
use super::recorder::Haltwise;
use super::results::{Further, Results};
use super::schedule::{orders, seed_of_round};
use super::verdicts::{effects, integrity};
use super::witness::Watch;
use super::{Block, Experiment, Figure, Scaled, Trial, Variant};
use haltwise_lab::calibrate::{Plan, calibrate};
use haltwise_lab::clock;
use haltwise_lab::outcome::VcpuOutcome;
use haltwise_lab::program::no_kvm;

/// Rounds that blocks are made short enough for.
const ROUNDS: u64 = 32;
/// Rounds after which it is first looked at whether all effects are decided, two more than a direction needs; then
/// whenever there are twice as many. The more looks, the likelier one of them takes chance for an effect.
const FIRST_LOOK: usize = 8;
/// Percentage of the time in which guests are loaded; the rest of the time makes and ends VMs.
const LOADED_PERCENT: u64 = 75;
/// Shorter blocks would be all beginning, longer ones waste.
const BLOCK: std::ops::RangeInclusive<u64> = 30_000_000..=1_000_000_000;

/// As long as many a wait that the sources poll for.
const CALIBRATED_GAP: Nanos = Nanos(100_000);

/// Failed polls shorter than this on average were cut: no window is that short.
const CUT_SHORT_NS: u64 = 1_000;

#[derive(Debug)]
pub struct Options {
    pub seed: u64,
    pub budget: Nanos,
    /// Number of rounds, however long the rounds take and whatever is decided.
    pub rounds: Option<u32>,
    /// `haltwise`, or why it shall not or cannot record.
    pub haltwise: anyhow::Result<Haltwise>,
}

/// How long each of so many variants is loaded in each round.
pub fn block_length(budget: Nanos, variants: usize) -> Nanos {
    let blocks = ROUNDS * variants.max(1) as u64;
    let loaded = budget.0 / 100 * LOADED_PERCENT;
    Nanos((loaded / blocks).clamp(*BLOCK.start(), *BLOCK.end()))
}

/// Runs some experiments, one after the other, until they are done or `interrupt` is readable. `progress` hears which
/// experiment is measured, and how far it is.
pub fn conduct(
    experiments: &[&'static Experiment],
    options: &Options,
    interrupt: &impl AsFd,
    mut progress: impl FnMut(&str, String),
) -> anyhow::Result<Report> {
    let start_ns = clock::now_ns();
    let cpus = clock::allowed_cpus().context("read our CPU affinity")?;
    progress("wake-up latency", String::new());
    let wake_latency = wake_latency(&cpus, options.budget, interrupt)?;
    let mut found = Vec::new();
    for experiment in experiments {
        if clock::wait_readable(interrupt, Some(Nanos(0))).context("look for a signal")? {
            break;
        }
        let first = Trial {
            variant: 0,
            round: 0,
            length: block_length(options.budget, (experiment.variants)().len()),
            seed: seed_of_round(options.seed, 0),
            factor: (experiment.scaled).map_or(1, |scaled| scaled.factor(wake_latency)),
            cpus: &cpus,
            interrupt: interrupt.as_fd(),
        };
        match one(experiment, options, first, &mut progress) {
            Ok(one) => found.push(one),
            // Others may do all the same, if there is KVM at all.
            Err(error) if experiments.len() > 1 && no_kvm(&error).is_none() => {
                found.push(Found {
                    failed: Some(format!("{error:#}")),
                    limits: Vec::new(),
                    ..Found::nothing_of(experiment)
                });
            }
            Err(error) => return Err(error),
        }
    }
    let kernel = rustix::system::uname();
    Ok(Report {
        schema: SCHEMA,
        program: format!("haltwise-experiments {}", env!("CARGO_PKG_VERSION")),
        host: Host {
            kernel: kernel.release().to_string_lossy().into_owned(),
            cpus: cpus.len(),
            wake_latency_ns: wake_latency.map(|latency| latency.0),
        },
        seed: options.seed,
        elapsed_ns: clock::now_ns().saturating_sub(start_ns),
        experiments: found,
    })
}

/// Time that a wait of [`CALIBRATED_GAP`] adds between signal and guest.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time within the calibration, not below 0"
)]
fn wake_latency(
    cpus: &[u32],
    budget: Nanos,
    interrupt: &impl AsFd,
) -> anyhow::Result<Option<Nanos>> {
    let [first, last] = [cpus.first(), cpus.last()].map(|cpu| cpu.copied().unwrap_or(0));
    let plan = Plan {
        gaps: vec![CALIBRATED_GAP],
        budget: Nanos(budget.0 / 8),
        ..Plan::new(false, last, first)
    };
    let written = calibrate(&plan, interrupt, |_, _| {}).context("measure a wake-up")?;
    let latency = written.classes.first().and_then(|gap| gap.wake_latency_ns);
    Ok(latency.map(|latency| Nanos(latency.median.max(0.0) as u64)))
}

struct Measured {
    rounds: Vec<Vec<Block>>,
    /// Outcomes from all blocks, including the blocks of a round that was not finished.
    vcpus: Vec<VcpuOutcome>,
    interrupted: bool,
}

fn one(
    experiment: &'static Experiment,
    options: &Options,
    first: Trial<'_>,
    progress: &mut impl FnMut(&str, String),
) -> anyhow::Result<Found> {
    let start_ns = clock::now_ns();
    let variants = (experiment.variants)();
    let watch = Watch::start(&options.haltwise);
    let measured = measure(experiment, &variants, first, options, progress)?;
    let witness = watch.end(&measured.vcpus);
    let results = Results {
        experiment,
        variants: &variants,
        rounds: &measured.rounds,
        further: Some(Further {
            trial: first,
            haltwise: options.haltwise.as_ref().ok(),
        }),
    };
    let conclusion = (experiment.conclude)(&results);
    let mut notes = conclusion.notes;
    notes.extend(notes_of(&measured, &variants));
    let scaled = |scaled: Scaled| FoundScaled {
        wake_latency_ns: scaled.wake_latency.0,
        factor: first.factor,
        times: (scaled.times.iter())
            .map(|(name, source)| ((*name).to_owned(), first.here(*source).0))
            .collect(),
    };
    Ok(Found {
        scaled: experiment.scaled.map(scaled),
        rounds: measured.rounds.len(),
        block_ns: first.length.0,
        elapsed_ns: clock::now_ns().saturating_sub(start_ns),
        variants: found_variants(&results),
        effects: effects(&results),
        integrity: integrity(&results, &witness),
        tables: conclusion.tables,
        charts: conclusion.charts,
        notes,
        witness,
        ..Found::nothing_of(experiment)
    })
}

fn measure(
    experiment: &'static Experiment,
    variants: &[Variant],
    first: Trial<'_>,
    options: &Options,
    progress: &mut impl FnMut(&str, String),
) -> anyhow::Result<Measured> {
    let start_ns = clock::now_ns();
    let mut measured = Measured {
        rounds: Vec::new(),
        vcpus: Vec::new(),
        interrupted: false,
    };
    for (order, round) in orders(options.seed, variants.len()).zip(0_u32..) {
        let elapsed = clock::now_ns().saturating_sub(start_ns);
        let done = u64::from(round);
        let ends_too_late = || done > 0 && elapsed / done * (done + 1) > options.budget.0;
        let results = Results {
            experiment,
            variants,
            rounds: &measured.rounds,
            further: None,
        };
        let enough = options.rounds.map_or_else(
            || ends_too_late() || is_decided(&results),
            |rounds| round >= rounds,
        );
        if enough {
            break;
        }
        let mut blocks = vec![Block::default(); variants.len()];
        for (blocks_done, variant) in order.into_iter().enumerate() {
            let at = format!("round {round}, {blocks_done}/{}", variants.len());
            progress(experiment.name, at);
            let block = (experiment.run)(&Trial {
                variant,
                round,
                seed: seed_of_round(options.seed, round),
                ..first
            })?;
            measured.vcpus.extend(block.vcpus.iter().cloned());
            blocks[variant] = block;
            // A block that a signal cut short is not like the others.
            if clock::wait_readable(&first.interrupt, Some(Nanos(0)))
                .context("look for a signal")?
            {
                measured.interrupted = true;
                return Ok(measured);
            }
        }
        measured.rounds.push(blocks);
    }
    Ok(measured)
}

/// Whether it is looked at after so many rounds, and every effect that can be measured is decided.
pub(super) fn is_decided(results: &Results<'_>) -> bool {
    let rounds = results.rounds.len();
    let is_looked_at = rounds >= FIRST_LOOK && rounds.is_power_of_two();
    is_looked_at && effects(results).iter().all(FoundEffect::is_decided)
}

fn notes_of(measured: &Measured, variants: &[Variant]) -> Vec<String> {
    let mut notes = Vec::new();
    if measured.interrupted {
        notes.push("ended early by a signal: the round under way is not counted".to_owned());
    }
    let sum = |name: &str| {
        let counts = measured.vcpus.iter().filter_map(|vcpu| vcpu.stat(name));
        counts.sum::<u64>()
    };
    let attempted = sum("halt_attempted_poll");
    let failed = attempted.saturating_sub(sum("halt_successful_poll"));
    if failed > 100 && sum("halt_poll_fail_ns") / failed < CUT_SHORT_NS {
        notes.push(format!(
            "the host was busy: {failed} of {attempted} polls failed, most within a microsecond, because \
             other tasks wanted these CPUs"
        ));
    }
    for (index, variant) in variants.iter().enumerate() {
        let mut rounds = measured.rounds.iter();
        if let Some(note) = rounds.find_map(|round| round[index].note.as_ref()) {
            notes.push(format!("{}, {}: {note}", variant.group, variant.name));
        }
    }
    notes
}

fn found_variants(results: &Results<'_>) -> Vec<FoundVariant> {
    let figures = || results.experiment.figures.iter();
    let found = |(index, variant): (usize, &Variant)| {
        let samples = |figure: &Figure| {
            let rounds = results.rounds.iter();
            let samples = rounds.map(|round| round[index].figures.get(&*figure.name).copied());
            samples.collect()
        };
        let estimates = figures().map(|figure| results.estimate(index, &figure.name));
        FoundVariant {
            variant: variant.clone(),
            figures: estimates.collect(),
            samples: figures().map(samples).collect(),
        }
    };
    results.variants.iter().enumerate().map(found).collect()
}
