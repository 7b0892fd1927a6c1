//! Laws of single halts, of those that follow each other on one vCPU, and of their counts.

use std::collections::BTreeMap;

use haltwise_core::event::{Halt, HaltCounts};
use haltwise_core::hist::LogHist;
use haltwise_core::ids::Tid;

use super::{ALLOWANCE_NS, Halting, Law, Laws, MOST_VCPUS};

/// The halt of a thread that loses its CPU on its way out is reported late: at most so late.
const LATE_NS: u64 = 60_000_000_000;

#[derive(Debug, Default)]
pub(super) struct LatestHalts {
    of: BTreeMap<Halting, Latest>,
    batch: u64,
}

/// A halt that was the latest of its vCPU, and where it stands.
#[derive(Debug, Clone, Copy)]
struct Latest {
    start_ns: u64,
    end_ns: u64,
    batch: u64,
    place: usize,
}

impl Laws {
    /// The halts that obey, of the next rows of their table.
    pub(crate) fn halts(&mut self, rows: Vec<Halt>) -> Vec<Halt> {
        self.halts.batch += 1;
        let mut out = vec![false; rows.len()];
        let mut any = false;
        for (place, halt) in rows.iter().enumerate() {
            if let Err((law, false_one)) = self.halt(halt, place) {
                self.breaks(law);
                out[false_one] = true;
                any = true;
            }
        }
        if !any {
            return rows;
        }
        let mut out = out.into_iter();
        rows.into_iter()
            .filter(|_| !out.next().unwrap_or_default())
            .collect()
    }

    /// The law that is broken, and by which of the rows at hand.
    fn halt(&mut self, halt: &Halt, place: usize) -> Result<(), (Law, usize)> {
        self.alone(halt).map_err(|law| (law, place))?;
        if self.one_clock {
            self.after_another(halt, place)
        } else {
            Ok(())
        }
    }

    fn alone(&self, halt: &Halt) -> Result<(), Law> {
        let end_ns = halt.start_ns.checked_add(halt.halt_ns);
        self.holds(end_ns.ok_or(Law::WithinRecording)?)?;
        self.knows(halt.vm)?;
        if halt.poll_ns.is_some_and(|poll_ns| poll_ns > halt.halt_ns) {
            return Err(Law::PollWithinHalt);
        }
        let longest = halt.halt_ns.saturating_add(LATE_NS);
        if halt.wake_latency_ns.is_some_and(|ns| ns > longest) {
            return Err(Law::LatencyWithinHalt);
        }
        Ok(())
    }

    /// If two halts overlap, the longer halt is false: it would hold many halts that are not.
    ///
    /// Rows may stand after later ones, which alone breaks no law.
    fn after_another(&mut self, halt: &Halt, place: usize) -> Result<(), (Law, usize)> {
        let halting = (halt.vm, halt.vcpu, halt.tid);
        let now = Latest {
            start_ns: halt.start_ns,
            end_ns: halt.end_ns(),
            batch: self.halts.batch,
            place,
        };
        let all = &mut self.halts.of;
        let known = all.len();
        let Some(latest) = all.get_mut(&halting) else {
            if known < MOST_VCPUS {
                all.insert(halting, now);
            }
            return Ok(());
        };
        if now.start_ns >= latest.end_ns {
            *latest = now;
            return Ok(());
        }
        if now.end_ns <= latest.start_ns || now.start_ns == now.end_ns {
            return Ok(());
        }
        if halt.halt_ns >= latest.end_ns - latest.start_ns {
            return Err((Law::NoOverlap, place));
        }
        let before = std::mem::replace(latest, now);
        // A row that was handed out cannot be taken back: then this row goes, and the next are held against this row.
        let at_hand = before.batch == now.batch;
        let false_one = if at_hand { before.place } else { place };
        Err((Law::NoOverlap, false_one))
    }
}

// Counts are read while vCPUs run, so that a halt may be in one of them and not yet in the next: what little that makes
// is allowed.

/// Halts by which counts that are read one after the other may differ, and the part of them.
const READ_APART: u64 = 16;
const PART_READ_APART: u64 = 64;

/// Times by which sums that are read one after the other may differ.
const NS_READ_APART: u64 = 1_000_000_000;

impl Laws {
    pub(crate) fn halt_counts(&mut self, row: &HaltCounts) -> Result<(), Law> {
        self.holds(row.time_ns)?;
        self.knows(row.vm)?;
        parts(row)?;
        let halting = (row.vm, row.vcpu, row.tid);
        // A halt that ended in that interval is over: all that are counted here began after that.
        let since_ns = self.counted_since.get(&halting).copied().unwrap_or(0);
        let passed_ns = row.time_ns.saturating_sub(since_ns);
        let halted_ns = row.halt_ns.sum();
        let too_long = |limit: u64| limit.saturating_add(NS_READ_APART);
        // If no table had room for halts, the halts of several vCPUs may stand in one row.
        let of_several = row.vcpu.is_none() && row.tid == Tid::default();
        let halted_too_long = !of_several && halted_ns > too_long(passed_ns);
        if halted_too_long || row.interval_ns > too_long(row.time_ns) {
            return Err(Law::TimeHasPassed);
        }
        if row.halts > 0 && (self.counted_since.len() < MOST_VCPUS || since_ns > 0) {
            let began_ns = row.time_ns.saturating_sub(row.interval_ns);
            self.counted_since.insert(halting, began_ns);
        }
        Ok(())
    }
}

/// Nothing that is counted of some halts is more than all halts.
fn parts(row: &HaltCounts) -> Result<(), Law> {
    let halts = row
        .halts
        .saturating_add(READ_APART + row.halts / PART_READ_APART);
    let wakes = row
        .wakes
        .iter()
        .fold(0_u64, |sum, &n| sum.saturating_add(n));
    let counts = [row.waited, wakes].into_iter();
    let maybe = [
        row.poll_known,
        row.polled,
        row.successful_polls,
        row.poll_cuts,
    ];
    let hists = [
        &row.halt_ns,
        &row.gap_ns,
        &row.poll_success_ns,
        &row.poll_fail_ns,
        &row.wake_latency_ns,
    ];
    let counted = hists.iter().map(|hist| hist.count());
    let mut all = counts.chain(maybe.into_iter().flatten()).chain(counted);
    let halted_ns = row.halt_ns.sum().saturating_add(NS_READ_APART);
    let polls = [&row.poll_success_ns, &row.poll_fail_ns].map(LogHist::sum);
    let latency_ns = row.wake_latency_ns.sum();
    let fits = all.all(|n| n <= halts)
        && polls[0].saturating_add(polls[1]) <= halted_ns
        && row.gap_ns.sum() <= halted_ns
        && latency_ns <= halted_ns.saturating_add(ALLOWANCE_NS);
    fits.then_some(()).ok_or(Law::PartsWithinWhole)
}
