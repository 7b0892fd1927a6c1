//! What the tests of the capture share: facts of every kind, and how to read them all.

use std::collections::BTreeMap;

use haltwise_capture::capture::Capture;
use haltwise_capture::error::CaptureReadError;
use haltwise_capture::info::{CaptureInfo, Clock, Ended, Host, Tool};
use haltwise_capture::recording::Ending;
use haltwise_capture::rows::Rows;
use haltwise_core::event::{
    CeilingSource, Facts, Halt, HaltCounts, HostSample, IdleState, Knob, KnobScope, Lost,
    WakeSource, WindowCall, WindowChange,
};
use haltwise_core::exit::{Cause, Exits, Isa, Kind};
use haltwise_core::hist::LogHist;
use haltwise_core::ids::{Tid, VcpuId, VmIndex};
use haltwise_core::profile::{self, Frame, Hit, Phase, Sample, Space, Stack, Thread};
use haltwise_core::recording::{Mode, Rung};
use proptest::option;
use proptest::prelude::*;

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

/// As many halts, 20 us apart.
pub(crate) fn some_halts(n: u64) -> Facts {
    let halt = |i: u64| Halt {
        start_ns: 1_000_000_000 + 20_000 * i,
        halt_ns: 5_700 + i % 97,
        vm: Some(VmIndex(0)),
        vcpu: Some(VcpuId(1)),
        tid: Tid(4711),
        valid: true,
        wake: WakeSource::Device,
        poll_ns: Some(5_600),
        wake_latency_ns: Some(0),
        ..Halt::default()
    };
    Facts {
        halts: (0..n).map(halt).collect(),
        ..Facts::default()
    }
}

/// Facts as a capture stores them: the halts of a flush in order of their start.
pub(crate) fn sorted(mut facts: Facts) -> Facts {
    facts.halts.sort_by_key(|halt| halt.start_ns);
    facts
}

/// Everything that a capture holds, whatever it says.
pub(crate) fn read_all(capture: &Capture) -> Facts {
    let capture = &capture.clone().as_stored();
    Facts {
        halts: all(capture.halts()),
        windows: all(capture.window_changes()),
        counts: all(capture.halt_counts()),
        knobs: all(capture.knobs()),
        host: all(capture.host_samples()),
        idle_states: all(capture.idle_states()),
        lost: all(capture.lost()),
        exits: all(capture.exits()),
        profile: profile::Rows {
            frames: all(capture.sample_frames()),
            stacks: all(capture.sample_stacks()),
            threads: all(capture.sample_threads()),
            samples: all(capture.samples()),
        },
    }
}

fn all<T>(rows: Result<Rows<T>, CaptureReadError>) -> Vec<T> {
    let rows = rows.and_then(Iterator::collect);
    rows.expect("a capture that was written by a recording")
}

/// Numbers near zero, near the end, and between.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..100_u64, any::<u64>(), Just(u64::MAX)]
}

fn who() -> impl Strategy<Value = (Option<VmIndex>, Option<VcpuId>, Tid)> {
    let vm = option::of(any::<u32>().prop_map(VmIndex));
    let vcpu = option::of(any::<u32>().prop_map(VcpuId));
    (vm, vcpu, any::<u32>().prop_map(Tid))
}

fn halt() -> impl Strategy<Value = Halt> {
    let windows = (
        option::of(any::<u32>()),
        option::of(any::<u32>()),
        option::of(any::<u32>()),
        prop::sample::select(CeilingSource::ALL.to_vec()),
        prop::sample::select(WindowCall::ALL.to_vec()),
    );
    let wake = (
        option::of(number()),
        option::of(number()),
        prop::sample::select(WakeSource::ALL.to_vec()),
    );
    let bools = any::<(bool, bool, bool, Option<bool>)>();
    (number(), number(), who(), windows, wake, bools).prop_map(
        |(start_ns, halt_ns, (vm, vcpu, tid), windows, wake, bools)| Halt {
            start_ns,
            halt_ns,
            vm,
            vcpu,
            tid,
            waited: bools.0,
            valid: bools.1,
            window_ns: windows.0,
            window_next_ns: windows.1,
            ceiling_ns: windows.2,
            ceiling_source: windows.3,
            change: windows.4,
            poll_ns: wake.0,
            polled: bools.3,
            wake_latency_ns: wake.1,
            wake: wake.2,
            poll_cut: Some(bools.2),
        },
    )
}

