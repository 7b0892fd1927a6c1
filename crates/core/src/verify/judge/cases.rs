//! The settings that were possible in a halt.

use crate::event::{CeilingSource, Halt};
use crate::kvm::ceiling::CeilingRule;
use crate::kvm::{Knobs, Observed, Step};
use crate::parameter::Parameter;
use crate::verify::Setup;

/// More sets of settings, or windows, than this are not tried for one halt.
pub(super) const MOST: usize = 1024;

/// Where a ceiling was taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ceiling {
    Param,
    /// The VM's own, as read when the halt ended.
    Told(u32),
}

impl Ceiling {
    pub(super) fn of(halt: &Halt) -> Self {
        match (halt.ceiling_source, halt.ceiling_ns) {
            (CeilingSource::Param, _) | (_, None) => Self::Param,
            (_, Some(ns)) => Self::Told(ns),
        }
    }
}

/// Settings that were possible in a halt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) entry_ceiling: u32,
    pub(super) ceiling: u32,
    pub(super) knobs: Knobs,
}

impl Case {
    /// Action of the rule on a halt that begins after a window of `before`: the window in force, and the step.
    pub(super) fn step(
        &self,
        setup: &Setup,
        halt: &Halt,
        before: u32,
        allowed: bool,
    ) -> (u32, Step) {
        let observed = Observed {
            halt_ns: (setup.rule).counted_ns(halt.halt_ns, halt.wake_latency_ns.unwrap_or(0)),
            valid: halt.valid,
            allowed,
        };
        let window = setup.rule.entry(before, self.entry_ceiling);
        let step = (setup.rule).after(&self.knobs, self.ceiling, window, observed);
        (window, step)
    }
}

/// When the kernel read the settings, at the earliest and at the latest.
///
/// It reads the ceiling where the halt begins, and all of them where it ends. Recorded times are late
/// by as much as the recorder was; but a halt begins after the one before it was recorded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    entry: (u64, u64),
    end: (u64, u64),
}

impl Times {
    /// Times of a halt that came after another halt.
    pub(super) fn of(before_end_ns: u64, halt: &Halt) -> Self {
        let end_ns = halt.end_ns();
        let earliest_end = before_end_ns.saturating_add(halt.halt_ns);
        Self {
            entry: (before_end_ns, halt.start_ns.max(before_end_ns)),
            end: (earliest_end.min(end_ns), end_ns),
        }
    }
}

/// Every set of settings that was possible, the newest last; `None` if these are too many.
///
/// A ceiling of the VM's own is read when a halt ends: the one that was read `before` may have been in
/// force too.
pub(super) fn possible(
    setup: &Setup,
    times: Times,
    before: Ceiling,
    now: Ceiling,
) -> Option<Vec<Case>> {
    let told = setup.cap.map(Ceiling::Told);
    let param = (setup.rule.ceiling == CeilingRule::Param).then_some(Ceiling::Param);
    let [before, now] = [before, now].map(|read| told.or(param).unwrap_or(read));
    let mut entries = Vec::with_capacity(2);
    let mut ends = Vec::with_capacity(2);
    for ceiling in [before, now] {
        let ns = match ceiling {
            Ceiling::Told(ns) => Some(ns),
            Ceiling::Param => None,
        };
        if !ends.contains(&ns) {
            let params = setup
                .settings
                .track(Parameter::HaltPollNs)
                .within(times.entry.0, times.entry.1);
            entries.extend(ns);
            entries.extend(params.filter(|_| ns.is_none()));
            ends.push(ns);
        }
    }
    let all_knobs = setup.settings.within(times.end.0, times.end.1, MOST)?;
    let mut cases = Vec::with_capacity(1);
    for knobs in all_knobs.into_iter().map(Knobs::from) {
        for end in &ends {
            for &entry_ceiling in &entries {
                let case = Case {
                    entry_ceiling,
                    ceiling: end.unwrap_or(knobs.halt_poll_ns),
                    knobs,
                };
                if !cases.contains(&case) {
                    cases.push(case);
                }
            }
        }
        if cases.len() > MOST {
            return None;
        }
    }
    Some(cases)
}

/// Whether the ceiling was 0 from a halt's beginning to its end, whichever settings were in force.
pub(super) fn only_zero(setup: &Setup, halt: &Halt) -> bool {
    let ceiling = Ceiling::of(halt);
    let cases = possible(setup, Times::of(halt.start_ns, halt), ceiling, ceiling);
    let is_zero = |case: &Case| case.entry_ceiling == 0 && case.ceiling == 0;
    cases.is_some_and(|cases| cases.iter().all(is_zero))
}
