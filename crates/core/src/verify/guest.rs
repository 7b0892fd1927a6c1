//! Holds recorded idle periods of a guest against its governor's own rule: what haltpoll did with each
//! limit, and what [`crate::kvm::guest`] says that it does.
//!
//! For every period, the limit that the previous period left is known. The rule says whether the CPU polls first, and
//! makes of the time in HLT the call of grow or shrink (or none) and the limit left behind; all that was
//! recorded of these must be equal, to the nanosecond. As in [`super`], what cannot be checked is counted with
//! its reason.
//!
//! Three things a recording does not tell, and either answer is a match:
//! * A poll that lasted longer than its limit ended by it or by work: `poll_idle` looks at the clock in every
//!   201st turn. Where no halt follows, the governor halts at once the next time if it was the limit.
//! * A CPU whose latency limit (`PM_QOS`) is 0 polls whatever its limit is: a limit of 0 tells nothing.
//! * Where the recorder did not see cpuidle's own residency, its own clock has the time before HLT in it, too.

use std::collections::BTreeMap;

use super::loss::Losses;
use super::settings::Settings;
use super::tally::{Skip, Tally, Transition};
use super::{Did, Difference, Verdict};
use crate::event::{Halt, WindowCall, WindowChange};
use crate::ids::Tid;
use crate::kvm::Call;
use crate::kvm::guest::{Adjusted, Last, Params, Rule, State, select};

const MOST: usize = 64;

/// How much longer than cpuidle a recorder finds a stay in HLT that it timed by its own clock: two
/// tracepoints, and an interrupt between them. On emulated machines it is longer; then periods differ.
const OWN_CLOCK_NS: u64 = 20_000;

/// Rule, settings and losses that periods are checked against.
#[derive(Debug, Clone)]
pub struct Setup {
    pub rule: Rule,
    pub settings: Settings,
    /// When events were lost.
    pub losses: Losses,
}

/// Holds idle periods against the rule, one by one.
#[derive(Debug)]
pub struct Verifier {
    setup: Setup,
    cpus: BTreeMap<Tid, Cpu>,
    tally: Tally,
}

#[derive(Debug)]
struct Cpu {
    end_ns: u64,
    /// Limit that the last period left; `None` where unknown.
    limit_ns: Option<u32>,
    last: LastKnown,
}

/// How the last period ended, as far as a recording tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastKnown {
    Halt,
    /// A poll that was shorter than its limit: work ended it.
    Work,
    /// A poll of which that cannot be told.
    Poll,
}

impl LastKnown {
    fn of(halt: &Halt) -> Self {
        let within = halt
            .poll_ns
            .zip(halt.window_ns)
            .is_some_and(|(poll_ns, limit)| poll_ns <= u64::from(limit));
        match (halt.waited, within) {
            (true, _) => Self::Halt,
            (false, true) => Self::Work,
            (false, false) => Self::Poll,
        }
    }

    /// Values that the governor may have seen.
    fn possible(self) -> &'static [Last] {
        const HALT: Last = Last::Halt { residency_ns: 0 };
        const WORK: Last = Last::Poll { timed_out: false };
        const LIMIT: Last = Last::Poll { timed_out: true };
        match self {
            Self::Halt => &[HALT],
            Self::Work => &[WORK],
            Self::Poll => &[WORK, LIMIT],
        }
    }
}

/// Recorded data of a period, as evidence.
#[derive(Debug, Clone, Copy)]
struct Found {
    limit_ns: u32,
    next_ns: Option<u32>,
    call: Option<Call>,
    /// cpuidle's own residency in HLT, and what it may have been beside that.
    residencies_ns: [u64; 2],
}

impl Found {
    /// `None` where the limit is not known.
    fn of(halt: &Halt, row: Option<&WindowChange>, before: Option<u32>) -> Option<Self> {
        let call = row.map(Call::from);
        let seen = halt.window_ns.is_some();
        // Only a halt moves the limit: how long a poll was is not asked for.
        let halt_ns = match (halt.waited, halt.poll_ns) {
            (false, _) => 0,
            (true, poll_ns) => halt.halt_ns.checked_sub(poll_ns?)?,
        };
        let shortest = if seen {
            halt_ns
        } else {
            halt_ns.saturating_sub(OWN_CLOCK_NS)
        };
        let limit_ns = halt.window_ns.or(call.map(|call| call.old)).or(before)?;
        Some(Self {
            limit_ns,
            next_ns: halt.window_next_ns.or(call.map(|call| call.new)),
            call,
            residencies_ns: [halt_ns, shortest],
        })
    }

