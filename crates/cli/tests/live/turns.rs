//! A collector that records one VM after the other with the programs that it has: each halt is of the VM that was meant,
//! began while it was meant, and knows nothing of the time between, which was not recorded.

use std::time::Duration;

use haltwise_core::event::Facts;
use haltwise_core::ids::{Pid, VmIndex};
use haltwise_host::bpf::BpfCollector;
use haltwise_host::clock;
use haltwise_host::collector::{CollectOptions, Collector};
use haltwise_host::root::Root;

use super::bench::{Bench, Running};

fn ticking(bench: &Bench, name: &str) -> (Running, Pid) {
    let line = "tick --vcpus 2 --gap exp:300us --cap 100us --duration 60s --timeout 60s";
    let vm = bench.guest(name, line);
    let pid = Pid(vm.id());
    (vm, pid)
}

fn collect(collector: &mut BpfCollector) -> Facts {
    let began_ns = collector.begin().unwrap();
    let mut facts = Facts::default();
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(30));
        collector.drain(&mut facts).unwrap();
    }
    for halt in &facts.halts {
        assert!(halt.end_ns() >= began_ns, "{halt:?}");
        let polled_ns = halt.poll_ns.unwrap_or(0);
        assert!(polled_ns <= halt.halt_ns, "polled for longer: {halt:?}");
    }
    assert!(facts.halts.len() > 50, "{}", facts.halts.len());
    facts
}

fn are_of(collector: &BpfCollector, facts: &Facts, pid: Pid) {
    let of = |vm: Option<VmIndex>| {
        let vms = &collector.roster().vms;
        vm.and_then(|vm| Some(vms.iter().find(|it| it.index == vm)?.key.pid))
    };
    for halt in &facts.halts {
        assert_eq!(of(halt.vm), Some(pid), "{halt:?}");
    }
}

#[test]
fn one_vm_after_the_other_is_recorded_by_the_same_programs() {
    let Some(bench) = Bench::set_up() else { return };
    let (_one, first) = ticking(&bench, "turn-1");
    let (_other, second) = ticking(&bench, "turn-2");
    let options = CollectOptions {
        vms: vec![first],
        ..CollectOptions::default()
    };
    let mut collector = BpfCollector::start(options, Root::host()).unwrap();
    let facts = collect(&mut collector);
    are_of(&collector, &facts, first);
    // Also back to a VM that halted thousands of times while it was not recorded.
    for pid in [second, first, second] {
        assert!(collector.rest().unwrap());
        let rested_ns = clock::monotonic_ns();
        std::thread::sleep(Duration::from_millis(100));
        let mut between = Facts::default();
        collector.drain(&mut between).unwrap();
        // A program that ran when it was detached may still report the halt that it was called for.
        let later = between.halts.iter().filter(|it| it.end_ns() > rested_ns);
        assert_eq!(later.count(), 0, "it rests");
        assert!(collector.turn_to(&[pid]).unwrap());
        let facts = collect(&mut collector);
        are_of(&collector, &facts, pid);
        let known = facts.halts.iter().filter(|halt| halt.poll_ns.is_some());
        let are_most = known.count() * 10 > facts.halts.len() * 9;
        assert!(are_most, "polls are known");
        assert!(facts.lost.is_empty(), "{:?}", facts.lost);
    }
    assert!(
        !collector.turn_to(&[]).unwrap(),
        "all VMs take other programs"
    );
}
