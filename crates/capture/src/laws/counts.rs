//! Laws of counts. They are read while vCPUs run, so that a halt may be in one of them and not yet in the
//! next: what little that makes is allowed.

use haltwise_core::event::HaltCounts;
use haltwise_core::hist::LogHist;
use haltwise_core::ids::Tid;

use super::{ALLOWANCE_NS, Law, Laws, MOST_VCPUS};

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