    fn fits(&self, adjusted: Adjusted) -> bool {
        let next = self.next_ns.is_none_or(|next| next == adjusted.limit_ns);
        next && self.call == adjusted.call
    }
}

impl Verifier {
    pub fn new(setup: Setup) -> Self {
        Self {
            setup,
            cpus: BTreeMap::new(),
            tally: Tally::default(),
        }
    }

    /// Counts so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The next period, in order for each CPU, with the call that it made where that was recorded.
    pub fn period(&mut self, halt: &Halt, row: Option<&WindowChange>) -> Verdict {
        let cpu = self.cpus.get(&halt.tid);
        let found = Found::of(halt, row, cpu.and_then(|cpu| cpu.limit_ns));
        let verdict = match (self.not_checked(halt, row, found.as_ref()), &found) {
            (Some(why), _) => Verdict::Skipped(why),
            (None, None) => Verdict::Skipped(Skip::Window),
            (None, Some(found)) => self.judge(halt, found),
        };
        let cpu = Cpu {
            end_ns: halt.end_ns(),
            limit_ns: found.and_then(|found| found.next_ns.or(Some(found.limit_ns))),
            last: LastKnown::of(halt),
        };
        self.cpus.insert(halt.tid, cpu);
        self.tally.add(&verdict);
        verdict
    }

    fn not_checked(
        &self,
        halt: &Halt,
        row: Option<&WindowChange>,
        found: Option<&Found>,
    ) -> Option<Skip> {
        let Some(cpu) = self.cpus.get(&halt.tid) else {
            return Some(Skip::First);
        };
        if halt.end_ns() < cpu.end_ns {
            Some(Skip::OutOfOrder)
        } else if self.setup.losses.between(cpu.end_ns, halt.end_ns()) {
            Some(Skip::Loss)
        } else if found.is_none() || cpu.limit_ns.is_none() || is_missing(halt, row) {
            Some(Skip::Window)
        } else {
            None
        }
    }

    fn judge(&mut self, halt: &Halt, found: &Found) -> Verdict {
        let Some(cpu) = self.cpus.get(&halt.tid) else {
            return Verdict::Skipped(Skip::First);
        };
        let before = cpu.limit_ns.unwrap_or(found.limit_ns);
        let Some(all) = (self.setup.settings).within(cpu.end_ns, halt.end_ns(), MOST) else {
            return Verdict::Skipped(Skip::Settings);
        };
        let all: Vec<Params> = all.into_iter().map(Params::from).collect();
        let polled = halt.polled == Some(true);
        let may_choose =
            |last: &Last| (select(before, *last, 1) == State::Poll) == polled || before == 0;
        let chosen = cpu.last.possible().iter().any(may_choose);
        let rule = self.setup.rule;
        let does = |params, residency_ns| {
            let last = if halt.waited {
                Last::Halt { residency_ns }
            } else {
                Last::Poll { timed_out: false }
            };
            rule.reflect(params, before, last)
        };
        let mut possible = all.iter().flat_map(|params| {
            let each = found.residencies_ns.iter();
            each.map(move |residency_ns| does(params, *residency_ns))
        });
        let goes_on = found.limit_ns == before;
        let fits = chosen && goes_on && possible.any(|adjusted| found.fits(adjusted));
        let (newest, several) = (all.last().copied().unwrap_or_default(), all.len());
        if fits {
            let end = Transition::of(found.call, before, found.next_ns);
            self.tally.matched(several, false, end);
            return Verdict::Matched(end);
        }
        let expected = does(&newest, found.residencies_ns[0]);
        let polls_by = |polls: bool| Some(if polls { before } else { 0 });
        let chooses = cpu
            .last
            .possible()
            .iter()
            .map(|last| select(before, *last, 1));
        let polls = chooses.map(|state| state == State::Poll).next_back();
        let difference = Difference {
            halt: *halt,
            before_ns: before,
            expected: Did {
                window_ns: polls_by(polls.unwrap_or(polled)),
                call: expected.call,
                next_ns: Some(expected.limit_ns),
            },
            found: Did {
                window_ns: Some(if polled { found.limit_ns } else { 0 }),
                call: found.call,
                next_ns: found.next_ns,
            },
            ceiling_ns: newest.guest_halt_poll_ns,
            settings: several,
            as_if_vetoed: false,
        };
        Verdict::Differs(Box::new(difference))
    }
}

/// A call was made that is not among the rows.
fn is_missing(halt: &Halt, row: Option<&WindowChange>) -> bool {
    halt.change != WindowCall::None && row.is_none()
}

#[cfg(test)]
mod test;
