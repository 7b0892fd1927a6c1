//! A made-up VM that its VMM holds and lets go.

use std::path::Path;

use haltwise_core::event::{Halt, HaltCounts};
use haltwise_core::ids::{Pid, VcpuId, VmKey};

use super::*;
use crate::discovery::VmLabel;
use crate::root::made_up;

const IDLE: &str = "16 0xd 0xae80 0x0 0x0 0x0 0x0 0x7ffd 0x7f81\n";
const HELD: &str = "202 0x55d0 0x80 0x0 0x0 0x0 0x0 0x7ffd 0x7f81\n";
const FILE: &str = "proc/7/task/8/syscall";

/// When recording began, and the time between two looks at a VM that seems to be paused.
const BEGAN: u64 = 10_000_000_000;
const STEP: u64 = AGAIN.subsec_nanos() as u64;

struct World {
    dir: tempfile::TempDir,
    presence: Presence,
    vm: VmIndex,
}

impl World {
    fn new(thread: &str) -> Self {
        let stat = format!("7 (vmm) S {}1 0", "0 ".repeat(18));
        let (dir, root) = made_up(&[(FILE, thread), ("proc/7/stat", &stat)]);
        let mut presence = Presence::new(root, Known::ByTheKernel);
        let roster = &mut presence.roster;
        let key = VmKey::first(Pid(7), 1);
        let vm = roster.vm(key, || VmLabel::named("vm"));
        roster.vcpu(vm, VcpuId(0), Tid(8));
        presence.begin(BEGAN);
        Self { dir, presence, vm }
    }

    fn thread(&self, text: &str) {
        std::fs::write(self.dir.path().join(Path::new(FILE)), text).unwrap();
    }

    /// Looks so many times, from so long after the beginning.
    fn look(&mut self, from_ns: u64, times: u64, facts: &Facts) {
        for step in 0..times {
            let now_ns = BEGAN + from_ns + step * STEP;
            self.presence.look(facts, now_ns);
        }
    }

    fn paused(&self) -> Option<Paused> {
        self.presence.roster.roster().vms[0].paused
    }

    fn halt(&self, start_ns: u64, halt_ns: u64) -> Facts {
        let halt = Halt {
            start_ns: BEGAN + start_ns,
            halt_ns,
            vm: Some(self.vm),
            ..Halt::default()
        };
        Facts {
            halts: vec![halt],
            ..Facts::default()
        }
    }
}

fn since(ns: u64) -> Paused {
    Paused {
        over_ns: 0,
        from_ns: Some(BEGAN + ns),
    }
}

fn over(over_ns: u64) -> Paused {
    Paused {
        over_ns,
        from_ns: None,
    }
}

#[test]
fn a_vm_that_every_look_finds_held_is_paused_from_the_first_on() {
    let mut world = World::new(HELD);
    assert_eq!(world.paused(), None, "one look says nothing");
    world.look(STEP, 2, &Facts::default());
    assert_eq!(world.paused(), None, "three do not either");
    world.look(3 * STEP, 1, &Facts::default());
    assert_eq!(world.paused(), Some(since(0)));
    // It goes on, and is noticed a look late.
    world.look(LOOK_NS, 1, &Facts::default());
    world.thread(IDLE);
    world.look(2 * LOOK_NS, 1, &Facts::default());
    assert_eq!(world.paused(), Some(over(LOOK_NS)));
}

#[test]
fn an_idle_vm_and_one_whose_vmm_handles_an_exit_are_not_paused() {
    let mut world = World::new(IDLE);
    assert_eq!(world.paused(), Some(over(0)));
    world.thread(HELD);
    world.look(LOOK_NS, 3, &Facts::default());
    world.thread("running\n");
    world.look(LOOK_NS + 3 * STEP, 1, &Facts::default());
    world.thread(HELD);
    world.look(2 * LOOK_NS, 3, &Facts::default());
    assert_eq!(world.paused(), Some(over(0)));
}

#[test]
fn what_has_halted_was_not_paused() {
    let mut world = World::new(HELD);
    world.look(STEP, 3, &Facts::default());
    assert_eq!(world.paused(), Some(since(0)));
    // It ran between two looks: the pause was over when the halt began.
    let halt = world.halt(2 * STEP, 1_000);
    world.look(4 * STEP, 1, &halt);
    assert_eq!(world.paused(), Some(over(2 * STEP)));
    // Paused anew. The same halt, not yet written, says nothing of that.
    world.look(LOOK_NS, 4, &halt);
    let again = Some(Paused {
        over_ns: 2 * STEP,
        from_ns: Some(BEGAN + LOOK_NS),
    });
    assert_eq!(world.paused(), again);
    // An interval in which it halted somewhere tells nothing of a pause.
    let counts = HaltCounts {
        time_ns: BEGAN + LOOK_NS + STEP,
        interval_ns: LOOK_NS,
        vm: Some(world.vm),
        halts: 1,
        ..HaltCounts::default()
    };
    let facts = Facts {
        counts: vec![counts],
        ..Facts::default()
    };
    world.look(LOOK_NS + 5 * STEP, 1, &facts);
    assert_eq!(world.paused(), Some(over(2 * STEP)));
}

#[test]
fn the_end_waits_until_it_is_sure_and_a_vm_that_is_gone_is_paused_no_longer() {
    let mut world = World::new(HELD);
    let began_ns = clock::monotonic_ns();
    world.presence.begin(began_ns);
    let nothing = Facts::default();
    world.presence.end(&nothing);
    let paused = world.paused().unwrap();
    assert_eq!(paused.from_ns, Some(began_ns));
    world.presence.roster.gone(&[world.vm], began_ns + 1);
    let later_ns = clock::monotonic_ns();
    world.presence.look(&nothing, later_ns);
    assert_eq!(world.paused().unwrap().from_ns, None);
}

#[test]
fn what_cannot_be_read_or_cannot_be_seen_is_not_known() {
    let mut world = World::new("");
    world.look(LOOK_NS, 4, &Facts::default());
    assert_eq!(world.paused(), None);
    let mut world = World::new(HELD);
    let blind = Observable::No("its VMM handles HLT itself".to_owned());
    world.presence.roster.vm_mut(world.vm).unwrap().observable = blind;
    world.presence.begin(BEGAN);
    world.look(LOOK_NS, 4, &Facts::default());
    assert_eq!(world.paused(), None);
}
