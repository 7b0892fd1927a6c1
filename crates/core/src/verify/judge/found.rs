//! What was recorded of a halt's window, and whether a step of the rule fits it.

use crate::event::{Halt, WindowCall, WindowChange};
use crate::kvm::{Call, Step};
use crate::verify::{Did, Sight};

/// What was recorded of a halt's window.
#[derive(Debug, Clone, Copy)]
pub(in crate::verify) struct Found {
    pub(super) call: Option<Call>,
    /// In force; where there is no call, only as good as the recorder's idea of the ceiling.
    pub(super) window: Option<u32>,
    pub(super) next: Option<u32>,
}

impl Found {
    /// The evidence in a halt; `None` where a call lacks its windows.
    pub(in crate::verify) fn of(
        halt: &Halt,
        row: Option<&WindowChange>,
        sight: Sight,
    ) -> Option<Self> {
        let grow = halt.change == WindowCall::Grow;
        if halt.change == WindowCall::None {
            let seen = sight == Sight::Vcpu && halt.window_next_ns.is_some();
            return Some(Self {
                call: None,
                window: halt.window_ns.filter(|_| seen),
                next: halt.window_next_ns.filter(|_| seen),
            });
        }
        let call = match row.filter(|row| row.grow == grow) {
            Some(row) => Call {
                grow,
                old: row.old_ns,
                new: row.new_ns,
            },
            None => Call {
                grow,
                old: halt.window_ns?,
                new: halt.window_next_ns?,
            },
        };
        Some(Self {
            call: Some(call),
            window: halt.window_ns.or(Some(call.old)),
            next: halt.window_next_ns.or(Some(call.new)),
        })
    }

    /// What the next halt starts from, if that is certain.
    pub(super) fn left(&self) -> Option<u32> {
        self.next.or(self.call.map(|call| call.new))
    }

    pub(super) fn fits(&self, window: u32, step: Step) -> bool {
        self.call == step.call
            && self.window.is_none_or(|found| found == window)
            && self.next.is_none_or(|found| found == step.window)
    }

    pub(super) fn did(&self) -> Did {
        Did {
            window_ns: self.window,
            call: self.call,
            next_ns: self.next,
        }
    }
}