fn window_change() -> impl Strategy<Value = WindowChange> {
    (number(), who(), any::<(bool, u32, u32)>()).prop_map(
        |(time_ns, (vm, vcpu, tid), (grow, old_ns, new_ns))| WindowChange {
            time_ns,
            vm,
            vcpu,
            tid,
            grow,
            old_ns,
            new_ns,
        },
    )
}

fn hist() -> impl Strategy<Value = LogHist> {
    (prop::collection::vec(number(), 0..12), 0..1000_u64).prop_map(|(values, extra)| {
        let mut hist = LogHist::default();
        for value in values {
            hist.record(value);
        }
        hist.add_buckets([0, 0, extra], 2 * extra);
        hist
    })
}

fn counts() -> impl Strategy<Value = HaltCounts> {
    let numbers = (number(), number(), number(), number());
    let maybe = (
        option::of(number()),
        option::of(number()),
        option::of(number()),
        option::of(number()),
        option::of(number()),
    );
    let hists = (hist(), hist(), hist(), hist(), hist());
    (numbers, who(), maybe, any::<[u64; 5]>(), hists).prop_map(
        |(numbers, (vm, vcpu, tid), maybe, wakes, hists)| HaltCounts {
            time_ns: numbers.0,
            interval_ns: numbers.1,
            vm,
            vcpu,
            tid,
            halts: numbers.2,
            waited: numbers.3,
            poll_known: maybe.3,
            polled: maybe.0,
            successful_polls: maybe.1,
            poll_cuts: maybe.2,
            turned_back_ns: maybe.4,
            wakes,
            halt_ns: hists.0,
            gap_ns: hists.1,
            poll_success_ns: hists.2,
            poll_fail_ns: hists.3,
            wake_latency_ns: hists.4,
        },
    )
}

fn knob() -> impl Strategy<Value = Knob> {
    let scope = prop_oneof![
        Just(KnobScope::Host),
        Just(KnobScope::GuestOfOther),
        any::<u32>().prop_map(|vm| KnobScope::Vm(VmIndex(vm))),
    ];
    (number(), any::<String>(), scope, any::<String>()).prop_map(|(time_ns, name, scope, value)| {
        Knob {
            time_ns,
            name,
            scope,
            value,
        }
    })
}

fn host_sample() -> impl Strategy<Value = HostSample> {
    let numbers = (
        number(),
        any::<u32>(),
        number(),
        number(),
        number(),
        number(),
        option::of(number()),
        option::of(number()),
    );
    (numbers, option::of(number()), option::of(number())).prop_map(
        |(numbers, cpu_pressure_ns, bpf_cpu_ns)| HostSample {
            time_ns: numbers.0,
            cpus: numbers.1,
            busy_ns: numbers.2,
            total_ns: numbers.3,
            cpu_pressure_ns,
            recorder_cpu_ns: numbers.4,
            bpf_cpu_ns,
            recorder_rss_bytes: numbers.5,
            steal_ns: None,
            idle_ns: None,
            package_uj: None,
            cycles: numbers.6,
            instructions: numbers.7,
        },
    )
}

fn idle_state() -> impl Strategy<Value = IdleState> {
    let numbers = (number(), any::<u32>(), any::<u32>(), number(), number());
    let maybe = (option::of(number()), option::of(number()));
    (numbers, any::<[String; 2]>(), maybe).prop_map(
        |((time_ns, state, cpus, entries, residency_ns), [name, description], maybe)| IdleState {
            time_ns,
            state,
            name,
            description,
            cpus,
            entries,
            residency_ns,
            above: maybe.0,
            below: maybe.1,
        },
    )
}

