//! Trials for tests of single experiments, which their rounds end and no clock.

use std::os::fd::AsFd;

use haltwise_core::units::Nanos;

use crate::experiment::Trial;
use haltwise_lab::event::Event;

/// State that the trials of a test share.
#[derive(Debug)]
pub(in crate::experiment) struct Trials {
    interrupt: Event,
}

impl Trials {
    /// `None`, and the word that the test is skipped, where no VM can run.
    #[expect(clippy::print_stdout, reason = "a skipped test must say so")]
    pub(in crate::experiment) fn here() -> Option<Self> {
        let opened = haltwise_lab::vm::open();
        let opened = opened.inspect_err(|error| println!("skipped: {error}"));
        opened.ok().map(|_| Self {
            interrupt: Event::new().unwrap(),
        })
    }

    pub(in crate::experiment) fn of(&self, variant: usize) -> Trial<'_> {
        Trial {
            variant,
            round: 0,
            length: Nanos(60_000_000_000),
            seed: 0,
            factor: 1,
            cpus: &[0],
            interrupt: self.interrupt.as_fd(),
        }
    }
}
