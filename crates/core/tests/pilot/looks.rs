//! When VMs are looked at: those for which something was set also while another is on trial; more of them where that gains
//! more; none where nothing but a guard keeps from a choice.

use std::collections::VecDeque;

use haltwise_core::ids::{Pid, VmKey};
use haltwise_core::kvm::{Arch, Knobs, Version};
use haltwise_core::pilot::decision::{Decision, Kind};
use haltwise_core::pilot::input::{Ceiling, Held, HostSeen, Scope, Seen, VmSeen};
use haltwise_core::pilot::memory::Memory;
use haltwise_core::pilot::{Goal, Pilot};
use haltwise_core::workload::SplitMix64;

use super::model::{Chunk, Load, Modelled, setup};
use super::world::{SECOND, STEP, counts};

const FOUND_NS: u32 = 200_000;

/// A poll of that length costs more than a block: best without polling.
const EACH_150_US: Load = Load {
    halts_per_s: 4_500.0,
    gap_ns: 150_000.0,
    is_fixed: true,
};
const TICKING: Load = Load {
    halts_per_s: 250.0,
    gap_ns: 3_900_000.0,
    is_fixed: true,
};
/// A poll of that length costs less than a block: best polled.
const EACH_15_US: Load = Load {
    halts_per_s: 12_000.0,
    gap_ns: 15_000.0,
    is_fixed: true,
};

struct Vm {
    key: VmKey,
    load: Load,
    ceiling_ns: u32,
    held: Option<Held<u32>>,
}

/// What happened, and when.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    Look(VmKey),
    Decided(VmKey, Kind),
}

/// A host on which each change is made.
struct Host {
    now: u64,
    vms: Vec<Vm>,
    cpu_pressure: f64,
    /// CPU time that a look takes, and all so far.
    look_ns: u64,
    own_cpu_ns: u64,
    pilot: Pilot<Modelled>,
    events: Vec<(u64, Event)>,
}

impl Host {
    fn new() -> Self {
        let evidence = Modelled {
            bias: 0.0,
            seed: SplitMix64(1),
        };
        Self {
            now: 0,
            vms: Vec::new(),
            cpu_pressure: 0.01,
            look_ns: 0,
            own_cpu_ns: 0,
            pilot: Pilot::new(setup(evidence, Memory::default(), 1)),
            events: Vec::new(),
        }
    }

    fn comes(&mut self, load: Load, ceiling_ns: u32) -> VmKey {
        let pid = 100 + u32::try_from(self.vms.len()).unwrap();
        let key = VmKey {
            pid: Pid(pid),
            start_ticks: u64::from(pid),
            ordinal: 0,
        };
        self.vms.push(Vm {
            key,
            load,
            ceiling_ns,
            held: None,
        });
        key
    }

    fn vm(&mut self, key: VmKey) -> &mut Vm {
        self.vms.iter_mut().find(|vm| vm.key == key).unwrap()
    }

    fn seen(&self) -> Seen {
        let vms = self.vms.iter().map(|vm| VmSeen {
            key: vm.key,
            name: format!("vm-{}", vm.key.pid),
            vcpus: 1,
            goal: Some(Goal::default()),
            ceiling: Ceiling::Own(vm.ceiling_ns),
            held: vm.held,
            polls_itself: false,
            counts: Some(counts(&vm.load, vm.ceiling_ns, 1.0, false)),
        });
        let host = HostSeen {
            knobs: Some(Knobs {
                halt_poll_ns: FOUND_NS,
                ..Knobs::defaults(Version::new(6, 12), Arch::X86)
            }),
            cpus: 64,
            busy_cpus: Some(2.0),
            cpu_pressure: Some(self.cpu_pressure),
            own_cpu_ns: self.own_cpu_ns,
            ..HostSeen::default()
        };
        Seen {
            host,
            vms: vms.collect(),
            counted: true,
        }
    }

    fn make(&mut self, decisions: Vec<Decision>) {
        let mut decisions = VecDeque::from(decisions);
        while let Some(decision) = decisions.pop_front() {
            let Scope::Vm(key) = decision.scope else {
                panic!("each VM has a ceiling of its own: {decision:?}");
            };
            self.events
                .push((self.now, Event::Decided(key, decision.kind)));
            if !decision.is_made {
                continue;
            }
            let ours = decision.change.unwrap().to.halt_poll_ns;
            let vm = self.vm(key);
            let before = vm.held.map_or(vm.ceiling_ns, |held| held.before);
            vm.held = Some(Held { before, ours });
            vm.ceiling_ns = ours;
            decisions.extend(self.pilot.made(self.now, &decision, Ok(())));
        }
    }

