//! `learned-by-class`: what [`learned`](super::learned) does, with a histogram of its own for what
//! follows a short gap, a middling one and a long one.
//!
//! Short is up to the break-even, where polling pays; long is beyond eight times as much, where nobody
//! polls. So the last gap chooses the threshold, as in a Markov chain of three states. All else, the
//! keys too, is as in `learned`; before the first halt the class is that of a long gap, as that of a
//! vCPU that was just made.
//! Wins where gaps come in phases or take turns. Loses a little where they do not: three histograms
//! learn more slowly than one. Source: ours, after what simulation showed of plain histograms on loads
//! with phases; that the last halt foretells the next is the sense of KVM's own rule.

use super::learned::{FORM, Learner, Terms};
use super::{Ask, Entry, Policy, Seen, Setting};

pub(super) const ENTRY: Entry = Entry {
    name: "learned-by-class",
    form: FORM,
    summary: "learned, by whether the last gap was short or long",
    build: |args, setting| {
        let terms = Terms::of(args)?;
        Ok(Box::new(LearnedByClass::new(terms, setting)))
    },
};

/// How many break-evens the shortest long gap has at least.
const MIDDLING: u64 = 8;

const LONG: usize = 2;

#[derive(Debug, PartialEq)]
struct LearnedByClass {
    break_even_ns: u64,
    learners: [Learner; LONG + 1],
    /// That of the last gap.
    class: usize,
}

impl LearnedByClass {
    fn new(terms: Terms, setting: &Setting) -> Self {
        let learner = || Learner::new(terms, setting);
        Self {
            break_even_ns: setting.break_even_ns,
            learners: [learner(), learner(), learner()],
            class: LONG,
        }
    }

    fn class_of(&self, gap_ns: u64) -> usize {
        if gap_ns <= self.break_even_ns {
            0
        } else if gap_ns <= self.break_even_ns.saturating_mul(MIDDLING) {
            1
        } else {
            LONG
        }
    }
}

impl Policy for LearnedByClass {
    fn window(&mut self, _: &Ask) -> u64 {
        self.learners[self.class].threshold_ns()
    }

    fn learn(&mut self, seen: &Seen) {
        let gap_ns = seen.gap_ns();
        self.learners[self.class].learn(gap_ns);
        self.class = self.class_of(gap_ns);
    }
}

#[cfg(test)]
mod test;
