//! What the pilot holds in memory does not grow: three days of 50 vCPUs, hour by hour.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::{self, Write as _};

use haltwise_core::event::{CeilingSource, Halt};
use haltwise_core::ids::{Pid, VmKey};
use haltwise_core::kvm::{Arch, Knobs, Version};
use haltwise_core::pilot::decision::Decision;
use haltwise_core::pilot::evidence::{Answer, EXCERPT, Evidence, Measured, OfVm, Question};
use haltwise_core::pilot::input::{Ceiling, Counts, Held, HostSeen, Pressure, Scope, Seen, VmSeen};
use haltwise_core::pilot::memory::Memory;
use haltwise_core::pilot::replayed::{Replayed, Stretch};
use haltwise_core::pilot::{Goal, Pilot};
use haltwise_core::replay::Cost;
use haltwise_core::replay::latency::Latencies;
use haltwise_core::workload::SplitMix64;

use super::model::{Chunk, Load, Modelled, setup};
use super::world::{SECOND, STEP, counts};

const VMS: u32 = 25;
const VCPUS: u64 = 2;
const DAY: usize = 24;
const HOURS: usize = 3 * DAY;
const STEPS: u64 = 3_600 * SECOND / STEP;

/// Counts the values in what is printed for debugging, which is all that a value holds.
#[derive(Default)]
struct Values(usize);

impl fmt::Write for Values {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.matches(',').count();
        Ok(())
    }
}

fn values(of: &impl fmt::Debug) -> usize {
    let mut values = Values::default();
    write!(values, "{of:?}").unwrap();
    values.0
}

/// A look as the model has it, with as many halts as were wanted.
#[derive(Debug)]
struct Full(Chunk, usize);

/// The model, of looks that are full.
#[derive(Debug)]
struct Filled(Modelled);

fn inner<'a>(vms: &[OfVm<'a, Full>]) -> Vec<OfVm<'a, Chunk>> {
    let of = |vm: &OfVm<'a, Full>| OfVm {
        weight_milli: vm.weight_milli,
        vcpus: vm.vcpus,
        chunks: vm.chunks.iter().map(|chunk| &chunk.0).collect(),
        tried: vm.tried.iter().map(|chunk| &chunk.0).collect(),
    };
    vms.iter().map(of).collect()
}

impl Evidence for Filled {
    type Chunk = Full;

    fn learn(&mut self, chunk: &Full) {
        self.0.learn(&chunk.0);
    }

    fn excerpt(chunk: &Full) -> Full {
        Full(chunk.0, chunk.1.min(EXCERPT))
    }

    fn size(chunk: &Full) -> usize {
        chunk.1
    }

