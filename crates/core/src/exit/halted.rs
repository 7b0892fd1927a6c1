//! The halted time that exits hold: of the halts whose exits were seen.
//!
//! A halt need not have an exit: one under way when the recording began has none, and where KVM emulates the
//! instruction it tells of none. Their sleep is not taken off the time of the others' exits. Which halts an
//! exit holds is not recorded; of a vCPU with fewer timed exits than halts, all its halts stand for them in
//! proportion.

use std::collections::BTreeMap;

use super::{Exits, Kind};
use crate::account::Account;
use crate::account::ledger::{Ledger, Place};
use crate::account::parts::Parts;
use crate::stats::Fold;

/// Exits by which vCPUs halted, of each vCPU by itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HaltExits(BTreeMap<Place, Timed>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Timed {
    count: u64,
    time_ns: u64,
}

impl HaltExits {
    /// Adds a row, if it is of such exits.
    pub fn add(&mut self, row: &Exits) {
        if row.cause.kind != Kind::Exit || !row.cause.is_halt() {
            return;
        }
        let (vm, vcpu) = (row.vm, row.vcpu);
        let timed = self.0.entry(Place { vm, vcpu }).or_default();
        timed.count.fold(&row.handling_ns.count());
        timed.time_ns.fold(&row.handling_ns.sum());
    }

    /// The halted time that they hold: never more than their own. Of vCPUs without recorded halts it is not known
    /// what they did.
    pub fn halted(&self, ledger: &Ledger) -> Parts {
        let mut sum = Parts::default();
        for (place, timed) in &self.0 {
            let account = ledger.account(place).filter(|account| account.halts > 0);
            sum.fold(&match account {
                Some(account) => timed.halted(account),
                None => Parts {
                    unknown_ns: timed.time_ns,
                    ..Parts::default()
                },
            });
        }
        sum
    }
}

impl Timed {
    fn halted(self, account: &Account) -> Parts {
        let seen = self.count.min(account.halts);
        let part = account.parts.part(seen, account.halts);
        part.at_most(self.time_ns)
    }
}

#[cfg(test)]
mod test {
    use proptest::prelude::*;

    use super::*;
    use crate::event::Halt;
    use crate::exit::account::test::{HLT, cause, row};
    use crate::ids::VcpuId;

    fn exits(vcpu: u32, times: &[u64]) -> Exits {
        Exits {
            vcpu: Some(VcpuId(vcpu)),
            ..row(1, 0, cause(Kind::Exit, HLT), times, 0, 0)
        }
    }

    fn ledger(halts: &[(u32, u64)]) -> Ledger {
        let mut ledger = Ledger::default();
        for (vcpu, halt_ns) in halts {
            ledger.halt(&Halt {
                vcpu: Some(VcpuId(*vcpu)),
                ..Halt::under(0, 0, *halt_ns, 0)
            });
        }
        ledger
    }

    #[test]
    fn the_sleep_of_halts_without_an_exit_is_not_taken_off() {
        let mut seen = HaltExits::default();
        seen.add(&exits(0, &[1_200]));
        let mut idle_hlt = exits(0, &[1_200]);
        idle_hlt.cause.reason = Some(0xa6);
        seen.add(&idle_hlt);
        // vCPU 0 halted four times, twice by an exit that was seen; vCPU 1 by none.
        let ledger = ledger(&[(0, 1_000), (0, 1_000), (0, 1_000), (0, 1_000), (1, 9_000)]);
        let halted = seen.halted(&ledger);
        assert_eq!((halted.sleep_ns, halted.total_ns()), (2_000, 2_000));
    }

    proptest! {
        /// Exits hold no more halted time than their own.
        #[test]
        fn no_part_exceeds_its_whole(
            times in prop::collection::vec((0..3_u32, 0..1_u64 << 40), 0..20),
            halts in prop::collection::vec((0..3_u32, 0..1_u64 << 40), 0..20),
        ) {
            let mut seen = HaltExits::default();
            let mut all = 0;
            for (vcpu, ns) in times {
                seen.add(&exits(vcpu, &[ns]));
                all += ns;
            }
            let ledger = ledger(&halts);
            prop_assert!(seen.halted(&ledger).total_ns() <= all);
        }
    }
}
