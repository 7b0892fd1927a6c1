//! A recording as the report needs it: its accounts, and how they were obtained.

use std::collections::BTreeMap;

use haltwise_capture::capture::Capture;
use haltwise_capture::note::Note;
use haltwise_core::account::ledger::{Ledger, Place};
use haltwise_core::account::parts::Parts;
use haltwise_core::account::within::Interval;
use haltwise_core::event::Vm;
use haltwise_core::ids::VmIndex;
use haltwise_core::recording::{Missing, Mode, Overhead, Roster, Rung, Side};
use haltwise_core::stats::Fold;

use super::open::in_a_line;
use super::opened::Broken;

#[derive(Debug, Clone)]
pub(crate) struct Recording {
    pub(crate) rung: Rung,
    pub(crate) side: Side,
    pub(crate) mode: Mode,
    pub(crate) hostname: String,
    pub(crate) kernel: String,
    pub(crate) recorder: String,
    /// Wall clock at the start (RFC 3339), where known.
    pub(crate) started_utc: Option<String>,
    /// Start, on the host's `CLOCK_MONOTONIC`.
    pub(crate) start_ns: u64,
    /// End, on the same clock.
    pub(crate) end_ns: u64,
    /// The recording did not end by itself: what is here is all that was written.
    pub(crate) cut: bool,
    /// A part of it cannot be read, or is not as it was written.
    pub(crate) damaged: bool,
    /// Anything else the reader of the capture has to say.
    pub(crate) notes: Vec<String>,
    pub(crate) roster: Roster,
    pub(crate) missing: Vec<Missing>,
    pub(crate) overhead: Option<Overhead>,
    /// Halts that have no row and are in the accounts as counts.
    pub(crate) as_counts: u64,
    /// Events lost, by place, without those.
    pub(crate) lost: Vec<(String, u64)>,
    pub(crate) ledger: Ledger,
}

impl Recording {
    pub(crate) fn interval(&self) -> Interval {
        Interval {
            start_ns: self.start_ns,
            end_ns: self.end_ns.max(self.start_ns),
        }
    }

    pub(crate) fn interval_of(&self, vm: &Vm) -> Interval {
        let whole = self.interval();
        let there = whole.of_vm(vm);
        let has_halted = || self.ledger.of_vm(vm.index).any(|(_, of)| of.halts > 0);
        // One that did something after it was gone was there: `top` has it so, too.
        if there.length_ns() == 0 && has_halted() {
            whole
        } else {
            there
        }
    }

    pub(crate) fn within(&self, pick: impl Fn(&Place) -> bool) -> Parts {
        // Of two with one index, the first.
        let vms = self.roster.vms.iter().rev();
        let vms: BTreeMap<VmIndex, &Vm> = vms.map(|vm| (vm.index, vm)).collect();
        let of_vm = |index| Some(self.interval_of(vms.get(&index)?));
        let whole = self.interval();
        (self.ledger).within(|place| pick(place).then(|| place.vm.and_then(of_vm).unwrap_or(whole)))
    }

    pub(crate) fn within_vm(&self, vm: &Vm) -> Parts {
        let interval = self.interval_of(vm);
        let mut sum = Parts::default();
        for (_, account) in self.ledger.of_vm(vm.index) {
            sum.fold(&account.within(interval));
        }
        sum
    }

    /// Notes that a table breaks off there, unless that is known.
    pub(crate) fn breaks_off(&mut self, broken: &Broken) {
        let note = in_a_line(broken);
        if !self.notes.iter().any(|known| known.contains(&note)) {
            self.notes.push(note);
        }
        self.damaged = true;
    }

    /// Takes what is to be known about a capture that was read, unless it is known.
    pub(crate) fn take_notes(&mut self, capture: &Capture) {
        for note in capture.notes() {
            if note == Note::Cut {
                self.cut = true;
                continue;
            }
            let rows_are_whole = matches!(
                note,
                Note::OutOfOrder { .. } | Note::Dropped(_) | Note::AsCounts { .. }
            );
            self.damaged |= !rows_are_whole;
            let text = note.to_string();
            if !self.notes.contains(&text) {
                self.notes.push(text);
            }
        }
    }

    /// Events that have no row of their own: lost, or in the accounts as counts.
    pub(crate) fn without_row(&self) -> u64 {
        let lost = self.lost.iter().map(|(_, count)| *count);
        lost.fold(self.as_counts, u64::saturating_add)
    }

    /// Whether there was more than can be read.
    pub(crate) fn is_partial(&self) -> bool {
        self.cut || self.damaged || self.as_counts > 0
    }
}
