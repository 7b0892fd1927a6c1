//! Results of a replay, added up by VM and by vCPU.

use haltwise_core::hist::LogHist;
use haltwise_core::ids::VmIndex;
use haltwise_core::replay::Outcome;
use haltwise_core::replay::session::{Played, VcpuResult};
use haltwise_core::stats::Fold;

#[derive(Debug, Default)]
pub(super) struct Sum {
    pub(super) vcpus: u64,
    pub(super) recorded: Outcome,
    pub(super) played: Vec<Played>,
    pub(super) gaps: LogHist,
}

impl Sum {
    pub(super) fn add(&mut self, seat: &VcpuResult) {
        self.vcpus += 1;
        self.recorded.fold(&seat.recorded);
        self.gaps.merge(&seat.gaps);
        self.played.resize(seat.played.len(), Played::default());
        for (sum, played) in self.played.iter_mut().zip(&seat.played) {
            sum.add(played);
        }
    }
}

/// A VM, and which of its vCPUs, if not all.
pub(super) type Whose = (Option<VmIndex>, Option<u32>);

/// One VM added up. Each is done with before the next one begins, so that those of many do not lie in memory
/// together.
#[derive(Debug)]
pub(super) struct OfVm {
    vm: Option<VmIndex>,
    whole: Sum,
    vcpus: Vec<(u32, Sum)>,
}

impl OfVm {
    /// VM by VM; `seats` come in order. vCPUs too where `by_vcpu`.
    pub(super) fn each(
        seats: impl Iterator<Item = VcpuResult>,
        by_vcpu: bool,
    ) -> impl Iterator<Item = Self> {
        let mut seats = seats.peekable();
        std::iter::from_fn(move || {
            let vm = seats.peek()?.seat.vm;
            let mut of_vm = Self {
                vm,
                whole: Sum::default(),
                vcpus: Vec::new(),
            };
            while let Some(seat) = seats.next_if(|next| next.seat.vm == vm) {
                of_vm.add(&seat, by_vcpu);
            }
            Some(of_vm)
        })
    }

    fn add(&mut self, seat: &VcpuResult, by_vcpu: bool) {
        self.whole.add(seat);
        let Some(vcpu) = seat.seat.vcpu.filter(|_| by_vcpu) else {
            return;
        };
        match self.vcpus.last_mut() {
            Some((last, own)) if *last == vcpu.0 => own.add(seat),
            _ => {
                let mut own = Sum::default();
                own.add(seat);
                self.vcpus.push((vcpu.0, own));
            }
        }
    }

    /// The VM and its vCPUs in order; the only vCPU of a VM is the VM.
    pub(super) fn groups(&self) -> impl Iterator<Item = (Whose, &Sum)> {
        let is_alone = self.whole.vcpus == 1;
        let vcpus = self.vcpus.iter().filter(move |_| !is_alone);
        let vcpus = vcpus.map(|(vcpu, own)| ((self.vm, Some(*vcpu)), own));
        std::iter::once(((self.vm, None), &self.whole)).chain(vcpus)
    }
}
