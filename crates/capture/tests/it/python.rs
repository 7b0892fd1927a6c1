//! Captures are read by pandas, DuckDB and Polars as they are.
//!
//! `HALTWISE_PYTHON` names an interpreter that has them; see `tests/read_capture.py`.

use std::process::Command;

use haltwise_capture::recording::Recording;
use haltwise_core::event::{
    CeilingSource, Facts, Halt, HaltCounts, HostSample, IdleState, Knob, KnobScope, Lost,
    Observable, Vcpu, Vm, WakeSource, WindowCall, WindowChange,
};
use haltwise_core::exit::{Cause, Exits, Isa, Kind};
use haltwise_core::hist::LogHist;
use haltwise_core::ids::{Pid, Tid, VcpuId, VmIndex, VmKey, VmmKind};
use haltwise_core::profile::{Event, Frame, Hit, Phase, Rows, Sample, Space, Stack, Thread};
use haltwise_core::recording::Roster;

use crate::common::{ending, info};

fn facts() -> Facts {
    let halt = |i: u64| Halt {
        start_ns: (1 << 62) + 20_000 * i,
        halt_ns: 5_700 + i % 97,
        vm: Some(VmIndex(0)),
        vcpu: Some(VcpuId(0)),
        tid: Tid(4711),
        waited: i.is_multiple_of(3),
        valid: true,
        change: WindowCall::Grow,
        poll_ns: (!i.is_multiple_of(5)).then_some(5_000),
        wake: if i.is_multiple_of(2) {
            WakeSource::Timer
        } else {
            WakeSource::Device
        },
        ..Halt::default()
    };
    let mut halt_ns = LogHist::default();
    for value in [0, 3, 3, 9] {
        halt_ns.record(value);
    }
    Facts {
        halts: (0..1000).map(halt).collect(),
        windows: vec![WindowChange {
            time_ns: 1,
            vm: None,
            vcpu: None,
            tid: Tid(1),
            grow: true,
            old_ns: 0,
            new_ns: 10_000,
        }],
        counts: vec![HaltCounts {
            halt_ns,
            ..HaltCounts::default()
        }],
        knobs: vec![Knob {
            time_ns: 1,
            name: "halt_poll_ns".into(),
            scope: KnobScope::Host,
            value: "200000".into(),
        }],
        host: vec![HostSample::default()],
        idle_states: vec![IdleState::default()],
        lost: vec![Lost {
            time_ns: 1,
            count: 2,
            place: "ring buffer full".into(),
        }],
        exits: vec![Exits {
            time_ns: 1,
            interval_ns: 1,
            vm: None,
            vcpu: None,
            tid: Tid(1),
            cause: Cause {
                kind: Kind::MsrWrite,
                isa: Isa::Vmx,
                reason: Some(32),
                sub: Some(0x830),
            },
            count: 1,
            user_ns: 0,
            handling_ns: LogHist::default(),
        }],
        profile: profile(),
    }
}

fn profile() -> Rows {
    Rows {
        frames: vec![Frame {
            id: 1,
            space: Space::Kernel,
            module: "kernel".into(),
            symbol: Some("kvm_vcpu_halt".into()),
            address: None,
        }],
        stacks: vec![Stack {
            id: 1,
            frames: vec![1],
            cut: false,
        }],
        threads: vec![Thread {
            vm: Some(VmIndex(0)),
            pid: Pid(4700),
            tid: Tid(4711),
            name: Some("vcpu 0".into()),
        }],
        samples: vec![Sample {
            time_ns: 1,
            vm: Some(VmIndex(0)),
            vcpu: None,
            tid: Tid(4711),
            cpu: 0,
            event: Event::CpuClock,
            weight: 1_003_009,
            hit: Hit::Kernel,
            stack: 1,
            phase: Phase::Exit,
            isa: Isa::Vmx,
            reason: Some(12),
        }],
    }
}

fn roster() -> Roster {
    let vm = Vm {
        index: VmIndex(0),
        key: VmKey {
            pid: Pid(4700),
            start_ticks: 5,
            ordinal: 0,
        },
        name: "web-1".into(),
        vmm: VmmKind::Qemu,
        observable: Observable::Yes,
        ..Vm::default()
    };
    let vcpu = Vcpu {
        vm: VmIndex(0),
        id: VcpuId(0),
        tid: Tid(4711),
        window_ns: None,
        ceiling_ns: Some(200_000),
        ceiling_source: CeilingSource::Param,
        guest_veto: None,
    };
    Roster {
        vms: vec![vm],
        vcpus: vec![vcpu],
    }
}

#[test]
#[expect(
    clippy::print_stdout,
    reason = "says what was read, and what was skipped"
)]
fn pandas_duckdb_and_polars_read_it() {
    let (complete, cut) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (dir, finish) in [(&complete, true), (&cut, false)] {
        let mut recording = Recording::create(dir.path(), info()).unwrap();
        recording.set_roster(&roster()).unwrap();
        recording.append(&facts()).unwrap();
        if finish {
            recording.finish(ending()).unwrap();
        }
    }
    let halts = facts().halts;
    let count = |of: fn(&Halt) -> bool| halts.iter().filter(|halt| of(halt)).count();
    let expected = serde_json::json!({
        "rows": halts.len(),
        "halt_ns": halts.iter().map(|halt| halt.halt_ns).sum::<u64>(),
        "start_ns_max": halts.iter().map(|halt| halt.start_ns).max(),
        "timers": count(|halt| halt.wake == WakeSource::Timer),
        "waited": count(|halt| halt.waited),
        "poll_ns_nulls": count(|halt| halt.poll_ns.is_none()),
        "change": "grow",
        "hist": [1, 0, 0, 2, 0, 0, 0, 0, 0, 1],
        "vm_name": "web-1",
    });
    let python = std::env::var("HALTWISE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/read_capture.py");
    let output = Command::new(&python)
        .arg(script)
        .args([complete.path(), cut.path()])
        .arg(expected.to_string())
        .output();
    match output {
        Err(error) => println!("skipped: {python}: {error}"),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout);
            let complained = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}{complained}");
            print!("{said}");
        }
    }
}
