//! State of one VM: its readings, its views, and the full facts of the VM that are kept.

use std::collections::VecDeque;

use super::evidence::OfVm;
use super::input::{Counts, VmSeen};
use super::view::{Compared, View};

/// Stretches of full facts that are kept of a VM: a phase's last minutes.
pub(super) const CHUNKS: usize = 4;

/// Excerpts that are kept of its last trial: under the setting before, and under the one tried.
pub(super) const TRIED: usize = 2;

/// Between two looks at the same VM at first, and at most: a phase that goes on needs few.
const LOOKS_NS: std::ops::RangeInclusive<u64> = 10_000_000_000..=320_000_000_000;

/// While another setting than the one found is in force, its regret rests on a look no older than this, as long as the
/// budget of looks lasts.
const HELD_NS: u64 = 60_000_000_000;

/// Counts may fail to come this often in a row.
pub(super) const BLIND: u32 = 3;

/// A VM with so many halts in a second has one in a look of 3 s, but for one look of 160,000 (Poisson).
const SURE_PER_S: f64 = 4.0;

#[derive(Debug)]
pub(super) struct Member<C> {
    pub(super) seen: VmSeen,
    pub(super) view: View,
    pub(super) chunks: VecDeque<C>,
    pub(super) tried: [Option<C>; TRIED],
    /// The last counts that could be true.
    pub(super) counts: Option<Counts>,
    /// Readings in a row that were missing, or could not be true.
    pub(super) blind: u32,
    pub(super) looked_ns: Option<u64>,
    spacing_ns: u64,
    pub(super) empty_looks: u32,
}

impl<C> Member<C> {
    pub(super) fn new(seen: VmSeen, now_ns: u64) -> Self {
        Self {
            seen,
            view: View::new(now_ns),
            chunks: VecDeque::new(),
            tried: [None, None],
            counts: None,
            blind: 0,
            looked_ns: None,
            spacing_ns: *LOOKS_NS.start(),
            empty_looks: 0,
        }
    }

    /// Takes a reading in; gives whether it was dropped, and what it says of the load.
    pub(super) fn take(&mut self, seen: &VmSeen, counted: bool, now_ns: u64) -> (bool, Compared) {
        self.seen.clone_from(seen);
        if !counted {
            return (false, Compared::Same);
        }
        let Some(counts) = seen.counts.filter(|it| it.is_possible(seen.vcpus)) else {
            self.blind = self.blind.saturating_add(1);
            self.counts = None;
            return (seen.counts.is_some(), Compared::Same);
        };
        self.blind = 0;
        self.counts = Some(counts);
        let compared = self.view.take(&counts, now_ns);
        if compared != Compared::Same {
            self.spacing_ns = *LOOKS_NS.start();
            self.looked_ns = None;
        }
        if compared == Compared::Phase {
            // The recorded facts are of another load.
            while self.chunks.len() > 1 {
                self.chunks.pop_front();
            }
            self.tried = [None, None];
        }
        (false, compared)
    }

    /// These stretches of it, with what else is known of it.
    pub(super) fn facts<'a>(&'a self, chunks: Vec<&'a C>) -> OfVm<'a, C> {
        OfVm {
            weight_milli: self.weight_milli().unwrap_or(0),
            vcpus: self.seen.vcpus,
            chunks,
            tried: self.tried.iter().flatten().collect(),
        }
    }

    /// Weight of latency for the VM, in thousandths of CPU, where the VM has a goal.
    pub(super) fn weight_milli(&self) -> Option<u64> {
        self.seen.goal.as_ref().map(|goal| goal.weight_milli)
    }

    pub(super) fn halts(&self) -> u64 {
        self.counts.map_or(0, |counts| counts.halts)
    }

    pub(super) fn is_blind(&self) -> bool {
        self.blind >= BLIND || self.empty_looks >= BLIND
    }

    pub(super) fn due_ns(&self, is_held: bool) -> u64 {
        let spacing = if is_held {
            self.spacing_ns.min(HELD_NS)
        } else {
            self.spacing_ns
        };
        self.looked_ns
            .map_or(0, |looked_ns| looked_ns.saturating_add(spacing))
    }

    pub(super) fn looked(&mut self, chunk: Option<C>, now_ns: u64) {
        if self.looked_ns.is_some() && self.chunks.len() >= CHUNKS {
            self.spacing_ns = (self.spacing_ns * 2).min(*LOOKS_NS.end());
        }
        self.looked_ns = Some(now_ns);
        let halts = |counts: &Counts| counts.per_s(counts.halts) >= SURE_PER_S;
        if let Some(chunk) = chunk {
            self.empty_looks = 0;
            if self.view.is_unlike() {
                // Looks before that are of another load, or this one is of a moment: they do not belong together.
                self.chunks.clear();
            }
            self.chunks.push_back(chunk);
        } else if self.counts.as_ref().is_none_or(halts) {
            self.empty_looks = self.empty_looks.saturating_add(1);
        } else {
            // One that is idle, or busy, has no halt to be recorded.
            self.empty_looks = 0;
        }
        while self.chunks.len() > CHUNKS {
            self.chunks.pop_front();
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::ids::{Pid, VmKey};
    use crate::pilot::input::Ceiling;

    const STEP_NS: u64 = 10_000_000_000;

    fn seen(halts: u64) -> VmSeen {
        VmSeen {
            key: VmKey::first(Pid(1), 1),
            vcpus: 1,
            ceiling: Ceiling::Fixed,
            has_answered: true,
            counts: Some(Counts {
                interval_ns: STEP_NS,
                halts,
                blocks: halts,
                poll_ns: 0,
                failed_poll_ns: 0,
                halt_ns: halts * 10_000,
            }),
            ..VmSeen::default()
        }
    }

    #[test]
    fn what_a_trial_showed_is_forgotten_with_its_load() {
        let mut member = Member::new(seen(10_000), 0);
        let mut phases = Vec::new();
        for at in 1..=40 {
            if at == 20 {
                member.tried = [Some(1), Some(2)];
            }
            let halts = if at <= 20 { 10_000 } else { 100_000 };
            let (_, compared) = member.take(&seen(halts), true, at * STEP_NS);
            if compared == Compared::Phase {
                phases.push(at);
                assert_eq!(member.tried, [None, None]);
            } else if at >= 20 && phases.is_empty() {
                assert_eq!(member.tried, [Some(1), Some(2)], "{at}");
            }
        }
        assert_eq!(phases.len(), 1, "{phases:?}");
    }
}
