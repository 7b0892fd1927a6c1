//! A collector by seed: VMs that come and go, halts, settings, losses, exits and samples.

use std::collections::BTreeMap;

use haltwise_core::event::{
    Facts, Halt, HaltCounts, HostSample, IdleState, Knob, KnobScope, Lost, Observable, Vcpu, Vm,
    WakeSource, WindowChange,
};
use haltwise_core::exit::{Cause, Exits, Isa, Kind};
use haltwise_core::hist::LogHist;
use haltwise_core::ids::{Pid, Tid, VcpuId, VmIndex, VmKey, VmmKind};
use haltwise_core::profile::{self, Frame, Hit, Phase, Sample, Space, Stack, Thread};
use haltwise_core::recording::{Mode, Roster};
use haltwise_core::vmm::VcpuTime;
use haltwise_core::workload::SplitMix64;

pub(super) const START_NS: u64 = 1_000_000_000;

const FLUSH_NS: u64 = 500_000_000;
/// Jump of a clock that was not read for long.
const JUMP_NS: u64 = 3 * 3600 * 1_000_000_000;

#[derive(Debug)]
pub(super) struct Collector {
    random: SplitMix64,
    pub(super) now_ns: u64,
    pub(super) roster: Roster,
    mode: Mode,
    with_samples: bool,
    name: usize,
    /// The flushes so far, the halts of each in order of their start.
    pub(super) told: Vec<Facts>,
    /// Losses by place, as the recorder sums them up.
    pub(super) lost: BTreeMap<String, u64>,
}

