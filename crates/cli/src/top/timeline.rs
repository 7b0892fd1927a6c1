//! The steps that are kept, and the one that is looked at. Pure.
//!
//! A live view forgets its oldest steps: memory is bounded by the number of cells, each a vCPU in a step.

use std::collections::VecDeque;

use haltwise_capture::info::Clock;
use haltwise_core::exit::names::Names;
use haltwise_core::recording::{Missing, Mode, Rung};

use crate::top::step::Step;

/// Cells of a live view, each of up to four kilobytes.
const LIVE_CELLS: usize = 10_000;

/// Steps of a live view, however few vCPUs there are: an hour in steps of a second.
const LIVE_STEPS: usize = 3_600;

#[derive(Debug, Clone, Default)]
pub(crate) struct Timeline {
    steps: VecDeque<Step>,
    cells: usize,
    /// The step that is looked at; `None` for always the newest.
    at: Option<usize>,
}

impl Timeline {
    /// Steps that are all there, in order of time, looked at from the first.
    pub(crate) fn of(steps: impl IntoIterator<Item = Step>) -> Self {
        let steps: VecDeque<Step> = steps.into_iter().collect();
        Self {
            cells: steps.iter().map(Step::cells).sum(),
            steps,
            at: Some(0),
        }
    }

    /// Adds a step that has just ended, and forgets the oldest where there are too many.
    pub(crate) fn push(&mut self, step: Step) {
        self.cells += step.cells();
        self.steps.push_back(step);
        while self.steps.len() > 1 && (self.cells > LIVE_CELLS || self.steps.len() > LIVE_STEPS) {
            if let Some(oldest) = self.steps.pop_front() {
                self.cells -= oldest.cells();
                self.at = self.at.map(|at| at.saturating_sub(1));
            }
        }
    }

    fn newest(&self) -> usize {
        self.steps.len().saturating_sub(1)
    }

    /// The number of the step that is looked at, from 0 for the oldest kept.
    pub(crate) fn position(&self) -> usize {
        self.at.unwrap_or(self.newest())
    }

    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    pub(crate) fn now(&self) -> Option<&Step> {
        self.steps.get(self.position())
    }

    /// The last `count` steps up to the one that is looked at, oldest first.
    pub(crate) fn before(&self, count: usize) -> impl DoubleEndedIterator<Item = &Step> {
        let end = (self.position() + 1).min(self.steps.len());
        self.steps.range(end.saturating_sub(count)..end)
    }

    pub(crate) fn span(&self) -> (u64, u64) {
        let first = self.steps.front().map_or(0, |step| step.start_ns);
        (first, self.steps.back().map_or(first, |step| step.end_ns))
    }

    /// Looks at a step; the last if there are not so many.
    pub(crate) fn seek(&mut self, position: usize) {
        self.at = Some(position.min(self.newest()));
    }

    pub(crate) fn seek_time(&mut self, time_ns: u64) {
        self.seek(self.steps.partition_point(|step| step.end_ns <= time_ns));
    }

    pub(crate) fn follow(&mut self) {
        self.at = None;
    }

    pub(crate) fn hold(&mut self) {
        self.seek(self.position());
    }

    pub(crate) fn follows(&self) -> bool {
        self.at.is_none()
    }

    pub(crate) fn at_end(&self) -> bool {
        self.position() >= self.newest()
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Origin {
    /// The capture's directory; `None` of a live view.
    pub(crate) capture: Option<String>,
    pub(crate) hostname: String,
    pub(crate) kernel: String,
    pub(crate) rung: Rung,
    pub(crate) mode: Mode,
    pub(crate) clock: Clock,
    /// Names of the exits; `None` if exits are not counted.
    pub(crate) names: Option<Names>,
    pub(crate) missing: Vec<Missing>,
    pub(crate) notes: Vec<String>,
    pub(crate) partial: bool,
}

impl Origin {
    pub(crate) fn is_live(&self) -> bool {
        self.capture.is_none()
    }

    /// A moment of the calendar, to the second (RFC 3339); `None` where the capture does not know it.
    pub(crate) fn utc(&self, time_ns: u64) -> Option<String> {
        if self.clock.start_unix_ns == 0 {
            return None;
        }
        let unix_ns = self.clock.unix_ns(time_ns)?;
        let text = Clock::new(time_ns, unix_ns).start_utc;
        let (whole, _millis) = text.split_once('.')?;
        Some(format!("{whole}Z"))
    }
}

#[cfg(test)]
mod test;
