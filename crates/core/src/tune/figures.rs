//! Settings and policies of any kind, one by one, with all figures that a page shows.

use super::crew::Crew;
use super::material::{Material, Seated};
use super::stage::{self, Entry};
use crate::policy::{Spec, SpecError};
use crate::replay::run::{Run, Yardstick};
use crate::replay::{Cost, Outcome};

/// What is played.
#[derive(Debug, Clone, PartialEq)]
pub enum Subject {
    /// A setting of the module.
    Setting(Entry),
    /// Another policy, built upon the setting in force.
    Policy(Spec),
}

/// Policies that are held against settings: how far the parameters are from the best rule of any kind.
/// None of them sees the future; what they take is what they are by themselves.
pub const OF_ANY_KIND: [&str; 7] = [
    "learned",
    "learned-by-class",
    "share",
    "ski-rental",
    "list-v3",
    "list-v4",
    "timer-aware",
];

/// Plays each on the whole capture; gives what came of the judging part. What the least is that halts can
/// cost is the cost of the policy `clairvoyant`: [`Outcome::clairvoyant_milli`] need not be there.
pub fn figures(
    material: &Material,
    subjects: &[Subject],
    cost: &Cost,
    crew: &impl Crew,
) -> Result<Vec<Outcome>, SpecError> {
    let (subjects, places) = once(material, subjects);
    let seats = &material.seats;
    let chunks: Vec<&[Subject]> = subjects.chunks(TOGETHER).collect();
    let pieces = crew.each("figures", seats.len() * chunks.len(), |number| {
        let (seated, chunk) = (&seats[number / chunks.len()], chunks[number % chunks.len()]);
        judged(material, seated, chunk, cost)
    });
    let mut outcomes = vec![Outcome::default(); subjects.len()];
    for (number, piece) in pieces.into_iter().enumerate() {
        let first = (number % chunks.len()) * TOGETHER;
        for (sum, outcome) in outcomes[first..].iter_mut().zip(piece?) {
            sum.add(&outcome);
        }
    }
    Ok(places.into_iter().map(|at| outcomes[at].clone()).collect())
}

/// Each that differs, and where each of all is among them: the setting in force may be the default.
fn once(material: &Material, subjects: &[Subject]) -> (Vec<Subject>, Vec<usize>) {
    let mut differ: Vec<Subject> = Vec::new();
    let places = subjects.iter().map(|subject| {
        let same = |other: &Subject| are_same(material, subject, other);
        differ.iter().position(same).unwrap_or_else(|| {
            differ.push(subject.clone());
            differ.len() - 1
        })
    });
    let places = places.collect();
    (differ, places)
}

fn are_same(material: &Material, one: &Subject, other: &Subject) -> bool {
    match (one, other) {
        (Subject::Setting(one), Subject::Setting(other)) => {
            let of_seat = |seated: &Seated| one.ceiling_ns(seated) == other.ceiling_ns(seated);
            let ceilings = material.seats.iter().all(of_seat);
            ceilings && (one.knobs, one.start) == (other.knobs, other.start)
        }
        _ => one == other,
    }
}

/// Subjects that go through the halts side by side: what the least costs of a halt is worked out once
/// for them.
const TOGETHER: usize = 4;

fn judged(
    material: &Material,
    seated: &Seated,
    subjects: &[Subject],
    cost: &Cost,
) -> Result<Vec<Outcome>, SpecError> {
    let build = |subject: &Subject| build(material, seated, subject, cost);
    let mut runs = subjects
        .iter()
        .map(build)
        .collect::<Result<Vec<Run>, _>>()?;
    let frame = stage::frame(seated, *cost);
    let measures = runs.iter().any(Run::sees_the_future);
    let (fit, judging) = seated.samples.split_at(seated.ends[0]);
    for sample in fit {
        let mut yardstick = measures.then(Yardstick::default);
        for run in &mut runs {
            run.pass_beside(sample, &frame, yardstick.as_mut());
        }
    }
    for sample in judging {
        let mut yardstick = measures.then(Yardstick::default);
        for run in &mut runs {
            run.step_beside(sample, &frame, yardstick.as_mut());
        }
    }
    Ok(runs.iter_mut().map(Run::take).collect())
}

fn build(
    material: &Material,
    seated: &Seated,
    subject: &Subject,
    cost: &Cost,
) -> Result<Run, SpecError> {
    match subject {
        Subject::Setting(entry) => stage::kvm(&material.terms, seated, entry),
        Subject::Policy(spec) => {
            let in_force = Entry {
                ceilings: stage::CeilingsOf::Recorded,
                ..Entry::new(material.terms.in_force)
            };
            let break_even_ns = cost.break_even_ns(seated.table.median(0));
            let setting = stage::setting(&material.terms, seated, &in_force, break_even_ns);
            Ok(Run::new(spec.build(&setting)?))
        }
    }
}