    /// Lets so many intervals pass.
    fn pass(&mut self, steps: u64) {
        for _ in 0..steps {
            let until = self.now + STEP;
            while let Some(wanted) = self.pilot.wanted().cloned() {
                let took = wanted.skip_ns + wanted.length_ns;
                if self.now + took > until {
                    break;
                }
                self.now += took;
                self.own_cpu_ns += self.look_ns;
                let of = |key: &VmKey| {
                    let vm = self.vms.iter().find(|vm| vm.key == *key).unwrap();
                    let chunk = Chunk {
                        load: vm.load,
                        ceiling_ns: vm.ceiling_ns,
                        span_ns: wanted.length_ns,
                        noise: 1.0,
                    };
                    (*key, Some(chunk))
                };
                let facts: Vec<_> = wanted.vms.iter().map(of).collect();
                if wanted.skip_ns == 0 {
                    self.events.push((self.now, Event::Look(wanted.vms[0])));
                }
                let decisions = self.pilot.facts(self.now, facts);
                self.make(decisions);
            }
            self.now = until;
            let decisions = self.pilot.step(self.now, self.seen());
            self.make(decisions);
        }
    }

    /// Lets time pass until this happens; gives when it did.
    fn until(&mut self, event: Event) -> u64 {
        let from = self.events.len();
        for _ in 0..1_000 {
            self.pass(1);
            let since = &self.events[from..];
            if let Some((at, _)) = since.iter().find(|(_, it)| *it == event) {
                return *at;
            }
        }
        panic!("{event:?} does not happen: {:?}", &self.events[from..]);
    }

    fn looks(&self) -> usize {
        let look = |(_, event): &&(u64, Event)| matches!(event, Event::Look(_));
        self.events.iter().filter(look).count()
    }
}

#[test]
fn a_vm_whose_load_changes_is_looked_at_while_another_is_on_trial() {
    let mut host = Host::new();
    let kept = host.comes(EACH_150_US, FOUND_NS);
    host.until(Event::Decided(kept, Kind::Keep));
    let tried = host.comes(TICKING, FOUND_NS);
    let began = host.until(Event::Decided(tried, Kind::Try));
    host.vm(kept).load = EACH_15_US;
    let restored = host.until(Event::Decided(kept, Kind::Restore));
    // Two readings that are unlike, a period that is under way, a period under the setting on trial, and the look.
    assert!(restored <= began + 60 * SECOND, "{:?}", host.events);
    let of_trial = |(_, event): &(u64, Event)| matches!(event, Event::Decided(vm, Kind::Keep | Kind::GoBack) if *vm == tried);
    assert!(!host.events.iter().any(of_trial), "{:?}", host.events);
    host.until(Event::Decided(tried, Kind::Keep));
}

#[test]
fn what_settings_gain_pays_for_looks() {
    let looks = |load| {
        let mut host = Host::new();
        for _ in 0..20 {
            host.comes(load, FOUND_NS);
        }
        host.look_ns = 1_500_000_000;
        host.pass(360);
        let before = host.looks();
        host.pass(360);
        host.looks() - before
    };
    // With 10 s of CPU time in an hour at most, there is one look a minute.
    let without = looks(EACH_15_US);
    assert!((55..=65).contains(&without), "{without}");
    let with = looks(EACH_150_US);
    assert!(with > 2 * without, "{with} and {without}");
}

#[test]
fn a_choice_that_had_to_wait_is_made_when_nothing_keeps_from_it_any_more() {
    let mut host = Host::new();
    let vm = host.comes(EACH_15_US, 0);
    host.cpu_pressure = 0.4;
    host.pass(360);
    let decided = |(_, event): &(u64, Event)| matches!(event, Event::Decided(..));
    assert!(!host.events.iter().any(decided), "{:?}", host.events);
    host.cpu_pressure = 0.01;
    let looks = host.looks();
    host.until(Event::Decided(vm, Kind::Try));
    assert_eq!(host.looks(), looks, "by what is known already");
}

#[test]
fn a_trial_ends_when_the_load_of_its_vm_changes() {
    let mut host = Host::new();
    let vm = host.comes(TICKING, FOUND_NS);
    let began = host.until(Event::Decided(vm, Kind::Try));
    // Both settings cost it the same, nearly.
    host.vm(vm).load = Load {
        halts_per_s: 20.0,
        ..TICKING
    };
    let ended = host.until(Event::Decided(vm, Kind::GoBack));
    // A round of 10 s for each period holds two under the setting before; with the one before and after it, four periods.
    assert!(ended <= began + 50 * SECOND, "{:?}", host.events);
    assert_eq!(host.vm(vm).ceiling_ns, FOUND_NS);
}
