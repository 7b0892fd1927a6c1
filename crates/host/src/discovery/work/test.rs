//! A made-up VMM: a main thread, a vCPU, a worker that comes and goes.

use std::fs;

use haltwise_core::ids::{VcpuId, VmKey};

use super::*;
use crate::clock;
use crate::discovery::VmLabel;
use crate::root::made_up;

const SECOND: u64 = 1_000_000_000;

fn key(ordinal: u32) -> VmKey {
    VmKey {
        pid: Pid(7),
        start_ticks: 1,
        ordinal,
    }
}

fn label() -> VmLabel {
    VmLabel::named("vm")
}

struct World {
    dir: tempfile::TempDir,
    root: Root,
    roster: RosterBuilder,
    work: Work,
}

impl World {
    fn new() -> Self {
        let (dir, root) = made_up(&[("proc/7/stat", "")]);
        let mut roster = RosterBuilder::default();
        roster.vm(key(0), label);
        Self {
            dir,
            root,
            roster,
            work: Work::default(),
        }
    }

    fn thread(&self, tid: u32, comm: &str, schedstat: &str) {
        let folder = self.dir.path().join(format!("proc/7/task/{tid}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("schedstat"), schedstat).unwrap();
        let own = self.dir.path().join(format!("proc/{tid}"));
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("comm"), comm).unwrap();
    }

    fn guest_ticks(&self, tid: u32, ticks: u64) {
        let path = self.dir.path().join(format!("proc/7/task/{tid}/stat"));
        // SCHED_FIFO
        let zeros = vec!["0"; 27].join(" ");
        let stat = format!("{tid} (CPU 0/KVM) S 1 1 1 0 -1 0 0 0 0 0 {zeros} 1 0 {ticks} 0 0\n");
        fs::write(path, stat).unwrap();
    }

    fn look(&mut self, now_ns: u64, known: &Known) -> Option<Threads> {
        self.work.look(&self.root, &mut self.roster, known, now_ns);
        self.roster.roster().vms[0].threads.clone()
    }
}

#[test]
fn threads_are_told_by_what_they_did_between_two_looks() {
    let mut world = World::new();
    world.thread(7, "qemu", "5000 1 50\n");
    world.thread(8, "CPU 0/KVM", "9000 1 90\n");
    world.roster.vcpu(VmIndex(0), VcpuId(0), Tid(8));
    let vcpus = Known::ByTheKernel;
    world.guest_ticks(8, 5);
    assert_eq!(world.look(SECOND, &vcpus), None, "one look says nothing");
    world.guest_ticks(8, 7);
    world.thread(7, "qemu", "35000 1 1050\n");
    world.thread(8, "CPU 0/KVM", "9400 31 95\n");
    world.thread(9, "\x1b[31mworker", "700 0 3\n");
    let expected = Threads {
        over_ns: SECOND,
        vcpu_cpu_ns: Some(400),
        main_cpu_ns: 30_000,
        main_runs: 1_000,
        others_cpu_ns: Some(30_700),
        busiest: Some("?[31mworker".to_owned()),
        busiest_cpu_ns: Some(700),
    };
    assert_eq!(world.look(2 * SECOND, &vcpus), Some(expected.clone()));
    let time = VcpuTime {
        cpu_ns: 400,
        queued_ns: 30,
        guest_ns: 2 * clock::ticks_long(1),
        real_time: Some(true),
    };
    assert_eq!(world.roster.roster().vcpus[0].time, Some(time));
    // Work that a thread did before it ended still counts.
    fs::remove_dir_all(world.dir.path().join("proc/7/task/9")).unwrap();
    let later = world.look(3 * SECOND, &vcpus).unwrap();
    assert_eq!(
        (later.over_ns, later.others_cpu_ns),
        (2 * SECOND, Some(30_700))
    );
    // Where vCPUs are not known, only the main thread is.
    let any = world
        .look(3 * SECOND, &Known::ByNames(BTreeMap::new()))
        .unwrap();
    assert_eq!(
        (any.vcpu_cpu_ns, any.others_cpu_ns, any.busiest),
        (None, None, None)
    );
    assert_eq!(any.main_runs, 1_000);
}

#[test]
fn what_is_not_counted_is_not_known() {
    let none = Known::ByNames(BTreeMap::new());
    let mut world = World::new();
    world.thread(7, "qemu", "0 0 0\n");
    world.look(SECOND, &none);
    assert_eq!(world.look(2 * SECOND, &none), None);
    world.thread(7, "qemu", "many\n");
    assert_eq!(world.look(3 * SECOND, &none), None);
    // Nor of two VMs of one process which one a thread works for.
    let mut world = World::new();
    world.roster.vm(key(1), label);
    world.thread(7, "qemu", "1 0 1\n");
    world.look(SECOND, &none);
    world.thread(7, "qemu", "2 0 2\n");
    assert_eq!(world.look(2 * SECOND, &none), None);
}

#[test]
fn looks_are_far_apart_and_end_with_the_vm() {
    let mut world = World::new();
    world.thread(7, "qemu", "1 0 1\n");
    let of = &Known::ByTheKernel;
    world.look(SECOND, of);
    world.thread(7, "qemu", "2 0 2\n");
    let later = SECOND + LOOK_NS;
    assert!(!world.work.is_due(later - 1) && world.work.is_due(later));
    let seen = world.look(later, of);
    assert_eq!(seen.as_ref().map(|it| it.over_ns), Some(LOOK_NS));
    world.roster.gone(&[VmIndex(0)], later);
    let again = world.look(later + SECOND, of);
    assert_eq!(again, seen, "one that is gone is looked at no more");
}
