//! Settings and policies of any kind, one by one, with all figures that a page shows.

use super::guest;
use super::inputs::{Inputs, VcpuInput};
use super::pool::Pool;
use super::stage::{self, Entry};
use crate::account::sums::folds;
use crate::kvm::guest::Params;
use crate::policy::{Spec, SpecError};
use crate::replay::Sums;
use crate::replay::run::{Frame, LeastCost, Run};
use crate::replay::{Cost, Outcome, Sample};
use crate::stats::Fold;

#[derive(Debug, Clone, PartialEq)]
pub enum Subject {
    Setting(Entry),
    Guest(Entry<Params>),
    /// Another policy, built upon the setting in force.
    Policy(Spec),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Played {
    pub outcome: Outcome,
    /// Components of the subject's cost, each VM by its own goal.
    pub sums: Sums,
}

folds! {
    Played { outcome, sums }
}

/// The policy that settings are compared with: the saving of a rule without parameters that learns. It does not see the
/// future, and has no limit but its own.
pub const LEADER: &str = "leader";

/// Halts of each vCPU before the validation half from which policies learn: debts of [`LEADER`] end
/// at 16 blocks. Settings of the module play all halts, since an early one can lead windows where they then stay.
const WARM_UP: usize = 1 << 16;

/// Plays each up to the end of the capture; gives what came of the validation half. What the least is that halts
/// can cost is the cost of the policy `clairvoyant`: [`Outcome::clairvoyant_milli`] need not be there.
pub fn figures(
    inputs: &Inputs,
    subjects: &[Subject],
    cost: &Cost,
    pool: &impl Pool,
) -> Result<Vec<Played>, SpecError> {
    figures_after(WARM_UP, inputs, subjects, cost, pool)
}

/// The least that the halts of some vCPUs of the validation half can cost, as sums.
pub(super) fn oracle(
    inputs: &Inputs,
    seats: &[&VcpuInput],
    cost: &Cost,
    pool: &impl Pool,
) -> Result<Sums, SpecError> {
    let subject = [Subject::Policy("clairvoyant".parse()?)];
    let pieces = pool.each("evaluating settings", seats.len(), |at| {
        judged(WARM_UP, inputs, seats[at], &subject, cost)
    });
    let mut sums = Sums::default();
    for piece in pieces {
        for played in &piece? {
            sums.fold(&played.sums);
        }
    }
    Ok(sums)
}

/// The same where policies learn from so many halts.
pub(super) fn figures_after(
    warm_up: usize,
    inputs: &Inputs,
    subjects: &[Subject],
    cost: &Cost,
    pool: &impl Pool,
) -> Result<Vec<Played>, SpecError> {
    let chunks: Vec<&[Subject]> = subjects.chunks(TOGETHER).collect();
    let batches: Vec<&[VcpuInput]> = inputs.batches().collect();
    let pieces = pool.each(
        "evaluating settings",
        batches.len() * chunks.len(),
        |number| {
            let chunk = chunks[number % chunks.len()];
            let mut outcomes = vec![Played::default(); chunk.len()];
            for seated in batches[number / chunks.len()] {
                add(&mut outcomes, judged(warm_up, inputs, seated, chunk, cost)?);
            }
            Ok(outcomes)
        },
    );
    let mut outcomes = vec![Played::default(); subjects.len()];
    for (number, piece) in pieces.into_iter().enumerate() {
        let first = (number % chunks.len()) * TOGETHER;
        add(&mut outcomes[first..], piece?);
    }
    Ok(outcomes)
}

fn add(sums: &mut [Played], outcomes: Vec<Played>) {
    for (sum, outcome) in sums.iter_mut().zip(outcomes) {
        sum.fold(&outcome);
    }
}

/// Subjects that go through the halts side by side: what the least costs of a halt is worked out once
/// for them.
const TOGETHER: usize = 4;

fn judged(
    warm_up: usize,
    inputs: &Inputs,
    seated: &VcpuInput,
    subjects: &[Subject],
    cost: &Cost,
) -> Result<Vec<Played>, SpecError> {
    let cost = &seated.cost(cost);
    let build = |subject: &Subject| build(inputs, seated, subject, cost);
    let mut runs = subjects
        .iter()
        .map(build)
        .collect::<Result<Vec<Run>, _>>()?;
    let frame = stage::frame(seated, *cost);
    let measures = runs.iter().any(Run::sees_the_future);
    let (fit, judging) = inputs.halves(seated);
    let (before, fit) = fit.split_at(fit.len().saturating_sub(warm_up));
    pass(before, subjects, &mut runs, &frame);
    for sample in fit {
        let mut least_cost = measures.then(LeastCost::default);
        for run in &mut runs {
            run.pass_beside(sample, &frame, least_cost.as_mut());
        }
    }
    for sample in judging {
        let mut least_cost = measures.then(LeastCost::default);
        for run in &mut runs {
            run.step_beside(sample, &frame, least_cost.as_mut());
        }
    }
    let played = |run: &mut Run| {
        let outcome = run.take();
        Played {
            sums: Sums::with_exits_of(&outcome).weighed(seated.weight_milli),
            outcome,
        }
    };
    Ok(runs.iter_mut().map(played).collect())
}

/// Halts from which settings come to their windows, and policies learn nothing.
fn pass(samples: &[Sample], subjects: &[Subject], runs: &mut [Run], frame: &Frame<'_>) {
    let mut settings = Vec::new();
    for (subject, run) in subjects.iter().zip(runs) {
        match subject {
            Subject::Setting(_) | Subject::Guest(_) => settings.push(run),
            Subject::Policy(_) => run.skip(samples.len() as u64),
        }
    }
    if settings.is_empty() {
        return;
    }
    for sample in samples {
        for run in &mut settings {
            run.pass_beside(sample, frame, None);
        }
    }
}

fn build(
    inputs: &Inputs,
    seated: &VcpuInput,
    subject: &Subject,
    cost: &Cost,
) -> Result<Run, SpecError> {
    match subject {
        Subject::Setting(entry) => stage::kvm(&inputs.terms, seated, entry),
        Subject::Guest(entry) => Ok(guest::run(&inputs.terms, seated, entry)),
        Subject::Policy(spec) => policy(inputs, seated, spec, cost),
    }
}

pub(crate) fn policy(
    inputs: &Inputs,
    seated: &VcpuInput,
    spec: &Spec,
    cost: &Cost,
) -> Result<Run, SpecError> {
    let in_force = Entry::new(inputs.terms.in_force).recorded();
    let break_even_ns = cost.break_even_ns(seated.table.median(0));
    let setting = stage::setting(&inputs.terms, seated, &in_force, break_even_ns);
    Ok(Run::new(spec.build(&setting)?))
}
