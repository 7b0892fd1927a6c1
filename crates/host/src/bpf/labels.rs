//! Names of processes. The tenants decide how long a lookup takes (descriptors, threads), so a walk has a limit.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use haltwise_core::ids::{Pid, VmKey};

use crate::discovery::{self, VmLabel};
use crate::root::Root;

/// The looks of the first walk together, and of each later one.
const FIRST: Duration = Duration::from_secs(1);
const WALK: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) struct Labels {
    root: Root,
    known: BTreeMap<VmKey, VmLabel>,
    /// Processes that are called by their number until there is time for a look.
    waiting: BTreeSet<VmKey>,
    left: Duration,
}

impl Labels {
    pub(super) fn new(root: Root) -> Self {
        Self {
            root,
            known: BTreeMap::new(),
            waiting: BTreeSet::new(),
            left: FIRST,
        }
    }

    pub(super) fn of(&mut self, process: VmKey) -> VmLabel {
        if let Some(label) = self.known.get(&process) {
            return label.clone();
        }
        if self.left.is_zero() {
            self.waiting.insert(process);
            return VmLabel::named(format!("pid {}", process.pid));
        }
        let began = Instant::now();
        let label = label_of(&self.root, process.pid);
        self.left = self.left.saturating_sub(began.elapsed());
        self.known.insert(process, label.clone());
        label
    }

    /// A walk begins: gives the processes that waited and have a label now.
    pub(super) fn walk(&mut self) -> Vec<(VmKey, VmLabel)> {
        if !self.known.is_empty() {
            self.left = WALK;
        }
        let waited = std::mem::take(&mut self.waiting).into_iter();
        let labels: Vec<_> = waited.map(|process| (process, self.of(process))).collect();
        let has_one = |(process, _): &(VmKey, _)| !self.waiting.contains(process);
        labels.into_iter().filter(has_one).collect()
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn retain(&mut self, pids: &BTreeSet<Pid>) {
        self.known.retain(|process, _| pids.contains(&process.pid));
        self.waiting.retain(|process| pids.contains(&process.pid));
    }
}

fn label_of(root: &Root, pid: Pid) -> VmLabel {
    discovery::identify(root, pid).map_or_else(
        || VmLabel::named(discovery::unidentified(root, pid)),
        |process| process.label,
    )
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_process_is_called_by_its_number_until_there_is_time_for_a_look() {
        let (_folder, root) = crate::root::made_up(&[("proc/7/comm", "vmm\n")]);
        let mut labels = Labels::new(root);
        labels.left = Duration::ZERO;
        let process = VmKey::first(Pid(7), 1);
        assert_eq!(labels.of(process).name, "pid 7");
        assert_eq!((labels.walk().len(), labels.waiting()), (0, 1));
        labels.left = WALK;
        let named = labels.walk();
        assert_eq!((named[0].0, &*named[0].1.name), (process, "vmm-7"));
        assert_eq!((labels.walk().len(), labels.waiting()), (0, 0));
        assert_eq!(labels.of(process), named[0].1);
    }
}
