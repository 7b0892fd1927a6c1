//! What was played, added up by VM and by vCPU.

use std::collections::BTreeMap;

use haltwise_core::hist::LogHist;
use haltwise_core::ids::VmIndex;
use haltwise_core::replay::Outcome;
use haltwise_core::replay::session::{Played, SeatResult};

/// vCPUs added up.
#[derive(Debug, Default)]
pub(super) struct Sum {
    pub(super) vcpus: u64,
    pub(super) recorded: Outcome,
    pub(super) played: Vec<Played>,
    pub(super) gaps: LogHist,
}

impl Sum {
    fn add(&mut self, seat: &SeatResult) {
        self.vcpus += 1;
        self.recorded.add(&seat.recorded);
        self.gaps.merge(&seat.gaps);
        self.played.resize(seat.played.len(), Played::default());
        for (sum, played) in self.played.iter_mut().zip(&seat.played) {
            sum.add(played);
        }
    }
}

/// A VM, and which of its vCPUs, if not all.
pub(super) type Whose = (Option<VmIndex>, Option<u32>);

/// The sums of a capture.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    /// Of everybody.
    pub(super) host: Sum,
    by_whom: BTreeMap<Whose, Box<Sum>>,
    /// Halts that began before an earlier one, and were left out.
    pub(super) out_of_order: u64,
}

impl Sums {
    /// Adds a vCPU.
    pub(super) fn add(&mut self, seat: &SeatResult, by_vcpu: bool) {
        self.host.add(seat);
        self.out_of_order += seat.out_of_order;
        let vm = seat.seat.vm;
        self.by_whom.entry((vm, None)).or_default().add(seat);
        if let (true, Some(vcpu)) = (by_vcpu, seat.seat.vcpu) {
            let own = self.by_whom.entry((vm, Some(vcpu.0))).or_default();
            own.add(seat);
        }
    }

    /// VMs and vCPUs in order; the only vCPU of a VM is the VM.
    pub(super) fn groups(&self) -> impl Iterator<Item = (Whose, &Sum)> {
        let is_alone = |vm| {
            self.by_whom
                .get(&(vm, None))
                .is_some_and(|vm| vm.vcpus == 1)
        };
        let groups = self.by_whom.iter();
        let groups = groups.filter(move |((vm, vcpu), _)| vcpu.is_none() || !is_alone(*vm));
        groups.map(|(whose, sum)| (*whose, &**sum))
    }
}