    fn weigh(&mut self, vms: &[OfVm<'_, Full>], question: &Question) -> Option<Answer> {
        self.0.weigh(&inner(vms), question)
    }

    fn measure(&mut self, vms: &[OfVm<'_, Full>], other: Knobs, cost: &Cost) -> Option<Measured> {
        self.0.measure(&inner(vms), other, cost)
    }
}

/// Its ceiling, its load and for how many steps that stays, and what the journal has.
struct Vm {
    ceiling: Ceiling,
    load: Load,
    stays: u64,
    held: Option<Held<u32>>,
}

struct Fleet {
    draw: SplitMix64,
    now: u64,
    next_pid: u32,
    vms: BTreeMap<VmKey, Vm>,
    pilot: Pilot<Filled>,
}

const FOUND_NS: u32 = 200_000;

impl Fleet {
    fn new(seed: u64) -> Self {
        let evidence = Filled(Modelled {
            bias: 0.1,
            seed: SplitMix64(seed),
        });
        let mut fleet = Self {
            draw: SplitMix64(seed),
            now: 0,
            next_pid: 100,
            vms: BTreeMap::new(),
            pilot: Pilot::new(setup(evidence, Memory::default(), seed)),
        };
        (0..VMS).for_each(|_| fleet.comes());
        fleet
    }

    fn comes(&mut self) {
        let key = VmKey {
            pid: Pid(self.next_pid),
            start_ticks: u64::from(self.next_pid),
            ordinal: 0,
        };
        self.next_pid += 1;
        let vm = Vm {
            ceiling: Ceiling::Follows,
            load: Load::draw(&mut self.draw),
            stays: 0,
            held: None,
        };
        self.vms.insert(key, vm);
    }

    /// Phases of minutes to hours; each hour a VM goes and another comes.
    fn fate(&mut self, step: u64) {
        if step.is_multiple_of(STEPS) {
            let place = usize::try_from(self.draw.below(u64::from(VMS))).unwrap();
            let gone = *self.vms.keys().nth(place).unwrap();
            self.vms.remove(&gone);
            self.comes();
        }
        for vm in self.vms.values_mut() {
            if vm.stays == 0 {
                vm.load = Load::draw(&mut self.draw);
                vm.stays = 6 + self.draw.below(1_000);
            }
            vm.stays -= 1;
        }
    }

    fn seen(&mut self) -> Seen {
        let draw = &mut self.draw;
        let of = |(key, vm): (&VmKey, &Vm)| {
            let in_force = vm.ceiling.in_force(Some(FOUND_NS)).unwrap();
            let noise = 0.95 + 0.1 * draw.unit();
            let counts: Counts = counts(&vm.load, in_force, noise, false);
            VmSeen {
                key: *key,
                name: format!("vm-{}", key.pid),
                vcpus: VCPUS,
                goal: Some(Goal::default()),
                ceiling: vm.ceiling,
                held: vm.held,
                has_answered: true,
                polls_itself: false,
                counts: Some(counts),
            }
        };
        let host = HostSeen {
            knobs: Some(Knobs {
                halt_poll_ns: FOUND_NS,
                ..Knobs::defaults(Version::new(6, 12), Arch::X86)
            }),
            cpus: 64,
            busy_cpus: Some(20.0),
            cpu_pressure: Pressure::Share(0.01),
            ..HostSeen::default()
        };
        let vms = self.vms.iter().map(of).collect();
        Seen {
            host,
            vms,
            counted: true,
        }
    }

    fn make(&mut self, decisions: Vec<Decision>) {
        let mut decisions = VecDeque::from(decisions);
        while let Some(decision) = decisions.pop_front() {
            let Some(change) = decision.change.filter(|_| decision.is_made) else {
                continue;
            };
            if let Scope::Vm(key) = decision.scope
                && let Some(vm) = self.vms.get_mut(&key)
            {
                let ours = change.to.halt_poll_ns;
                vm.held.get_or_insert(Held {
                    before: FOUND_NS,
                    ours,
                });
                vm.held = vm.held.map(|held| Held { ours, ..held });
                vm.ceiling = Ceiling::Own(ours);
            }
            decisions.extend(self.pilot.made(self.now, &decision, Ok(())));
        }
    }

    /// Records what is wanted until the next step.
    fn collect(&mut self, until: u64) {
        while let Some(wanted) = self.pilot.wanted().cloned() {
            let took = wanted.skip_ns + wanted.length_ns;
            if self.now + took > until {
                return;
            }
            self.now += took;
            let noise = 0.98 + 0.04 * self.draw.unit();
            let of = |key: &VmKey| {
                let full = self.vms.get(key).map(|vm| {
                    let chunk = Chunk {
                        load: vm.load,
                        ceiling_ns: vm.ceiling.in_force(Some(FOUND_NS)).unwrap(),
                        span_ns: wanted.length_ns,
                        noise,
                    };
                    Full(chunk, wanted.most_halts)
                });
                (*key, full)
            };
            let facts = wanted.vms.iter().map(of).collect();
            let decisions = self.pilot.facts(self.now, facts);
            self.make(decisions);
        }
    }

    fn hour(&mut self, hour: u64) {
        for step in hour * STEPS..(hour + 1) * STEPS {
            self.now = step * STEP;
            self.fate(step);
            let seen = self.seen();
            let decisions = self.pilot.step(self.now, seen);
            self.make(decisions);
            self.collect((step + 1) * STEP);
        }
    }
}

#[test]
fn what_it_holds_of_fifty_vcpus_does_not_grow() {
    let mut fleet = Fleet::new(1);
    let mut held = Vec::new();
    for hour in 0..HOURS {
        fleet.hour(hour as u64);
        let standing = fleet.pilot.standing();
        let kept = serde_json::to_string(&fleet.pilot.memory()).unwrap().len();
        let of = [values(&fleet.pilot), kept, standing.halts_held];
        println!(
            "{:>2} h: {:>6} values, {:>6} bytes kept on disk, {:>6} halts",
            hour + 1,
            of[0],
            of[1],
            of[2]
        );
        assert!(standing.halts_held <= 131_072, "{of:?}");
        assert_eq!(standing.vms.len(), VMS as usize);
        held.push(of);
    }
    for what in [0, 1] {
        let mut first: Vec<usize> = held[..DAY].iter().map(|hour| hour[what]).collect();
        let mut last: Vec<usize> = held[HOURS - DAY..].iter().map(|hour| hour[what]).collect();
        first.sort_unstable();
        last.sort_unstable();
        // Medians: a trial more or less may be under way. What was proven and when there were changes fills up to its
        // bound over the first day; a value in each step were 8,640 a day.
        let (then, before) = (last[DAY / 2], first[DAY / 2]);
        assert!(then <= before + before / 4, "{then} after {before}");
    }
    assert!(fleet.pilot.standing().decided.len() > 3, "it was at work");
}

/// Wake-up latencies of all VMs that ever were are a sample of them.
#[test]
fn what_replays_have_learnt_does_not_grow() {
    let kernel = (Version::new(6, 12), Arch::X86);
    let mut replayed = Replayed::new(kernel, None, Latencies::default(), 1);
    let mut draw = SplitMix64(1);
    let mut learn = |replayed: &mut Replayed, looks: u32| {
        for _ in 0..looks {
            let halts = (0..64).map(|_| halt(&mut draw)).collect();
            replayed.learn(&Stretch {
                began_ns: 0,
                span_ns: 3 * SECOND,
                halts,
            });
        }
        values(replayed)
    };
    let early = learn(&mut replayed, 2_000);
    let late = learn(&mut replayed, 20_000);
    println!("{early} values after 2,000 looks, {late} after 22,000");
    assert!(late <= early, "{late} after {early}");
}

/// One that slept, for up to seconds.
fn halt(draw: &mut SplitMix64) -> Halt {
    let wake_latency_ns = 1_000 + draw.below(100_000);
    let slept_ns = 1 << draw.below(32);
    Halt {
        halt_ns: slept_ns + wake_latency_ns,
        waited: true,
        valid: true,
        wake_latency_ns: Some(wake_latency_ns),
        poll_ns: Some(0),
        polled: Some(false),
        window_ns: Some(0),
        ceiling_ns: Some(FOUND_NS),
        ceiling_source: CeilingSource::Param,
        ..Halt::default()
    }
}