impl Collector {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = SplitMix64(seed);
        let mode =
            [Mode::Full, Mode::Full, Mode::Counts][usize::try_from(random.below(3)).unwrap()];
        let mut collector = Self {
            now_ns: START_NS,
            roster: Roster::default(),
            mode,
            with_samples: random.below(8) == 0,
            // So that few VMs need more room in `capture.json` than was kept for it.
            name: if random.below(16) == 0 { 25_000 } else { 0 },
            told: Vec::new(),
            lost: BTreeMap::new(),
            random,
        };
        collector.vm_comes();
        collector
    }

    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    fn chance(&mut self, of: u64) -> bool {
        self.random.below(of) == 0
    }

    fn number(&mut self, below: u64) -> u32 {
        u32::try_from(self.random.below(below)).unwrap()
    }

    fn vm_comes(&mut self) {
        let number = u32::try_from(self.roster.vms.len()).unwrap();
        let index = VmIndex(number);
        self.roster.vms.push(Vm {
            index,
            key: VmKey::first(Pid(1_000 + number), 7),
            name: format!("vm-{number:0>width$}", width = self.name),
            vmm: VmmKind::Qemu,
            observable: Observable::Yes,
            ..Vm::default()
        });
        for id in 0..=self.number(2) {
            self.roster.vcpus.push(Vcpu {
                vm: index,
                id: VcpuId(id),
                tid: Tid(10_000 + number * 10 + id),
                time: (id > 0).then(|| VcpuTime {
                    real_time: Some(number > 1),
                    ..VcpuTime::default()
                }),
                ..Vcpu::default()
            });
        }
    }

    fn vm_goes(&mut self) {
        let gone = usize::try_from(self.random.below(self.roster.vms.len() as u64)).unwrap();
        let now_ns = self.now_ns;
        self.roster.vms[gone].to_ns.get_or_insert(now_ns);
    }

    pub(super) fn flush(&mut self) -> Facts {
        let before_ns = self.now_ns;
        self.now_ns += if self.chance(20) { JUMP_NS } else { FLUSH_NS };
        if self.chance(3) && self.roster.vms.len() < 4 {
            self.vm_comes();
        }
        let mut facts = Facts::default();
        for vcpu in self.roster.vcpus.clone() {
            let gone = self.roster.vms[vcpu.vm.0 as usize].to_ns.is_some();
            if !gone {
                self.halts(&vcpu, before_ns, &mut facts);
            }
        }
        if self.chance(8) {
            self.vm_goes();
        }
        self.rest(&mut facts);
        for lost in &facts.lost {
            *self.lost.entry(lost.place.clone()).or_default() += lost.count;
        }
        self.told.push(facts.clone());
        if let Some(told) = self.told.last_mut() {
            told.halts.sort_by_key(|halt| halt.start_ns);
        }
        facts
    }

    fn halts(&mut self, vcpu: &Vcpu, before_ns: u64, facts: &mut Facts) {
        let (mut at_ns, mut counts) = (before_ns, HaltCounts::default());
        for _ in 0..self.random.below(5) {
            let halt = Halt {
                start_ns: at_ns + 1 + self.random.below(90_000_000),
                halt_ns: 1 + self.random.below(30_000_000),
                vm: Some(vcpu.vm),
                vcpu: Some(vcpu.id),
                tid: vcpu.tid,
                waited: self.chance(2),
                valid: true,
                wake: WakeSource::Timer,
                poll_ns: Some(0),
                wake_latency_ns: Some(0),
                ..Halt::default()
            };
            at_ns = halt.end_ns();
            if self.mode == Mode::Full {
                facts.halts.push(halt);
            } else {
                counts.halts += 1;
                counts.waited += u64::from(halt.waited);
                counts.wakes[usize::from(halt.wake.code())] += 1;
                counts.halt_ns.record(halt.halt_ns);
            }
        }
        if counts.halts > 0 {
            (counts.time_ns, counts.interval_ns) = (at_ns, at_ns - before_ns);
            (counts.vm, counts.vcpu, counts.tid) = (Some(vcpu.vm), Some(vcpu.id), vcpu.tid);
            facts.counts.push(counts);
        }
        if self.chance(3) {
            facts.windows.push(WindowChange {
                time_ns: at_ns,
                vm: Some(vcpu.vm),
                vcpu: Some(vcpu.id),
                tid: vcpu.tid,
                grow: true,
                old_ns: 0,
                new_ns: 10_000,
            });
        }
        if self.with_samples && self.chance(2) {
            self.sample(vcpu, &mut facts.profile);
        }
    }

    fn sample(&mut self, vcpu: &Vcpu, rows: &mut profile::Rows) {
        let id = self.random.next_u64();
        rows.frames.push(Frame {
            id,
            space: Space::ALL[0],
            module: "kvm".into(),
            symbol: None,
            address: Some(id),
        });
        rows.stacks.push(Stack {
            id,
            frames: vec![id],
            cut: false,
        });
        rows.threads.push(Thread {
            vm: Some(vcpu.vm),
            pid: Pid(1_000 + vcpu.vm.0),
            tid: vcpu.tid,
            name: None,
        });
        rows.samples.push(Sample {
            time_ns: self.now_ns,
            vm: Some(vcpu.vm),
            vcpu: Some(vcpu.id),
            tid: vcpu.tid,
            cpu: 0,
            event: profile::Event::ALL[0],
            weight: 1,
            hit: Hit::ALL[0],
            stack: id,
            phase: Phase::ALL[0],
            isa: Isa::None,
            reason: None,
        });
    }

    fn rest(&mut self, facts: &mut Facts) {
        let time_ns = self.now_ns;
        facts.host.push(HostSample {
            time_ns,
            cpus: 2,
            ..HostSample::default()
        });
        if self.chance(4) {
            facts.idle_states.push(IdleState {
                time_ns,
                entries: u64::from(self.number(1_000)),
                ..IdleState::default()
            });
        }
        if self.chance(4) {
            facts.exits.push(Exits {
                time_ns,
                interval_ns: 1,
                vm: None,
                vcpu: None,
                tid: Tid(0),
                cause: Cause {
                    kind: Kind::Other,
                    isa: Isa::None,
                    reason: None,
                    sub: None,
                },
                count: 1,
                user_ns: 0,
                handling_ns: LogHist::default(),
            });
        }
        if self.chance(4) {
            facts.knobs.push(Knob {
                time_ns,
                name: "halt_poll_ns".into(),
                scope: KnobScope::Host,
                value: self.number(200_000).to_string(),
            });
        }
        if self.chance(3) {
            facts.lost.push(Lost {
                time_ns,
                count: 1 + self.random.below(9),
                place: "ring buffer full".into(),
            });
        }
    }
}
