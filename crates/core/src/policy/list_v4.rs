//! `list-v4`: grows on every wake-up by an interrupt, so that it ends at the ceiling and stays there.
//!
//! What is not given is as reported of the thread: from 500 us, doubled, up to 4 ms. No capture tells
//! interrupts from other wake-ups for every halt, so each valid wake-up counts as one.
//! Wins where polling always would. Loses everywhere else: the window never follows the halts down.
//! Source: version 4 of "KVM: Dynamic Halt-Polling", never merged; what of it is our reading says
//! [`Proposal::v4`](crate::kvm::history::Proposal::v4).

use super::list_v3::{FORM, proposal};
use super::{Ask, Entry, Policy, Seen};
use crate::kvm::history::Proposal;

pub(super) const ENTRY: Entry = Entry {
    name: "list-v4",
    form: FORM,
    summary: "a proposal of 2015: grows on every interrupt",
    build: |args, setting| {
        let proposal = proposal(args)?;
        Ok(Box::new(ListV4 {
            proposal,
            window: setting.start.window(proposal.ceiling),
        }))
    },
};

#[derive(Debug, PartialEq)]
struct ListV4 {
    proposal: Proposal,
    window: u32,
}

impl Policy for ListV4 {
    fn window(&mut self, _: &Ask) -> u64 {
        u64::from(self.window)
    }

    fn learn(&mut self, seen: &Seen) {
        self.window = self.proposal.v4(self.window, seen.valid);
    }
}

#[cfg(test)]
mod test;
