//! Facts of every kind, drawn from a seed, with numbers near zero, near the end, and between.

use std::collections::BTreeMap;

use haltwise_capture::info::{CaptureInfo, Clock, Ended, Host, Tool};
use haltwise_capture::recording::Ending;
use haltwise_core::event::{
    CeilingSource, Facts, Halt, HaltCounts, HostSample, IdleState, Knob, KnobScope, Lost,
    WakeSource, WindowCall, WindowChange,
};
use haltwise_core::exit::{Cause, Exits, Isa, Kind};
use haltwise_core::hist::LogHist;
use haltwise_core::ids::{Pid, Tid, VcpuId, VmIndex};
use haltwise_core::profile::{self, Frame, Hit, Phase, Sample, Space, Stack, Thread};
use haltwise_core::recording::{Mode, Rung};
use haltwise_core::workload::SplitMix64;

pub(crate) fn info() -> CaptureInfo {
    CaptureInfo::new(
        Tool {
            name: "haltwise".into(),
            version: "0.1.0".into(),
        },
        Host {
            kernel_release: "6.12.0".into(),
            arch: "x86_64".into(),
            cpu_model: Some("Test CPU".into()),
            cpus: 2,
            hostname: None,
        },
        Clock::new(1_000_000_000, 1_735_689_600_000_000_000),
        Rung::Bpf,
        Mode::Full,
    )
}

pub(crate) fn ending() -> Ending {
    Ending {
        ended: Ended {
            time_ns: 11_000_000_000,
            by: "duration".into(),
        },
        lost: BTreeMap::new(),
        overhead: None,
    }
}

#[derive(Debug)]
pub(crate) struct Draw(pub(crate) SplitMix64);

