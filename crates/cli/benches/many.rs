//! What a capture of many VMs takes: `cargo bench -p haltwise --bench many`.
//!
//! 100,000 VMs of one vCPU each, with 30 halts each, three in a second; printed are the time and the most memory of each
//! verb. `--vms N` and `--halts N` are for other numbers, `--write DIR` leaves such a capture and measures nothing.
//! Without `--bench`, which `cargo bench` gives, there are few VMs, and the figures mean nothing.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

#[path = "run/process.rs"]
mod process;

use std::collections::BTreeMap;
use std::path::Path;

use haltwise_capture::info::{CaptureInfo, Clock, Ended, Host, Tool};
use haltwise_capture::recording::{Ending, Recording};
use haltwise_core::event::{CeilingSource, Facts, Halt, Knob, KnobScope, Observable, Vcpu, Vm};
use haltwise_core::event::{WakeSource, WindowCall};
use haltwise_core::identity::Identity;
use haltwise_core::ids::{Pid, Tid, VcpuId, VmIndex, VmKey, VmmKind};
use haltwise_core::recording::{Mode, Rung};
use haltwise_core::workload::SplitMix64;
use process::run;

const START_NS: u64 = 1_000_000_000;
/// Of each VM.
const HALTS: u64 = 30;

/// From one halt of a VM to its next, about.
const TURN_NS: u64 = 10_000_000_000 / HALTS;

const VERBS: [&[&str]; 12] = [
    &["check"],
    &["report"],
    &["report", "--json"],
    &["replay"],
    &["replay", "--json"],
    &["tune", "--json"],
    &["explain", "--json"],
    &["verify", "--json"],
    &["top", "--once"],
    &["top", "--once", "--json"],
    &["now", "--json"],
    &["diff", "--json"],
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let measures = arguments.iter().any(|argument| argument == "--bench");
    let given = |option: &str| {
        let place = arguments.iter().position(|argument| argument == option)?;
        arguments.get(place + 1)
    };
    let vms = given("--vms").and_then(|number| number.parse().ok());
    let vms: u32 = vms.unwrap_or(if measures { 100_000 } else { 200 });
    let halts = given("--halts").and_then(|number| number.parse().ok());
    let halts = halts.unwrap_or(HALTS);
    if let Some(capture) = given("--write") {
        write(Path::new(capture), vms, halts);
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let capture = directory.path().join("cap");
    write(&capture, vms, halts);
    println!("{vms} VMs, {halts} halts each");
    println!(
        "{:<22} {:>9} {:>9} {:>10}",
        "verb", "seconds", "CPU", "memory"
    );
    for verb in VERBS {
        let ran = run(verb, &capture);
        println!(
            "{:<22} {:>7.1} s {:>7.1} s {:>7.0} MB",
            verb.join(" "),
            ran.seconds,
            ran.cpu_seconds,
            ran.memory_mb
        );
    }
}

fn write(directory: &Path, vms: u32, halts: u64) {
    let tool = Tool {
        name: "bench".to_owned(),
        version: "0".to_owned(),
    };
    let host = Host {
        kernel_release: "6.12.0".to_owned(),
        arch: "x86_64".to_owned(),
        cpu_model: None,
        cpus: 256,
        hostname: None,
    };
    let clock = Clock::new(START_NS, 1_767_225_600_000_000_000);
    let mut info = CaptureInfo::new(tool, host, clock, Rung::Bpf, Mode::Full);
    info.knobs = [
        ("halt_poll_ns", "200000"),
        ("halt_poll_ns_grow", "2"),
        ("halt_poll_ns_grow_start", "10000"),
        ("halt_poll_ns_shrink", "2"),
    ]
    .map(|(name, value)| Knob {
        time_ns: START_NS,
        name: name.to_owned(),
        scope: KnobScope::Host,
        value: value.to_owned(),
    })
    .to_vec();
    info.roster.vms = (0..vms).map(vm).collect();
    info.roster.vcpus = (0..vms).map(vcpu).collect();
    let mut recording = Recording::create(directory, info).expect("a capture");
    let mut random = SplitMix64(1);
    for turn in 0..halts {
        for some in (0..vms).collect::<Vec<u32>>().chunks(50_000) {
            let halts = some.iter().map(|&vm| halt(vm, turn, vms, &mut random));
            let facts = Facts {
                halts: halts.collect(),
                ..Facts::default()
            };
            recording.append(&facts).expect("a disk with room");
        }
    }
    let ending = Ending {
        ended: Ended {
            time_ns: START_NS + halts * TURN_NS,
            by: "duration".to_owned(),
        },
        lost: BTreeMap::new(),
        overhead: None,
    };
    recording.finish(ending).expect("a disk with room");
}

fn vm(vm: u32) -> Vm {
    Vm {
        index: VmIndex(vm),
        key: VmKey {
            pid: Pid(5_000 + vm),
            start_ticks: 4_000,
            ordinal: 0,
        },
        name: format!("vm-{vm:06}"),
        identity: Identity::default(),
        vmm: VmmKind::Qemu,
        machine: None,
        ceiling_settable: None,
        threads: None,
        observable: Observable::Yes,
        from_ns: None,
        to_ns: None,
        paused: None,
    }
}

fn vcpu(vm: u32) -> Vcpu {
    Vcpu {
        vm: VmIndex(vm),
        id: VcpuId(0),
        tid: Tid(1_000_000 + vm),
        window_ns: Some(0),
        ceiling_ns: Some(200_000),
        ceiling_source: CeilingSource::Param,
        guest_veto: None,
    }
}

/// One halt of each VM in each turn, by rising time; a third of them meet their poll.
fn halt(vm: u32, turn: u64, vms: u32, random: &mut SplitMix64) -> Halt {
    let offset_ns = TURN_NS / 2 * u64::from(vm) / u64::from(vms);
    let gap_ns = 20_000 << random.below(12);
    let waited = gap_ns > 40_000;
    let latency_ns = 20_000 + random.below(40_000);
    Halt {
        start_ns: START_NS + turn * TURN_NS + offset_ns,
        vm: Some(VmIndex(vm)),
        vcpu: Some(VcpuId(0)),
        tid: Tid(1_000_000 + vm),
        halt_ns: if waited { gap_ns + latency_ns } else { gap_ns },
        poll_ns: Some(if waited { 40_000 } else { gap_ns }),
        window_ns: Some(40_000),
        window_next_ns: Some(40_000),
        ceiling_ns: Some(200_000),
        ceiling_source: CeilingSource::Param,
        change: WindowCall::None,
        polled: Some(true),
        wake: WakeSource::Timer,
        wake_latency_ns: waited.then_some(latency_ns),
        waited,
        valid: true,
        poll_cut: false,
    }
}
