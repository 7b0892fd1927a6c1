//! How long a user waits: `cargo bench -p haltwise --bench tune`.
//!
//! A capture of ten million halts of four vCPUs is written for each load, then the program is run on it
//! as a user would: `report`, `replay` of one policy, and `tune` with its three goals. The three are
//! interleaved; printed are medians of the rounds, with the lowest and highest, CPU time and the most
//! memory. Reading is part of it (from the page cache); printing too.
//!
//! Without `--bench`, which `cargo bench` gives, all of it runs once on few halts, and the figures mean
//! nothing. `--load NAME` leaves out other loads.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

#[path = "../../core/benches/replay/load.rs"]
#[expect(dead_code, reason = "the other benchmarks use all of it")]
mod load;

#[path = "run/process.rs"]
mod process;

use std::collections::BTreeMap;
use std::path::Path;

use haltwise_capture::info::{CaptureInfo, Clock, Ended, Host, Tool};
use haltwise_capture::recording::{Ending, Recording};
use haltwise_core::event::{CeilingSource, Facts, Halt, Knob, KnobScope};
use haltwise_core::ids::{Tid, VcpuId, VmIndex};
use haltwise_core::recording::{Mode, Rung};
use haltwise_core::stats::median_estimate;
use load::{LOADS, Load};
use process::{Ran, run};

/// VMs of one vCPU each.
const VCPUS: u32 = 4;

const VERBS: [&[&str]; 3] = [
    &["report"],
    &["replay", "--policy", "kvm", "--switch-cpu", "10us"],
    &["tune", "--switch-cpu", "10us"],
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let measures = arguments.iter().any(|argument| argument == "--bench");
    let only = arguments.iter().position(|argument| argument == "--load");
    let only = only.and_then(|place| arguments.get(place + 1));
    let (halts, rounds) = if measures {
        (10_000_000, 5)
    } else {
        (2_000, 1)
    };
    println!("seconds for {halts} halts of {VCPUS} vCPUs (medians, lowest to highest of {rounds})");
    println!(
        "{:<8} {:<8} {:>20} {:>9} {:>10}",
        "load", "verb", "seconds", "CPU", "memory"
    );
    let is_wanted = |load: &&Load| only.is_none_or(|name| name == load.name);
    for load in LOADS.iter().filter(is_wanted) {
        let directory = tempfile::tempdir().expect("a directory");
        let capture = directory.path().join("cap");
        write(&capture, load, halts);
        let mut runs = vec![Vec::new(); VERBS.len()];
        for _ in 0..rounds {
            for (verb, runs) in VERBS.iter().zip(&mut runs) {
                runs.push(run(verb, &capture));
            }
        }
        for (verb, runs) in VERBS.iter().zip(&runs) {
            say(load.name, verb[0], runs);
        }
    }
}

fn say(load: &str, verb: &str, runs: &[Ran]) {
    let column = |of: fn(&Ran) -> f64| runs.iter().map(of).collect::<Vec<f64>>();
    let median = |values: &[f64]| median_estimate(values).map_or(f64::NAN, |of| of.median);
    let seconds = column(|run| run.seconds);
    let low = seconds.iter().copied().fold(f64::INFINITY, f64::min);
    let high = seconds.iter().copied().fold(0.0, f64::max);
    let wall = format!("{:.2} ({low:.2}..{high:.2})", median(&seconds));
    let cpu = median(&column(|run| run.cpu_seconds));
    let memory = median(&column(|run| run.memory_mb));
    println!("{load:<8} {verb:<8} {wall:>20} {cpu:>7.2} s {memory:>7.0} MB");
}

/// Writes the capture: each vCPU has a load of its own draw, and halts of all are mixed by time.
fn write(directory: &Path, load: &Load, halts: usize) {
    let tool = Tool {
        name: "bench".to_owned(),
        version: "0".to_owned(),
    };
    let host = Host {
        kernel_release: "6.12.0".to_owned(),
        arch: "x86_64".to_owned(),
        cpu_model: None,
        cpus: VCPUS,
        hostname: None,
    };
    let clock = Clock::new(1_000_000_000, 1_767_225_600_000_000_000);
    let mut info = CaptureInfo::new(tool, host, clock, Rung::Bpf, Mode::Full);
    info.knobs = [
        ("halt_poll_ns", "200000"),
        ("halt_poll_ns_grow", "2"),
        ("halt_poll_ns_grow_start", "10000"),
        ("halt_poll_ns_shrink", "2"),
    ]
    .map(|(name, value)| Knob {
        time_ns: 1_000_000_000,
        name: name.to_owned(),
        scope: KnobScope::Host,
        value: value.to_owned(),
    })
    .to_vec();
    let mut recording = Recording::create(directory, info).expect("a capture");
    let drawn = load.halts((halts / VCPUS as usize).min(500_000));
    let length_ns = drawn.last().map_or(0, |last| last.end_ns() + 5_000);
    let times = halts / VCPUS as usize / drawn.len();
    for time in 0..times as u64 {
        for some in drawn.chunks(50_000) {
            let mut halts: Vec<Halt> = (0..VCPUS).flat_map(|vcpu| of(some, vcpu)).collect();
            for halt in &mut halts {
                halt.start_ns += 1_000_000_000 + time * length_ns;
            }
            let facts = Facts {
                halts,
                ..Facts::default()
            };
            recording.append(&facts).expect("a disk with room");
        }
    }
    let ended = Ended {
        time_ns: 1_000_000_000 + times as u64 * length_ns,
        by: "duration".to_owned(),
    };
    let ending = Ending {
        ended,
        lost: BTreeMap::new(),
        overhead: None,
    };
    recording.finish(ending).expect("a disk with room");
}

fn of(halts: &[Halt], vcpu: u32) -> impl Iterator<Item = Halt> + '_ {
    halts.iter().map(move |halt| Halt {
        vm: Some(VmIndex(vcpu)),
        vcpu: Some(VcpuId(0)),
        tid: Tid(100 + vcpu),
        ceiling_ns: Some(200_000),
        ceiling_source: CeilingSource::Param,
        window_next_ns: halt.window_ns,
        ..*halt
    })
}