impl Draw {
    pub(crate) fn facts(&mut self) -> Facts {
        Facts {
            halts: self.some(40, Self::halt),
            windows: self.some(5, Self::window_change),
            counts: self.some(4, Self::counts),
            knobs: self.some(4, Self::knob),
            host: self.some(3, Self::host_sample),
            idle_states: self.some(3, Self::idle_state),
            lost: self.some(3, Self::lost),
            exits: self.some(4, Self::exits),
            profile: profile::Rows {
                frames: self.some(5, Self::frame),
                stacks: self.some(5, Self::stack),
                threads: self.some(3, Self::thread),
                samples: self.some(20, Self::sample),
            },
        }
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.0.below(end as u64)).unwrap()
    }

    fn number(&mut self) -> u64 {
        match self.below(3) {
            0 => self.0.below(100),
            1 => self.0.next_u64(),
            _ => u64::MAX,
        }
    }

    fn number32(&mut self) -> u32 {
        u32::try_from(self.number() >> 32).unwrap()
    }

    fn flag(&mut self) -> bool {
        self.below(2) == 0
    }

    fn maybe<T>(&mut self, draw: fn(&mut Self) -> T) -> Option<T> {
        self.flag().then(|| draw(self))
    }

    fn some<T>(&mut self, end: usize, draw: fn(&mut Self) -> T) -> Vec<T> {
        (0..self.below(end)).map(|_| draw(self)).collect()
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    fn text(&mut self) -> String {
        let letters = ['\0', 'a', '"', '\\', '\n', 'é', '\u{202e}', '库', '👩'];
        let text = self.some(12, |draw| draw.below(9));
        text.into_iter().map(|at| letters[at]).collect()
    }

    fn vm(&mut self) -> VmIndex {
        VmIndex(self.number32())
    }

    fn vcpu(&mut self) -> VcpuId {
        VcpuId(self.number32())
    }

    fn hist(&mut self) -> LogHist {
        let mut hist = LogHist::default();
        for value in self.some(12, Self::number) {
            hist.record(value);
        }
        let extra = self.0.below(1_000);
        hist.add_buckets([0, 0, extra], 2 * extra);
        hist
    }

    fn halt(&mut self) -> Halt {
        Halt {
            start_ns: self.number(),
            halt_ns: self.number(),
            vm: self.maybe(Self::vm),
            vcpu: self.maybe(Self::vcpu),
            tid: Tid(self.number32()),
            waited: self.flag(),
            valid: self.flag(),
            window_ns: self.maybe(Self::number32),
            window_next_ns: self.maybe(Self::number32),
            ceiling_ns: self.maybe(Self::number32),
            ceiling_source: self.of(&CeilingSource::ALL),
            change: self.of(&WindowCall::ALL),
            poll_ns: self.maybe(Self::number),
            polled: self.maybe(Self::flag),
            wake_latency_ns: self.maybe(Self::number),
            wake: self.of(&WakeSource::ALL),
            poll_cut: Some(self.flag()),
            cpu: self.maybe(Self::number32),
            waker_cpu: self.maybe(Self::number32),
        }
    }

    fn window_change(&mut self) -> WindowChange {
        WindowChange {
            time_ns: self.number(),
            vm: self.maybe(Self::vm),
            vcpu: self.maybe(Self::vcpu),
            tid: Tid(self.number32()),
            grow: self.flag(),
            old_ns: self.number32(),
            new_ns: self.number32(),
        }
    }

    fn counts(&mut self) -> HaltCounts {
        HaltCounts {
            time_ns: self.number(),
            interval_ns: self.number(),
            vm: self.maybe(Self::vm),
            vcpu: self.maybe(Self::vcpu),
            tid: Tid(self.number32()),
            halts: self.number(),
            waited: self.number(),
            poll_known: self.maybe(Self::number),
            polled: self.maybe(Self::number),
            successful_polls: self.maybe(Self::number),
            poll_cuts: self.maybe(Self::number),
            turned_back_ns: self.maybe(Self::number),
            wakes: [(); 5].map(|()| self.number()),
            halt_ns: self.hist(),
            gap_ns: self.hist(),
            poll_success_ns: self.hist(),
            poll_fail_ns: self.hist(),
            wake_latency_ns: self.hist(),
        }
    }

    fn knob(&mut self) -> Knob {
        let of_vm = KnobScope::Vm(self.vm());
        Knob {
            time_ns: self.number(),
            name: self.text(),
            scope: self.of(&[KnobScope::Host, KnobScope::GuestOfOther, of_vm]),
            value: self.text(),
        }
    }

    fn host_sample(&mut self) -> HostSample {
        HostSample {
            time_ns: self.number(),
            cpus: self.number32(),
            busy_ns: self.number(),
            total_ns: self.number(),
            cpu_pressure_ns: self.maybe(Self::number),
            recorder_cpu_ns: self.number(),
            bpf_cpu_ns: self.maybe(Self::number),
            recorder_rss_bytes: self.number(),
            steal_ns: self.maybe(Self::number),
            idle_ns: self.maybe(Self::number),
            package_uj: self.maybe(Self::number),
            cycles: self.maybe(Self::number),
            instructions: self.maybe(Self::number),
        }
    }

    fn idle_state(&mut self) -> IdleState {
        IdleState {
            time_ns: self.number(),
            state: self.number32(),
            name: self.text(),
            description: self.text(),
            cpus: self.number32(),
            entries: self.number(),
            residency_ns: self.number(),
            above: self.maybe(Self::number),
            below: self.maybe(Self::number),
        }
    }

    fn lost(&mut self) -> Lost {
        Lost {
            time_ns: self.number(),
            count: self.number(),
            place: self.text(),
        }
    }

    fn exits(&mut self) -> Exits {
        Exits {
            time_ns: self.number(),
            interval_ns: self.number(),
            vm: self.maybe(Self::vm),
            vcpu: self.maybe(Self::vcpu),
            tid: Tid(self.number32()),
            cause: Cause {
                kind: self.of(&Kind::ALL),
                isa: self.of(&Isa::ALL),
                reason: self.maybe(Self::number32),
                sub: self.maybe(Self::number),
            },
            count: self.number(),
            user_ns: self.number(),
            handling_ns: self.hist(),
        }
    }

    fn frame(&mut self) -> Frame {
        Frame {
            id: self.number(),
            space: self.of(&Space::ALL),
            module: self.text(),
            symbol: self.maybe(Self::text),
            address: self.maybe(Self::number),
        }
    }

    fn stack(&mut self) -> Stack {
        Stack {
            id: self.number(),
            frames: self.some(20, Self::number),
            cut: self.flag(),
        }
    }

    fn thread(&mut self) -> Thread {
        Thread {
            vm: self.maybe(Self::vm),
            pid: Pid(self.number32()),
            tid: Tid(self.number32()),
            name: self.maybe(Self::text),
        }
    }

    fn sample(&mut self) -> Sample {
        Sample {
            time_ns: self.number(),
            vm: self.maybe(Self::vm),
            vcpu: self.maybe(Self::vcpu),
            tid: Tid(self.number32()),
            cpu: self.number32(),
            event: self.of(&profile::Event::ALL),
            weight: self.number(),
            hit: self.of(&Hit::ALL),
            stack: self.number(),
            phase: self.of(&Phase::ALL),
            isa: self.of(&Isa::ALL),
            reason: self.maybe(Self::number32),
        }
    }
}
