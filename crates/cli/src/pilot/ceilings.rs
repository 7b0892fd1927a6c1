//! The ceilings of VMs, asked of their VMMs at each reading.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use haltwise_core::ids::{Pid, VmKey};
use haltwise_core::pilot::input::Ceiling;
use haltwise_host::ceiling::{CeilingError, Governed, Governor};
use haltwise_host::root::Root;

/// A VMM that does not answer, or cannot be asked, is asked again at the latest after this.
const LONGEST: Duration = Duration::from_mins(1);

#[derive(Debug, Default)]
pub(crate) struct Ceilings {
    governors: BTreeMap<VmKey, Governor>,
    known: BTreeMap<VmKey, Ceiling>,
    /// VMMs without an answer: since when, and until when they are not asked.
    silent: BTreeMap<VmKey, [Instant; 2]>,
}

impl Ceilings {
    /// Asks the VMMs of these VMs, at the same time. Where some do not answer, the pilot stands still for 2 s, and later
    /// for a twentieth of the time.
    pub(crate) fn read(&mut self, root: &Root, vms: &BTreeSet<VmKey>) {
        let processes: BTreeSet<VmKey> = vms.iter().copied().map(process_of).collect();
        let mut governors = std::mem::take(&mut self.governors);
        governors.retain(|vmm, _| processes.contains(vmm));
        self.ask(&processes, Instant::now(), |due| {
            let is_new = |vmm: &&VmKey| !governors.contains_key(vmm);
            let new: Vec<VmKey> = due.iter().filter(is_new).copied().collect();
            let pids: Vec<Pid> = new.iter().map(|vmm| vmm.pid).collect();
            let mut refused = BTreeMap::new();
            for (vmm, taken) in new.into_iter().zip(Governor::of_all(root, &pids)) {
                match taken {
                    Ok(governor) if governor.key() == vmm => drop(governors.insert(vmm, governor)),
                    Ok(_) => drop(refused.insert(vmm, CeilingError::Gone(vmm.pid))),
                    Err(error) => drop(refused.insert(vmm, error)),
                }
            }
            let asked: Vec<&Governor> = due.iter().filter_map(|vmm| governors.get(vmm)).collect();
            let mut answers = Governor::vms_of(&asked).into_iter();
            let answer = |vmm: &VmKey| match refused.remove(vmm) {
                Some(error) => Err(error),
                None => answers.next().unwrap_or(Err(CeilingError::Gone(vmm.pid))),
            };
            let answers: Vec<_> = due.iter().map(answer).collect();
            // A VMM that did not answer may have a new socket by the next time.
            for (vmm, _) in due.iter().zip(&answers).filter(|(_, it)| it.is_err()) {
                governors.remove(vmm);
            }
            answers
        });
        self.governors = governors;
    }

    pub(crate) fn of(&self, vm: VmKey) -> Ceiling {
        let known = self.known.get(&vm).copied();
        known.unwrap_or(Ceiling::Fixed)
    }

    pub(crate) fn has_answered(&self, vm: VmKey) -> bool {
        !self.silent.contains_key(&process_of(vm))
    }

    fn ask(
        &mut self,
        processes: &BTreeSet<VmKey>,
        now: Instant,
        vms_of: impl FnOnce(&[VmKey]) -> Vec<Result<Vec<Governed>, CeilingError>>,
    ) {
        self.known
            .retain(|vm, _| processes.contains(&process_of(*vm)));
        self.silent.retain(|vmm, _| processes.contains(vmm));
        let is_due = |vmm: &VmKey| self.silent.get(vmm).is_none_or(|[_, until]| now >= *until);
        let due: Vec<VmKey> = processes.iter().copied().filter(is_due).collect();
        for (vmm, answer) in due.iter().zip(vms_of(&due)) {
            let error = match answer {
                Ok(vms) => {
                    self.silent.remove(vmm);
                    self.set(*vmm, vms);
                    continue;
                }
                Err(error) => error,
            };
            // As long again as it has been silent: one that has just begun may answer soon.
            let [since, until] = self.silent.entry(*vmm).or_insert([now, now]);
            *until = now + now.duration_since(*since).min(LONGEST);
            // The last answer of a VMM holds for as long as the VMM stands still.
            if let CeilingError::Absent(_) | CeilingError::Version { .. } | CeilingError::Gone(_) =
                error
            {
                // They cannot be set, or have ended.
                self.set(*vmm, Vec::new());
            }
        }
    }

