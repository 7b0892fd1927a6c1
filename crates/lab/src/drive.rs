//! The host's side of `pingpong`: waits a drawn gap, raises the wake line, waits for the answer.

use std::io;

use haltwise_core::workload::Gaps;

use crate::clock::{self, HostWait};
use crate::event::Flag;
use crate::tsc::TscClock;
use crate::vm::Lines;

/// Tells every thread of the host's side that the run is over.
#[derive(Debug)]
pub struct Ending {
    /// Begin no further round. A round under way is played to its answer: otherwise its wake-up
    /// would be counted by the guest and missing in our rounds.
    pub no_more_rounds: Flag,
    /// Wait for no answer either: the guest will not give it.
    pub no_more_answers: Flag,
}

impl Ending {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            no_more_rounds: Flag::new()?,
            no_more_answers: Flag::new()?,
        })
    }
}

/// One wake-up and its answer, on `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    /// From the answer before (for the first round: from the guest's announcement) to the signal.
    pub gap_ns: u64,
    /// Just before the wake line was raised.
    pub signal_ns: u64,
    /// Just after it was raised: what lies between is the waker's cost.
    pub signalled_ns: u64,
    /// Whether an interrupt was raised: a guest that polls needs none.
    pub interrupted: bool,
    /// The guest's stamp of its first instruction after the wake-up, if it takes any.
    pub woke_tsc: Option<u64>,
    pub answer_ns: u64,
}

impl Round {
    pub fn round_trip_ns(&self) -> u64 {
        self.answer_ns.saturating_sub(self.signal_ns)
    }

    pub fn signal_cost_ns(&self) -> u64 {
        self.signalled_ns.saturating_sub(self.signal_ns)
    }
}

#[derive(Debug, Clone, Default)]
pub struct VcpuRounds {
    pub rounds: Vec<Round>,
    pub tsc: Option<TscClock>,
}

impl VcpuRounds {
    /// When the guest ran again, on `CLOCK_MONOTONIC`.
    pub fn woke_ns(&self, round: &Round) -> Option<u64> {
        Some(self.tsc?.ns(round.woke_tsc?))
    }

    /// From the signal until the guest ran again, of all rounds that were stamped. Where the two
    /// clocks do not compare well, a quick wake-up can come out below zero.
    pub fn wake_latencies_ns(&self) -> Vec<i64> {
        let latency = |round| {
            let woke = i128::from(self.woke_ns(round)?);
            i64::try_from(woke - i128::from(round.signal_ns)).ok()
        };
        self.rounds.iter().filter_map(latency).collect()
    }
}

/// Plays rounds until there were enough, or until the run ends. `give_work` gives the guest its work and says
/// whether that took an interrupt; `woke` reads the guest's last stamp.
pub fn drive(
    lines: &Lines,
    mut give_work: impl FnMut() -> io::Result<bool>,
    woke: impl Fn() -> Option<u64>,
    mut gaps: Gaps,
    rounds: Option<u64>,
    how: HostWait,
    ending: &Ending,
) -> io::Result<Vec<Round>> {
    clock::sleep_exactly()?;
    let mut played = Vec::new();
    let Some(mut answer_ns) = wait_answer(lines, how, ending)? else {
        return Ok(played);
    };
    while rounds.is_none_or(|rounds| (played.len() as u64) < rounds) {
        let due_ns = answer_ns.saturating_add(gaps.draw().0);
        let due = clock::wait_until(due_ns, how, &ending.no_more_rounds)?;
        if !due || ending.no_more_rounds.is_raised() {
            break;
        }
        let signal_ns = clock::now_ns();
        let interrupted = give_work()?;
        let signalled_ns = clock::now_ns();
        let Some(seen_ns) = wait_answer(lines, how, ending)? else {
            break;
        };
        played.push(Round {
            gap_ns: signal_ns.saturating_sub(answer_ns),
            signal_ns,
            signalled_ns,
            interrupted,
            woke_tsc: woke(),
            answer_ns: seen_ns,
        });
        answer_ns = seen_ns;
    }
    Ok(played)
}

/// Waits for an answer and says when it was seen; `None` if none is to be expected.
fn wait_answer(lines: &Lines, how: HostWait, ending: &Ending) -> io::Result<Option<u64>> {
    loop {
        if lines.answer.take()? > 0 {
            return Ok(Some(clock::now_ns()));
        }
        if ending.no_more_answers.is_raised() {
            return Ok(None);
        }
        if how != HostWait::Spin {
            use std::os::fd::AsFd;
            clock::wait_any([lines.answer.as_fd(), ending.no_more_answers.as_fd()], None)?;
        }
    }
}
