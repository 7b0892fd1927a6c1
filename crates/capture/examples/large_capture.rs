//! Writes, finishes and reads a capture of many halts, and prints time and memory of each step.
//!
//! Shows that memory does not grow with the capture:
//!
//!     cargo run --release -p haltwise-capture --example large_capture -- DIR 20000000
#![expect(clippy::print_stdout, reason = "prints what it measures")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use haltwise_capture::capture::Capture;
use haltwise_capture::info::{CaptureInfo, Clock, Ended, Host, Tool};
use haltwise_capture::recording::{Ending, Recording};
use haltwise_core::event::{CeilingSource, Facts, Halt, WakeSource};
use haltwise_core::ids::{Tid, VcpuId, VmIndex};
use haltwise_core::recording::{Mode, Rung};
use haltwise_core::units::Nanos;
use haltwise_core::workload::SplitMix64;

/// Rows of one flush.
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
    let directory = Path::new(&directory);

    let start = Instant::now();
    let mut recording = Recording::create(directory, info())?;
    let mut random = SplitMix64(1);
    let mut flush = Facts::default();
    let mut now_ns = 5_000_000_000_000;
    for number in 0..halts {
        flush.halts.push(halt(&mut random, &mut now_ns));
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
        vm: Some(VmIndex(0)),
        vcpu: Some(VcpuId(0)),
        tid: Tid(4711),
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

fn info() -> CaptureInfo {
    let tool = Tool {
        name: "large_capture".into(),
        version: env!("CARGO_PKG_VERSION").into(),
    };
    let host = Host {
        kernel_release: "none".into(),
        arch: std::env::consts::ARCH.into(),
        cpu_model: None,
        cpus: 1,
        hostname: None,
    };
    CaptureInfo::new(tool, host, Clock::new(0, 0), Rung::Import, Mode::Full)
}