    /// A ceiling was to be set, and this one was: it is what is known of the VM until its VMM answers, and the VMM is asked at
    /// the next reading, also where it has not answered.
    pub(crate) fn was_tried(&mut self, vm: VmKey, set_ns: Option<u32>) {
        self.silent.remove(&process_of(vm));
        if let Some(ns) = set_ns {
            // KVM takes no ceiling away: one that followed halt_poll_ns has its own from now on.
            self.known.insert(vm, Ceiling::Own(ns));
        }
    }

    fn set(&mut self, vmm: VmKey, mut vms: Vec<Governed>) {
        self.known.retain(|vm, _| process_of(*vm) != vmm);
        vms.sort_by_key(|vm| vm.fd);
        let keys = (0..).map(|ordinal| VmKey { ordinal, ..vmm });
        let own = vms.into_iter().map(|vm| vm.ceiling_ns);
        let ceilings = own.map(|own| own.map_or(Ceiling::Follows, Ceiling::Own));
        self.known.extend(keys.zip(ceilings));
    }
}

/// The process that runs a VM, as its first.
fn process_of(vm: VmKey) -> VmKey {
    VmKey { ordinal: 0, ..vm }
}

#[cfg(test)]
mod test {
    use super::*;

    const VMM: VmKey = VmKey {
        pid: Pid(7),
        start_ticks: 1,
        ordinal: 0,
    };
    const SECOND: VmKey = VmKey { ordinal: 1, ..VMM };

    fn vms() -> Vec<Governed> {
        let vm = |fd, ceiling_ns| Governed { fd, ceiling_ns };
        vec![vm(21, Some(50_000)), vm(9, None)]
    }

    fn answers(due: &[VmKey]) -> Vec<Result<Vec<Governed>, CeilingError>> {
        due.iter().map(|_| Ok(vms())).collect()
    }

    /// Seconds of the next ten minutes, in steps of ten, at which it was asked.
    fn asked(answered: &mut Ceilings, error: impl Fn() -> CeilingError) -> Vec<u64> {
        let (processes, began, mut at) = ([VMM].into(), Instant::now(), Vec::new());
        for second in (0..=600).step_by(10) {
            answered.ask(&processes, began + Duration::from_secs(second), |due| {
                at.extend(due.iter().map(|_| second));
                due.iter().map(|_| Err(error())).collect()
            });
        }
        at
    }

    #[test]
    fn a_vmm_that_does_not_answer_keeps_what_it_said_and_is_asked_less_often() {
        let mut answered = Ceilings::default();
        answered.ask(&[VMM].into(), Instant::now(), answers);
        let known = BTreeMap::from([(VMM, Ceiling::Follows), (SECOND, Ceiling::Own(50_000))]);
        assert_eq!(answered.known, known);
        let at = asked(&mut answered, || CeilingError::NoAnswer {
            pid: VMM.pid,
            why: "it is stopped",
        });
        let first = [0, 10, 20, 40, 80, 140];
        assert!(at.starts_with(&first), "{at:?}");
        assert_eq!(at.last(), Some(&560));
        assert_eq!(answered.known, known);
        // A VMM that has ended is forgotten.
        answered.ask(&BTreeSet::new(), Instant::now(), answers);
        assert!(answered.known.is_empty() && answered.silent.is_empty());
    }

    #[test]
    fn what_was_set_is_known_until_the_vmm_answers() {
        let (processes, now) = ([VMM].into(), Instant::now());
        let mut answered = Ceilings::default();
        answered.ask(&processes, now, answers);
        answered.was_tried(VMM, Some(20_000));
        answered.was_tried(SECOND, None);
        let stopped = |_: &[VmKey]| {
            vec![Err(CeilingError::NoAnswer {
                pid: VMM.pid,
                why: "it is stopped",
            })]
        };
        answered.ask(&processes, now, stopped);
        let known = |first| BTreeMap::from([(VMM, first), (SECOND, Ceiling::Own(50_000))]);
        assert_eq!(answered.known, known(Ceiling::Own(20_000)));
        // It is asked at once after a change that it did not answer to.
        answered.ask(&processes, now + Duration::from_mins(1), stopped);
        answered.was_tried(VMM, None);
        answered.ask(&processes, now + Duration::from_secs(61), answers);
        assert_eq!(
            answered.known,
            known(Ceiling::Follows),
            "what it says holds"
        );
    }

    #[test]
    fn where_nobody_can_be_asked_no_ceiling_is_known() {
        for error in [CeilingError::Absent, CeilingError::Gone] {
            let mut answered = Ceilings::default();
            answered.ask(&[VMM].into(), Instant::now(), answers);
            let at = asked(&mut answered, || error(VMM.pid));
            assert!(at.len() < 20, "{at:?}");
            assert!(answered.known.is_empty());
        }
    }
}
