//! Whether the processes of VMs still run: noticed at the next look, for as good as nothing.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use haltwise_core::event::Vm;
use haltwise_core::ids::{VmIndex, VmKey};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::is_alive;
use crate::root::Root;

/// Processes that are watched by a descriptor; the files of others are read now and then.
const DESCRIPTORS: usize = 256;

const READ_NS: u64 = 500_000_000;

/// The processes of the VMs that are there, each by its first VM.
#[derive(Debug, Default)]
pub(crate) struct Living {
    watched: BTreeMap<VmKey, Option<OwnedFd>>,
    read_ns: u64,
}

impl Living {
    pub(crate) fn look(&mut self, root: &Root, vms: &[Vm], now_ns: u64) -> Vec<VmIndex> {
        let mut processes: BTreeMap<VmKey, Vec<VmIndex>> = BTreeMap::new();
        for vm in vms.iter().filter(|vm| vm.to_ns.is_none()) {
            let process = VmKey::first(vm.key.pid, vm.key.start_ticks);
            processes.entry(process).or_default().push(vm.index);
        }
        self.watched.retain(|it, _| processes.contains_key(it));
        let read = now_ns.saturating_sub(self.read_ns) >= READ_NS;
        if read {
            self.read_ns = now_ns;
        }
        let mut gone = self.ended();
        for process in processes.keys() {
            let is_new = !self.watched.contains_key(process);
            if is_new {
                let watch = self.watch(root, *process);
                self.watched.insert(*process, watch);
            }
            // Only after it is watched is its number sure to mean this process.
            let by_file = matches!(self.watched.get(process), Some(None));
            // A process that we cannot inspect may well exist.
            if (is_new || read && by_file) && !is_alive(root, *process).unwrap_or(true) {
                gone.push(*process);
            }
        }
        let ended = |process| {
            self.watched.remove(&process);
            processes.remove(&process).unwrap_or_default()
        };
        gone.into_iter().flat_map(ended).collect()
    }

    fn watch(&self, root: &Root, process: VmKey) -> Option<OwnedFd> {
        let few = self.watched.values().flatten().count() < DESCRIPTORS;
        let pid = i32::try_from(process.pid.0).ok().and_then(Pid::from_raw)?;
        let open = || pidfd_open(pid, PidfdFlags::empty()).ok();
        (root.is_host() && few).then(open)?
    }

    fn ended(&self) -> Vec<VmKey> {
        let held = self.watched.iter();
        let held: Vec<_> = held
            .filter_map(|(process, fd)| Some((*process, fd.as_ref()?)))
            .collect();
        let mut fds: Vec<PollFd<'_>> = held
            .iter()
            .map(|(_, fd)| PollFd::new(*fd, PollFlags::IN))
            .collect();
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        if fds.is_empty() || poll(&mut fds, Some(&at_once)).is_err() {
            return Vec::new();
        }
        let ended = held
            .iter()
            .zip(&fds)
            .filter(|(_, fd)| !fd.revents().is_empty());
        ended.map(|((process, _), _)| *process).collect()
    }
}

#[cfg(test)]
mod test {
    use haltwise_core::ids::{Pid, VmKey};

    use super::super::key_of;
    use super::*;
    use crate::root::made_up;

    fn vm(index: u32, key: VmKey) -> Vm {
        Vm {
            index: VmIndex(index),
            key,
            ..Vm::default()
        }
    }

    #[test]
    fn a_process_that_ends_is_noticed_though_nobody_has_waited_for_it() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let root = Root::host();
        let vms = [
            vm(0, key_of(&root, Pid(child.id())).unwrap()),
            vm(1, key_of(&root, Pid(std::process::id())).unwrap()),
        ];
        let mut living = Living::default();
        assert_eq!(living.look(&root, &vms, 0), []);
        drop(child.stdin.take());
        let mut looks = (0..2_000).map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            living.look(&root, &vms, 0)
        });
        let gone = looks.find(|gone| !gone.is_empty());
        assert_eq!(gone, Some(vec![VmIndex(0)]));
        child.wait().unwrap();
    }

    #[test]
    fn another_process_of_the_same_number_is_another() {
        let stat = "7 (qemu) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 4000 0 0 0\n";
        let (_dir, root) = made_up(&[("proc/7/stat", stat)]);
        let key = |start_ticks| VmKey::first(Pid(7), start_ticks);
        let vms = [vm(0, key(4_000)), vm(1, key(3_999))];
        assert_eq!(Living::default().look(&root, &vms, 0), [VmIndex(1)]);
    }
}