fn lost() -> impl Strategy<Value = Lost> {
    (number(), number(), any::<String>()).prop_map(|(time_ns, count, place)| Lost {
        time_ns,
        count,
        place,
    })
}

fn exits() -> impl Strategy<Value = Exits> {
    let what = (
        prop::sample::select(Kind::ALL.to_vec()),
        prop::sample::select(Isa::ALL.to_vec()),
        option::of(any::<u32>()),
        option::of(number()),
    );
    (number(), number(), who(), what, number(), number(), hist()).prop_map(
        |(time_ns, interval_ns, (vm, vcpu, tid), what, count, user_ns, handling_ns)| Exits {
            time_ns,
            interval_ns,
            vm,
            vcpu,
            tid,
            cause: Cause {
                kind: what.0,
                isa: what.1,
                reason: what.2,
                sub: what.3,
            },
            count,
            user_ns,
            handling_ns,
        },
    )
}

fn sample() -> impl Strategy<Value = Sample> {
    let what = (
        prop::sample::select(profile::Event::ALL.to_vec()),
        prop::sample::select(Hit::ALL.to_vec()),
        prop::sample::select(Phase::ALL.to_vec()),
        prop::sample::select(Isa::ALL.to_vec()),
        option::of(any::<u32>()),
    );
    (number(), who(), any::<u32>(), number(), number(), what).prop_map(
        |(time_ns, (vm, vcpu, tid), cpu, weight, stack, what)| Sample {
            time_ns,
            vm,
            vcpu,
            tid,
            cpu,
            event: what.0,
            weight,
            hit: what.1,
            stack,
            phase: what.2,
            isa: what.3,
            reason: what.4,
        },
    )
}

fn frame() -> impl Strategy<Value = Frame> {
    let space = prop::sample::select(Space::ALL.to_vec());
    let text = any::<String>;
    (
        number(),
        space,
        text(),
        option::of(text()),
        option::of(number()),
    )
        .prop_map(|(id, space, module, symbol, address)| Frame {
            id,
            space,
            module,
            symbol,
            address,
        })
}

fn samples() -> impl Strategy<Value = profile::Rows> {
    let frames = || prop::collection::vec(number(), 0..20);
    let stack = (number(), frames(), any::<bool>());
    let stack = stack.prop_map(|(id, frames, cut)| Stack { id, frames, cut });
    let thread = (who(), any::<u32>(), option::of(any::<String>()));
    let thread = thread.prop_map(|((vm, _, tid), pid, name)| Thread {
        vm,
        pid: haltwise_core::ids::Pid(pid),
        tid,
        name,
    });
    (
        prop::collection::vec(frame(), 0..5),
        prop::collection::vec(stack, 0..5),
        prop::collection::vec(thread, 0..3),
        prop::collection::vec(sample(), 0..20),
    )
        .prop_map(|(frames, stacks, threads, samples)| profile::Rows {
            frames,
            stacks,
            threads,
            samples,
        })
}

pub(crate) fn facts() -> impl Strategy<Value = Facts> {
    (
        prop::collection::vec(halt(), 0..40),
        prop::collection::vec(window_change(), 0..5),
        prop::collection::vec(counts(), 0..4),
        prop::collection::vec(knob(), 0..4),
        prop::collection::vec(host_sample(), 0..3),
        prop::collection::vec(idle_state(), 0..3),
        prop::collection::vec(lost(), 0..3),
        prop::collection::vec(exits(), 0..4),
        samples(),
    )
        .prop_map(
            |(halts, windows, counts, knobs, host, idle_states, lost, exits, profile)| Facts {
                halts,
                windows,
                counts,
                knobs,
                host,
                idle_states,
                lost,
                exits,
                profile,
            },
        )
}
