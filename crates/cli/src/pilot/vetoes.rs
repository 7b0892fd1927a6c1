//! Guests that keep their host from polling.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use haltwise_core::event::Vcpu;
use haltwise_core::ids::VmKey;

/// So long after facts showed it, a guest is looked at again: as rarely as any VM.
const HOLDS: Duration = Duration::from_secs(320);

/// Known vetoes of guests. BPF reads what the guest wrote (`MSR_KVM_POLL_CONTROL`) with each count; with counts from
/// tracepoints, facts show the veto.
#[derive(Debug, Default)]
pub(crate) struct Vetoes(BTreeMap<VmKey, Instant>);

impl Vetoes {
    pub(crate) fn note(&mut self, vm: VmKey, is_vetoed: bool, now: Instant) {
        if is_vetoed {
            self.0.insert(vm, now);
        } else {
            self.0.remove(&vm);
        }
    }

    /// Whether a VM's guest lets its host poll on none of its vCPUs.
    pub(crate) fn holds<'a>(
        &self,
        vm: VmKey,
        vcpus: impl Iterator<Item = &'a Vcpu>,
        now: Instant,
    ) -> bool {
        // One that has not run yet has no thread, and nothing to say.
        let vcpus = vcpus.filter(|vcpu| vcpu.tid.0 != 0);
        let mut read = vcpus.filter_map(|vcpu| vcpu.guest_veto).peekable();
        if read.peek().is_some() {
            return read.all(|is_vetoed| is_vetoed);
        }
        let noted = self.0.get(&vm);
        noted.is_some_and(|at| now.saturating_duration_since(*at) < HOLDS)
    }

    pub(crate) fn forget(&mut self, is_here: impl Fn(&VmKey) -> bool, now: Instant) {
        let is_new = |at: &Instant| now.saturating_duration_since(*at) < HOLDS;
        self.0.retain(|vm, at| is_new(at) && is_here(vm));
    }
}

#[cfg(test)]
mod test {
    use haltwise_core::event::CeilingSource;
    use haltwise_core::ids::{Pid, Tid, VcpuId, VmIndex};

    use super::*;

    const VM: VmKey = VmKey {
        pid: Pid(7),
        start_ticks: 1,
        ordinal: 0,
    };

    fn vcpu(guest_veto: Option<bool>) -> Vcpu {
        Vcpu {
            vm: VmIndex(0),
            id: VcpuId(0),
            tid: Tid(8),
            window_ns: None,
            ceiling_ns: None,
            ceiling_source: CeilingSource::Unknown,
            guest_veto,
            time: None,
        }
    }

    #[test]
    fn what_facts_showed_holds_for_a_while() {
        let (mut vetoes, began) = (Vetoes::default(), Instant::now());
        let unread = [vcpu(None)];
        let holds = |vetoes: &Vetoes, after| vetoes.holds(VM, unread.iter(), began + after);
        assert!(!holds(&vetoes, Duration::ZERO));
        vetoes.note(VM, true, began);
        assert!(holds(&vetoes, Duration::ZERO));
        assert!(holds(
            &vetoes,
            HOLDS.saturating_sub(Duration::from_nanos(1))
        ));
        assert!(!holds(&vetoes, HOLDS));
        // Facts that show otherwise count at once.
        vetoes.note(VM, false, began);
        assert!(!holds(&vetoes, Duration::ZERO));
        vetoes.note(VM, true, began);
        vetoes.forget(|_| true, began);
        assert!(holds(&vetoes, Duration::ZERO));
        vetoes.forget(|_| false, began);
        assert!(!holds(&vetoes, Duration::ZERO));
        vetoes.note(VM, true, began);
        vetoes.forget(|_| true, began + HOLDS);
        assert!(vetoes.0.is_empty(), "it does not grow");
    }

    #[test]
    fn what_is_read_of_a_guest_counts_and_one_vcpu_that_may_be_polled_for_is_enough() {
        let (mut vetoes, now) = (Vetoes::default(), Instant::now());
        let [yes, no, unread] = [Some(true), Some(false), None].map(vcpu);
        assert!(vetoes.holds(VM, [&yes, &yes].into_iter(), now));
        assert!(!vetoes.holds(VM, [&yes, &no].into_iter(), now));
        assert!(vetoes.holds(VM, [&yes, &unread].into_iter(), now));
        let has_not_run = Vcpu {
            tid: Tid(0),
            ..no.clone()
        };
        assert!(vetoes.holds(VM, [&yes, &has_not_run].into_iter(), now));
        vetoes.note(VM, true, now);
        assert!(!vetoes.holds(VM, [&no].into_iter(), now));
    }
}
