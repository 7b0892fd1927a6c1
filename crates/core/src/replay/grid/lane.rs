//! One setting the plain way: the reference model's own rule, and the same arithmetic as [`super::super::run`].

use super::super::arrivals::Follow;
use super::super::latency::Table;
use super::super::run::{Window, difference, play};
use super::super::sample::Sample;
use super::Choice;
use crate::kvm::{Observed, Rule};
use crate::replay::Sums;

#[derive(Debug, Clone)]
pub(super) struct Lane {
    choice: Choice,
    window: u32,
    ahead_ns: i64,
    tally: Sums,
}

impl Lane {
    pub(super) fn new(choice: Choice, rule: Rule) -> Self {
        let window = choice.start.window(choice.ceiling_ns);
        Self {
            choice,
            window: rule.entry(window, choice.ceiling_ns),
            ahead_ns: 0,
            tally: Sums::default(),
        }
    }

    pub(super) fn choice(&self) -> &Choice {
        &self.choice
    }

    /// The window of the next halt, in nanoseconds.
    pub(super) fn window(&self) -> u32 {
        self.window
    }

    /// Goes on with a window that was moved elsewhere.
    pub(super) fn take_over(&mut self, window: u32) {
        self.window = window;
    }

    /// Goes on after a halt that was played elsewhere.
    pub(super) fn set_ahead(&mut self, recorded_ns: u64, played_ns: u64) {
        self.ahead_ns = difference(recorded_ns, played_ns);
    }

    /// Totals of the halts that were played here.
    pub(super) fn tally(&self) -> Sums {
        self.tally
    }

    pub(super) fn step(
        &mut self,
        rule: Rule,
        sample: &Sample,
        table: &Table,
        follow: &Follow,
        turn: u64,
    ) {
        let gap_ns = follow.gap_ns(sample.gap_ns, sample.wake, self.ahead_ns);
        let window_ns = u64::from(self.window).min(sample.cut_ns());
        let window = Window::new(window_ns, sample.overrun(table));
        let played = play(gap_ns, window, sample, table, turn);
        let halt_ns = gap_ns.saturating_add(played.latency_ns);
        let tally = &mut self.tally;
        tally.halts += 1;
        tally.blocks += u64::from(played.waited);
        tally.failed_polls += u64::from(played.waited && window_ns > 0);
        tally.poll_ns = tally.poll_ns.saturating_add(played.poll_ns);
        tally.latency_ns = tally.latency_ns.saturating_add(played.latency_ns);
        tally.halt_ns = tally.halt_ns.saturating_add(halt_ns);
        let observed = Observed {
            halt_ns: rule.counted_ns(halt_ns, played.latency_ns),
            valid: sample.is_valid(),
            allowed: true,
        };
        let Choice {
            knobs, ceiling_ns, ..
        } = self.choice;
        let step = rule.after(&knobs, ceiling_ns, self.window, observed);
        self.window = rule.entry(step.window, ceiling_ns);
        self.ahead_ns = difference(sample.latency_ns, played.latency_ns);
    }
}
