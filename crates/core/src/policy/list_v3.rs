//! `list-v3`: grows on every halt that outlasts its window, up to the ceiling, and then starts again.
//!
//! What is not given is as reported: from 500 us, doubled, up to 4 ms.
//! Wins where every gap is below the ceiling: the window climbs until it covers them. Loses on an idle
//! vCPU, for which it polls 7.5 ms in each five halts, for nothing. Source: version 3 of "KVM: Dynamic
//! Halt-Polling", never merged; what of it is our reading says [`Proposal::v3`].

use super::spec::{Args, SpecError};
use super::{Ask, Entry, Policy, Seen};
use crate::kvm::history::Proposal;

pub(super) const ENTRY: Entry = Entry {
    name: "list-v3",
    form: FORM,
    summary: "a proposal of 2015: grows on every long halt, then starts again",
    build: |args, setting| {
        let proposal = proposal(args)?;
        Ok(Box::new(ListV3 {
            proposal,
            window: setting.start.window(proposal.ceiling),
        }))
    },
};

/// How the knobs of both proposals are written.
pub(super) const FORM: &str = "max=TIME,grow=N,grow_start=TIME, each optional";

/// The knobs of both proposals, with the reported values for what is not given.
pub(super) fn proposal(args: &mut Args<'_>) -> Result<Proposal, SpecError> {
    let reported = Proposal::REPORTED;
    Ok(Proposal {
        ceiling: args.kvm_time("max")?.unwrap_or(reported.ceiling),
        grow: args.whole("grow")?.unwrap_or(reported.grow),
        grow_start: args.kvm_time("grow_start")?.unwrap_or(reported.grow_start),
    })
}

#[derive(Debug, PartialEq)]
struct ListV3 {
    proposal: Proposal,
    window: u32,
}

impl Policy for ListV3 {
    fn window(&mut self, _: &Ask) -> u64 {
        u64::from(self.window)
    }

    fn learn(&mut self, seen: &Seen) {
        self.window = self.proposal.v3(self.window, seen.halt_ns);
    }
}

#[cfg(test)]
mod test;
