//! Activity of each vCPU over the whole recording: shares of its time in steps of equal length, however
//! long the recording is.
//!
//! The time before a vCPU's first halt and after its last is not told: it may have run, or halted for
//! longer, or not been there.

use std::collections::BTreeMap;

use haltwise_core::account::parts::Parts;
use haltwise_core::event::Halt;
use haltwise_core::replay::VcpuKey;

use super::sample::Packed;

pub(crate) const STEPS: usize = 240;

/// vCPUs that are shown: those that halt most. More make the file long and the reader no wiser.
const MOST: usize = 96;

/// States of a vCPU, in the order in which the page stacks them.
pub(crate) const STATES: [&str; 7] = [
    "guest running",
    "poll, ended by a wake",
    "failed poll",
    "sleep",
    "wake-up latency",
    "no schedule()",
    "not known",
];

type Spent = [u64; STATES.len()];

#[derive(Debug)]
pub(crate) struct Overview {
    /// vCPU by vCPU; those that could not be placed last.
    pub(crate) rows: Vec<VcpuLane>,
    pub(crate) span_ns: u64,
    /// vCPUs that are left out, for there are too many.
    pub(crate) left_out: usize,
}

#[derive(Debug)]
pub(crate) struct VcpuLane {
    pub(crate) seat: VcpuKey,
    pub(crate) halts: u64,
    steps: Vec<Spent>,
    /// The step of the last stretch, and its end since the start of the recording.
    step: usize,
    step_end_ns: u64,
}

#[derive(Debug)]
pub(crate) struct Gather {
    start_ns: u64,
    span_ns: u64,
    seats: BTreeMap<(bool, VcpuKey), (VcpuLane, u64)>,
}

impl Gather {
    pub(crate) fn new(start_ns: u64, span_ns: u64) -> Self {
        Self {
            start_ns,
            span_ns,
            seats: BTreeMap::new(),
        }
    }

    pub(crate) fn halt(&mut self, halt: &Halt) {
        let seat = VcpuKey::of(halt);
        let since = |ns: u64| ns.saturating_sub(self.start_ns);
        let (from, end) = (since(halt.start_ns), since(halt.end_ns()));
        let new = || {
            let row = VcpuLane {
                seat,
                halts: 0,
                steps: vec![Spent::default(); STEPS],
                step: 0,
                step_end_ns: edge_ns(1, self.span_ns),
            };
            (row, from)
        };
        let key = (seat.vm.is_none(), seat);
        let (row, last) = self.seats.entry(key).or_insert_with(new);
        row.halts += 1;
        let from = from.max(*last);
        row.spend(0, *last, from, self.span_ns);
        let mut at = from;
        for (state, ns) in states(halt) {
            let to = at.saturating_add(ns).min(end);
            row.spend(state, at, to, self.span_ns);
            at = to;
        }
        *last = end.max(*last);
    }

    pub(crate) fn finish(self) -> Overview {
        let mut rows: Vec<VcpuLane> = self.seats.into_values().map(|(row, _)| row).collect();
        let left_out = rows.len().saturating_sub(MOST);
        if left_out > 0 {
            let mut halts: Vec<u64> = rows.iter().map(|row| row.halts).collect();
            halts.sort_unstable_by_key(|halts| std::cmp::Reverse(*halts));
            let least = halts[MOST - 1];
            rows.retain(|row| row.halts >= least);
            rows.truncate(MOST);
        }
        Overview {
            rows,
            span_ns: self.span_ns,
            left_out,
        }
    }
}

fn states(halt: &Halt) -> [(usize, u64); 6] {
    let parts = Parts::of_halt(halt);
    [
        (1, parts.poll_success_ns),
        (2, parts.poll_fail_ns),
        (5, parts.turned_back_ns),
        (6, parts.unknown_ns),
        (3, parts.sleep_ns),
        (4, parts.wake_latency_ns),
    ]
}

fn edge_ns(step: usize, span_ns: u64) -> u64 {
    let edge = u128::from(span_ns) * step as u128 / STEPS as u128;
    u64::try_from(edge).unwrap_or(u64::MAX)
}

impl VcpuLane {
    /// Adds a stretch of one state, which begins no earlier than the stretch before ended.
    fn spend(&mut self, state: usize, mut from: u64, to: u64, span_ns: u64) {
        while from < to
            && let Some(spent) = self.steps.get_mut(self.step)
        {
            let end = to.min(self.step_end_ns).max(from);
            spent[state] = spent[state].saturating_add(end - from);
            from = end;
            if end < to {
                self.step += 1;
                self.step_end_ns = edge_ns(self.step + 1, span_ns);
            }
        }
    }

    /// Shares of each step in 255ths, state by state; together less than 255 where it is not told.
    pub(crate) fn shares(&self, span_ns: u64) -> Vec<[u8; STATES.len()]> {
        let span = u128::from(span_ns.max(1));
        let shares = self.steps.iter().map(|spent| {
            spent.map(|ns| {
                let share = (u128::from(ns) * 255 * STEPS as u128 + span / 2) / span;
                u8::try_from(share).unwrap_or(u8::MAX)
            })
        });
        shares.collect()
    }

    pub(crate) fn packed(&self, span_ns: u64) -> String {
        let mut packed = Packed::default();
        for shares in self.shares(span_ns) {
            packed.bytes(&shares);
        }
        packed.text()
    }
}

#[cfg(test)]
mod test;
