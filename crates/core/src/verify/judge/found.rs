//! Recorded data of a halt's window, and whether a step of the rule fits the data.

use crate::event::{Halt, WindowCall, WindowChange};
use crate::kvm::{Call, Step};
use crate::verify::{Did, Sight};

impl Did {
    /// The evidence in a halt; `None` where a call lacks its windows. Where there is no call, the window in
    /// force is only as good as the recorder's idea of the ceiling.
    pub(in crate::verify) fn found(
        halt: &Halt,
        row: Option<&WindowChange>,
        sight: Sight,
    ) -> Option<Self> {
        let grow = halt.change == WindowCall::Grow;
        if halt.change == WindowCall::None {
            let seen = sight == Sight::Vcpu && halt.window_next_ns.is_some();
            return Some(Self {
                call: None,
                window_ns: halt.window_ns.filter(|_| seen),
                next_ns: halt.window_next_ns.filter(|_| seen),
            });
        }
        let call = match row.filter(|row| row.grow == grow) {
            Some(row) => row.into(),
            None => Call {
                grow,
                old: halt.window_ns?,
                new: halt.window_next_ns?,
            },
        };
        Some(Self {
            call: Some(call),
            window_ns: halt.window_ns.or(Some(call.old)),
            next_ns: halt.window_next_ns.or(Some(call.new)),
        })
    }

    /// Window that the next halt starts from, if certain.
    pub(super) fn left(&self) -> Option<u32> {
        self.next_ns.or(self.call.map(|call| call.new))
    }

    pub(in crate::verify) fn fits(&self, window: u32, step: Step) -> bool {
        self.call == step.call
            && self.window_ns.is_none_or(|found| found == window)
            && self.next_ns.is_none_or(|found| found == step.window)
    }
}
