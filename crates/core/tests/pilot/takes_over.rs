//! What somebody else has set is left alone, until the pilot is to take it over.

use haltwise_core::ids::{Pid, VmKey};
use haltwise_core::kvm::Knobs;
use haltwise_core::pilot::decision::Kind;
use haltwise_core::pilot::input::{Ceiling, Held, HostSeen, Seen, VmSeen};
use haltwise_core::pilot::memory::Memory;
use haltwise_core::pilot::{Goal, Pilot};
use haltwise_core::workload::SplitMix64;

use super::model::{Modelled, setup};

const VM: VmKey = VmKey {
    pid: Pid(7),
    start_ticks: 1,
    ordinal: 0,
};

fn pilot(memory: Memory) -> Pilot<Modelled> {
    let evidence = Modelled {
        bias: 0.1,
        seed: SplitMix64(1),
    };
    Pilot::new(setup(evidence, memory, 1))
}

/// The journal has that an earlier run set 5 us in place of 200 us; now 145 us are in force.
fn seen() -> Seen {
    let vm = VmSeen {
        key: VM,
        name: "vm".to_owned(),
        vcpus: 1,
        goal: Some(Goal::default()),
        ceiling: Ceiling::Own(145_000),
        held: Some(Held {
            before: 200_000,
            ours: 5_000,
        }),
        has_answered: true,
        polls_itself: false,
        counts: None,
    };
    let host = HostSeen {
        knobs: Some(Knobs {
            halt_poll_ns: 200_000,
            grow: 2,
            grow_start: 10_000,
            shrink: 0,
        }),
        cpus: 8,
        ..HostSeen::default()
    };
    Seen {
        host,
        vms: vec![vm],
        counted: false,
    }
}

#[test]
fn what_somebody_else_has_set_is_taken_over_only_where_that_is_asked_for() {
    let mut leaves = pilot(Memory::default());
    let decisions = leaves.step(0, seen());
    assert_eq!(decisions.len(), 1, "{decisions:?}");
    assert_eq!(decisions[0].kind, Kind::HandsOff);
    // Also after a restart.
    let memory = leaves.memory();
    // A run that ends before its first reading forgets nothing.
    let mut ends = pilot(memory.clone());
    assert_eq!(ends.memory(), memory);
    // Of a VM that has gone there is nothing to know.
    let gone = Seen {
        vms: Vec::new(),
        ..seen()
    };
    assert_eq!(ends.step(0, gone), []);
    assert_eq!(ends.memory().targets, []);
    let mut leaves = pilot(memory.clone());
    assert_eq!(leaves.step(0, seen()), []);
    assert_eq!(leaves.standing().vms[0].state, "hands-off");

    let mut takes = pilot(memory);
    takes.take_over();
    assert_eq!(takes.step(0, seen()), []);
    let standing = takes.standing();
    let vm = &standing.vms[0];
    assert_eq!((vm.state, vm.found_ns), ("watching", Some(145_000)));
    assert_eq!(takes.wanted().map(|wanted| &*wanted.vms), Some(&[VM][..]));
}
