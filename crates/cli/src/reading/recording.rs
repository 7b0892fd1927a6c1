//! A recording as the report needs it: its accounts, and how they were obtained.

use std::collections::BTreeMap;
use std::sync::Arc;

use haltwise_capture::capture::Capture;
use haltwise_capture::info::CaptureInfo;
use haltwise_capture::note::Note;
use haltwise_core::account::ledger::{Ledger, Place};
use haltwise_core::account::parts::Parts;
use haltwise_core::account::within::Interval;
use haltwise_core::event::Vm;
use haltwise_core::ids::VmIndex;
use haltwise_core::stats::Fold;

use super::opened::{Broken, in_a_line};
use crate::report::view::ReportedRecording;

#[derive(Debug, Clone)]
pub(crate) struct Recording {
    pub(crate) reported: ReportedRecording,
    pub(crate) info: Arc<CaptureInfo>,
    /// A part of it cannot be read, or is not as it was written.
    pub(crate) damaged: bool,
    pub(crate) ledger: Ledger,
}

impl Recording {
    pub(crate) fn hostname(&self) -> String {
        let hostname = self.info.host.hostname.clone();
        hostname.unwrap_or_else(|| "unnamed".to_owned())
    }

    /// Release of the kernel, as `uname -r` prints it.
    pub(crate) fn kernel(&self) -> String {
        self.info.host.kernel_release.clone()
    }

    pub(crate) fn interval(&self) -> Interval {
        let start_ns = self.reported.start_ns;
        Interval {
            start_ns,
            end_ns: start_ns.saturating_add(self.reported.duration_ns),
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
        // The first of two with one index.
        let vms = self.info.roster.vms.iter().rev();
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
        let notes = &mut self.reported.notes;
        if !notes.iter().any(|known| known.contains(&note)) {
            notes.push(note);
        }
        self.damaged = true;
    }

    /// Takes what is to be known about a capture that was read, unless it is known.
    pub(crate) fn take_notes(&mut self, capture: &Capture) {
        for note in capture.notes() {
            if note == Note::Cut {
                self.reported.cut = true;
                continue;
            }
            self.damaged |= is_damage(&note);
            let text = note.to_string();
            if !self.reported.notes.contains(&text) {
                self.reported.notes.push(text);
            }
        }
    }

    pub(crate) fn is_partial(&self) -> bool {
        self.reported.cut || self.damaged
    }
}

/// Whether rows that were recorded cannot be read, or are not as they were written.
pub(crate) fn is_damage(note: &Note) -> bool {
    !matches!(note, Note::Dropped(_))
}
