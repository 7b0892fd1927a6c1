//! Writes, finishes and reads a capture of many halts, and prints time and memory of each step.
//!
//! Shows that memory does not grow with the capture:
//!
//!     cargo run --release -p haltwise-capture --example large_capture -- DIR 20000000
//!
//! A third number is that of VMs, of one vCPU each, which halt in turn:
//!
//!     cargo run --release -p haltwise-capture --example large_capture -- DIR 300000 100000
#![expect(clippy::print_stdout, reason = "prints what it measures")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use haltwise_capture::capture::Capture;
use haltwise_capture::info::{CaptureInfo, Clock, Ended, Host, Tool};
use haltwise_capture::recording::{Ending, Recording};
use haltwise_core::event::{CeilingSource, Facts, Halt, Observable, Vcpu, Vm, WakeSource};
use haltwise_core::ids::{Pid, Tid, VcpuId, VmIndex, VmKey, VmmKind};
use haltwise_core::recording::{Mode, Rung};
use haltwise_core::units::Nanos;
use haltwise_core::workload::SplitMix64;

/// The thread of the first VM's vCPU.
const FIRST_TID: u32 = 4711;

const START_NS: u64 = 5_000_000_000_000;

const FLUSH: u64 = 10_000;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments
        .next()
        .unwrap_or_else(|| "large-capture".to_owned());
    let halts: u64 = arguments
        .next()
        .unwrap_or_else(|| "20000000".to_owned())
        .parse()?;
    let vms: u32 = arguments.next().unwrap_or_else(|| "1".to_owned()).parse()?;
    let directory = Path::new(&directory);

    let start = Instant::now();
    let mut recording = Recording::create(directory, info(vms))?;
    let mut random = SplitMix64(1);
    let mut flush = Facts::default();
    let mut now_ns = START_NS;
    let mut turns = (0..vms).cycle();
    for number in 0..halts {
        let mut halt = halt(&mut random, &mut now_ns);
        let vm = turns.next().unwrap_or_default();
        (halt.vm, halt.tid) = (Some(VmIndex(vm)), Tid(FIRST_TID + vm));
        flush.halts.push(halt);
        if (number + 1).is_multiple_of(FLUSH) {
            recording.append(&flush)?;
            flush.halts.clear();
        }
    }
    recording.append(&flush)?;
    tell("recorded", halts, start);

    let start = Instant::now();
    let ended = Ended {
        time_ns: now_ns,
        by: "end of the example".into(),
    };
    let summary = recording.finish(Ending {
        ended,
        lost: BTreeMap::new(),
        overhead: None,
    })?;
    tell("finished", summary.tables["halts"].rows, start);
    println!(
        "{:.2} bytes per halt",
        summary.tables["halts"].bytes as f64 / halts as f64
    );

    let start = Instant::now();
    let mut rows = 0;
    for halt in Capture::open(directory)?.halts()? {
        rows += u64::from(halt?.valid);
    }
    tell("read", rows, start);
    Ok(())
}

fn tell(what: &str, rows: u64, start: Instant) {
    let seconds = start.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap_or("unknown");
    println!(
        "{what} {rows} halts in {seconds:.1} s; peak memory so far {}",
        peak.trim()
    );
}

fn halt(random: &mut SplitMix64, now_ns: &mut u64) -> Halt {
    let halt_ns = 5_700 + random.exponential(Nanos(800)).0;
    let start_ns = *now_ns;
    *now_ns += halt_ns + 3_000 + random.exponential(Nanos(500)).0;
    Halt {
        start_ns,
        halt_ns,
        vcpu: Some(VcpuId(0)),
        valid: true,
        window_ns: Some(200_000),
        window_next_ns: Some(200_000),
        ceiling_ns: Some(200_000),
        ceiling_source: CeilingSource::Param,
        poll_ns: Some(halt_ns.saturating_sub(random.exponential(Nanos(60)).0)),
        wake_latency_ns: Some(0),
        wake: WakeSource::Device,
        ..Halt::default()
    }
}

fn info(vms: u32) -> CaptureInfo {
    let tool = Tool {
        name: "large_capture".into(),
        version: env!("CARGO_PKG_VERSION").into(),
    };
    let host = Host {
        kernel_release: "6.12.0".into(),
        arch: "x86_64".into(),
        cpu_model: None,
        cpus: 1,
        hostname: None,
    };
    let clock = Clock::new(START_NS, 0);
    let mut info = CaptureInfo::new(tool, host, clock, Rung::Import, Mode::Full);
    for number in 0..vms {
        let (index, tid) = (VmIndex(number), Tid(FIRST_TID + number));
        let key = VmKey {
            pid: Pid(tid.0),
            start_ticks: 1,
            ordinal: 0,
        };
        info.roster.vms.push(Vm {
            index,
            key,
            name: format!("vm-{number}"),
            vmm: VmmKind::Other,
            observable: Observable::Yes,
            ..Vm::default()
        });
        info.roster.vcpus.push(Vcpu {
            vm: index,
            id: VcpuId(0),
            tid,
            window_ns: None,
            ceiling_ns: None,
            ceiling_source: CeilingSource::Unknown,
            guest_veto: None,
            time: None,
        });
    }
    info
}
