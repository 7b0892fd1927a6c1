//! VMMs as any user sees them: by the names of their threads, with the CPU time that the kernel shows of every
//! process.
//!
//! Descriptors of KVM are shown to root and the process's user alone. A process found here looks like a VMM, and no
//! more is said of it.

use haltwise_core::ids::{Pid, Tid, VmmKind};

use super::arguments::Arguments;
use super::{comm_of, fallback_name, identity, threads, vmm};
use crate::clock;
use crate::process_files;
use crate::root::Root;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutsideVmm {
    pub pid: Pid,
    /// Name of the VM, from its command line or cgroup; else the process's name and number.
    pub name: String,
    pub time: OutsideTime,
}

/// CPU time of a process, as `/proc/PID/stat` has it: ticks of 10 ms or so, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutsideTime {
    pub guest_ns: u64,
    /// In the kernel: exits, halt polling, and what its other threads call.
    pub kernel_ns: u64,
    pub user_ns: u64,
}

/// All of them, by process number. A process that has no thread with a vCPU's name and was never in a guest is none.
pub fn outside(root: &Root) -> Vec<OutsideVmm> {
    let pids = root.numbers("proc").unwrap_or_default();
    pids.into_iter()
        .filter_map(|pid| look(root, Pid(pid)))
        .collect()
}

fn look(root: &Root, pid: Pid) -> Option<OutsideVmm> {
    process_files::look(root, pid, move |root| found(root, pid)).ok()?
}

fn found(root: &Root, pid: Pid) -> Option<OutsideVmm> {
    let comm = comm_of(root, Tid(pid.0)).ok()?;
    let arguments = Arguments::of(root, pid).unwrap_or_default();
    let vmm = vmm::recognise(arguments.program().into_iter().chain([comm.as_str()]));
    let time = time(&root.text(format!("proc/{pid}/stat")).ok()?)?;
    let has_vcpus = || threads(root, pid, vmm.vcpu).is_ok_and(|threads| !threads.is_empty());
    if time.guest_ns == 0 && !(vmm.kind != VmmKind::Other && has_vcpus()) {
        return None;
    }
    let named = identity::of(root, pid, vmm, &arguments);
    Some(OutsideVmm {
        pid,
        name: named.name.unwrap_or_else(|| fallback_name(&comm, pid)),
        time,
    })
}

/// A field of `/proc/PID/stat` by its number in `proc_pid_stat(5)`, from 3 on: field 2 may hold spaces and brackets.
pub(super) fn field(stat: &str, number: usize) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    fields.nth(number - 3)?.parse().ok()
}

/// Fields 14, 15 and 43: user time contains guest time.
pub(super) fn time(stat: &str) -> Option<OutsideTime> {
    let ticks = |number| field(stat, number).map(clock::ticks_long);
    let (user, kernel) = (ticks(14)?, ticks(15)?);
    let guest = ticks(43).unwrap_or(0);
    Some(OutsideTime {
        guest_ns: guest,
        kernel_ns: kernel,
        user_ns: user.saturating_sub(guest),
    })
}

/// Field 41, the scheduling policy: `SCHED_FIFO`, `SCHED_RR` and `SCHED_DEADLINE` run before all others.
pub(super) fn is_real_time(stat: &str) -> Option<bool> {
    field(stat, 41).map(|policy| matches!(policy, 1 | 2 | 6))
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::root::made_up;

    fn stat(comm: &str, user: u64, kernel: u64, guest: u64) -> String {
        let zeros = vec!["0"; 27].join(" ");
        format!(
            "7 ({comm}) S 1 1 1 0 -1 0 0 0 0 0 {user} {kernel} {zeros} {guest} 0 0 0 0 0 0 0 0 0\n"
        )
    }

    #[test]
    fn a_vmm_is_known_by_its_threads_or_by_its_guests_time() {
        let tick = clock::ticks_long(1);
        let (qemu, other) = (stat("qemu-system-x86", 50, 30, 20), stat("vmm", 9, 1, 9));
        let plain = stat("bash", 70, 20, 0);
        let (_dir, root) = made_up(&[
            ("proc/7/comm", "qemu-system-x86\n"),
            (
                "proc/7/cmdline",
                "/usr/bin/qemu-system-x86_64\0-name\0guest=web-1\0",
            ),
            ("proc/7/stat", &qemu),
            ("proc/7/task/7/comm", "qemu-system-x86\n"),
            ("proc/7/task/8/comm", "CPU 0/KVM\n"),
            ("proc/9/comm", "vmm\n"),
            ("proc/9/stat", &other),
            ("proc/11/comm", "bash\n"),
            ("proc/11/stat", &plain),
            ("proc/12/comm", "qemu-system-x86\n"),
            ("proc/12/stat", &stat("qemu-system-x86", 5, 5, 0)),
            ("proc/12/task/12/comm", "qemu-system-x86\n"),
        ]);
        let found = outside(&root);
        let names: Vec<&str> = found.iter().map(|vmm| vmm.name.as_str()).collect();
        assert_eq!(names, ["web-1", "vmm-9"]);
        let expected = OutsideTime {
            guest_ns: 20 * tick,
            kernel_ns: 30 * tick,
            user_ns: 30 * tick,
        };
        assert_eq!(found[0].time, expected);
    }
}
