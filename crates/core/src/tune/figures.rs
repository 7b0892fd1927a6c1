//! Settings and policies of any kind, one by one, with all figures that a page shows.

use super::crew::Crew;
use super::material::{Material, Seated};
use super::stage::{self, Entry};
use crate::policy::{Spec, SpecError};
use crate::replay::run::Run;
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

/// Plays each on the whole capture; gives what came of the judging part.
pub fn figures(
    material: &Material,
    subjects: &[Subject],
    cost: &Cost,
    crew: &impl Crew,
) -> Result<Vec<Outcome>, SpecError> {
    let seats = &material.seats;
    let pieces = crew.each("figures", seats.len() * subjects.len(), |number| {
        let (seated, subject) = (&seats[number / subjects.len()], number % subjects.len());
        judged(material, seated, &subjects[subject], cost)
    });
    let mut outcomes = vec![Outcome::default(); subjects.len()];
    for (number, piece) in pieces.into_iter().enumerate() {
        outcomes[number % subjects.len()].add(&piece?);
    }
    Ok(outcomes)
}

fn judged(
    material: &Material,
    seated: &Seated,
    subject: &Subject,
    cost: &Cost,
) -> Result<Outcome, SpecError> {
    let mut run = match subject {
        Subject::Setting(entry) => stage::kvm(&material.terms, seated, entry)?,
        Subject::Policy(spec) => {
            let in_force = Entry {
                ceilings: stage::CeilingsOf::Recorded,
                ..Entry::new(material.terms.in_force)
            };
            let break_even_ns = cost.break_even_ns(seated.table.median(0));
            let setting = stage::setting(&material.terms, seated, &in_force, break_even_ns);
            Run::new(spec.build(&setting)?)
        }
    };
    let frame = stage::frame(seated, *cost);
    let (fit, judging) = seated.samples.split_at(seated.ends[0]);
    for sample in fit {
        run.step(sample, &frame);
    }
    run.take();
    for sample in judging {
        run.step(sample, &frame);
    }
    Ok(run.take())
}
