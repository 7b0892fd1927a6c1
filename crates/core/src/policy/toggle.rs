//! `toggle:max=200us`: all or nothing, by whether the last halt would have fitted under the ceiling.
//!
//! What `max` does not give is the ceiling in force when recorded. `start` at the ceiling begins
//! switched on.
//! Wins where KVM's rule does, and comes back after one halt rather than after six: nearly as good, said
//! the review that proposed it. Loses where single short halts stand between long ones: each buys a
//! whole ceiling of polling. Source: Matlack on the kernel's list, 2015-09-01
//! ([`Proposal::toggle`]); any kernel since 5.16 does the same with `grow_start` at the ceiling and a
//! divisor of 2 or more.

use super::{Ask, Entry, Policy, Seen};
use crate::kvm::history::Proposal;

pub(super) const ENTRY: Entry = Entry {
    name: "toggle",
    form: "max=TIME, optional",
    summary: "window 0 or the ceiling, by the last halt",
    build: |args, setting| {
        let ceiling = args.kvm_time("max")?.unwrap_or(setting.ceiling_ns);
        Ok(Box::new(Toggle {
            proposal: Proposal {
                ceiling,
                ..Proposal::REPORTED
            },
            window: setting.start.window(ceiling),
        }))
    },
};

#[derive(Debug, PartialEq)]
struct Toggle {
    proposal: Proposal,
    window: u32,
}

impl Policy for Toggle {
    fn window(&mut self, _: &Ask) -> u64 {
        u64::from(self.window)
    }

    fn learn(&mut self, seen: &Seen) {
        self.window = self.proposal.toggle(self.window, seen.halt_ns);
    }
}

#[cfg(test)]
mod test;
