//! Whether a VM's vCPUs run at all, told by what their threads wait for.
//!
//! An idle vCPU waits inside `ioctl(KVM_RUN)`. One of a VM that is paused, was not started yet or stopped after
//! an error waits in its VMM, which KVM's counters do not tell from idleness: neither halts.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Duration;

use haltwise_core::event::Vm;
use haltwise_core::ids::{Pid, Tid, VmIndex, VmKey};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, pidfd_open};

use super::is_alive;
use crate::process_files;
use crate::root::Root;

/// `KVM_RUN` of `include/uapi/linux/kvm.h`, without what some architectures write above it.
const KVM_RUN: u64 = 0xae80;

/// A VM is called paused if `LOOKS` looks in turn, [`PAUSE`] apart, find all its vCPUs outside `KVM_RUN`:
/// one look may fall into an exit that the VMM handles.
pub(super) const LOOKS: u32 = 4;
pub(super) const PAUSE: Duration = Duration::from_millis(25);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VcpuThreads {
    Known(Vec<Tid>),
    /// The kernel says that none of its vCPUs has ever run.
    NeverRan,
    Any,
}

impl VcpuThreads {
    /// Those of vCPUs that the kernel was asked about; a vCPU that never ran has none.
    pub fn of_vcpus(tids: impl Iterator<Item = Option<Tid>>) -> Self {
        let tids: Vec<Tid> = tids.flatten().collect();
        if tids.is_empty() {
            Self::NeverRan
        } else {
            Self::Known(tids)
        }
    }
}

/// Whether any vCPU of a VM runs or is inside `KVM_RUN`; `None` where that cannot be told. A vCPU whose VMM
/// handles an exit is outside for a moment: who wants to be sure looks several times, as [`settled`] does.
pub(super) fn is_in_kvm_run(root: &Root, pid: Pid, threads: &VcpuThreads) -> Option<bool> {
    let threads = threads.clone();
    process_files::look(root, pid, move |root| look(root, pid, &threads)).ok()?
}

fn look(root: &Root, pid: Pid, threads: &VcpuThreads) -> Option<bool> {
    let all;
    let (tids, are_vcpus) = match threads {
        VcpuThreads::NeverRan => return Some(false),
        VcpuThreads::Known(tids) => (tids, true),
        VcpuThreads::Any => {
            let numbers = root.numbers(format!("proc/{pid}/task")).ok()?;
            all = numbers.into_iter().map(Tid).collect();
            (&all, false)
        }
    };
    let (mut seen, mut busy) = (false, false);
    for tid in tids {
        let Ok(text) = root.text(format!("proc/{pid}/task/{tid}/syscall")) else {
            continue;
        };
        match waits(&text) {
            Some(Waits::InKvmRun) => return Some(!is_stopped(root, pid)),
            Some(Waits::Not) if are_vcpus => return Some(true),
            // Perhaps in a guest, perhaps another thread of the VMM.
            Some(Waits::Not) => busy = true,
            Some(Waits::Elsewhere) => seen = true,
            None => {}
        }
    }
    (seen && !busy).then_some(false)
}

/// Whether a signal has stopped the process: then its vCPUs stand where they were, in `KVM_RUN` too.
fn is_stopped(root: &Root, pid: Pid) -> bool {
    let stat = root.text(format!("proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default();
    state.trim_start().starts_with(['T', 't'])
}

pub fn are_running(root: &Root, vms: &[(Pid, VcpuThreads)]) -> Vec<Option<bool>> {
    settled(vms, |(pid, threads)| is_in_kvm_run(root, *pid, threads))
}

/// Which of these VMs run, by several looks at those of which the first says that they do not: all of them
/// together, so that many take no longer than one.
fn settled<T>(vms: &[T], look: impl Fn(&T) -> Option<bool>) -> Vec<Option<bool>> {
    let mut known: Vec<Option<bool>> = vms.iter().map(&look).collect();
    for _ in 1..LOOKS {
        if !known.contains(&Some(false)) {
            break;
        }
        std::thread::sleep(PAUSE);
        let held = known.iter_mut().zip(vms);
        for (known, vm) in held.filter(|(known, _)| **known == Some(false)) {
            *known = look(vm);
        }
    }
    known
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// For nothing: it runs, or would if it had a CPU.
    Not,
    InKvmRun,
    Elsewhere,
}

/// `running`, or the number of a system call and its arguments, or -1 where a thread waits outside of any.
fn waits(syscall: &str) -> Option<Waits> {
    let mut words = syscall.split_whitespace();
    let number = words.next()?;
    if number == "running" {
        return Some(Waits::Not);
    }
    let request = words.nth(1).unwrap_or_default();
    let request = u64::from_str_radix(request.trim_start_matches("0x"), 16);
    let is_run = request.is_ok_and(|request| request & 0xffff == KVM_RUN);
    Some(if number != "-1" && is_run {
        Waits::InKvmRun
    } else {
        Waits::Elsewhere
    })
}

/// Processes that are watched by a descriptor; the files of others are read now and then.
const DESCRIPTORS: usize = 256;

const READ_NS: u64 = 500_000_000;

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
        let pid = i32::try_from(process.pid.0)
            .ok()
            .and_then(rustix::process::Pid::from_raw)?;
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

    #[test]
    fn a_process_that_a_signal_has_stopped_runs_no_vcpu() {
        for (state, runs) in [("S", true), ("T", false)] {
            let stat = format!("7 (a (vm) T) {state} 1 7 7 0");
            let files = [
                ("proc/7/stat", &*stat),
                ("proc/7/task/8/syscall", "16 0x5 0xae80 0x0"),
            ];
            let (_dir, root) = made_up(&files);
            let threads = VcpuThreads::Known(vec![Tid(8)]);
            assert_eq!(is_in_kvm_run(&root, Pid(7), &threads), Some(runs));
        }
    }

    #[test]
    fn a_vm_is_paused_if_every_look_says_so() {
        let cases = [
            ([Some(false); 4], Some(false)),
            (
                [Some(false), Some(false), Some(false), Some(true)],
                Some(true),
            ),
            (
                [Some(true), Some(false), Some(false), Some(false)],
                Some(true),
            ),
            ([None, Some(false), Some(false), Some(false)], None),
        ];
        let nth = std::cell::RefCell::new([0; 4]);
        let places: Vec<usize> = (0..cases.len()).collect();
        let known = settled(&places, |&place| {
            let look = &mut nth.borrow_mut()[place];
            *look += 1;
            cases[place].0[*look - 1]
        });
        let expected = cases.map(|(_, expected)| expected);
        assert_eq!(known, expected);
    }

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
