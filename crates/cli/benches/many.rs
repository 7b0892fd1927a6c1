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
use haltwise_core::event::{WakeSource, WindowCall, WindowChange};
use haltwise_core::identity::Identity;
use haltwise_core::ids::{Pid, Tid, VcpuId, VmIndex, VmKey, VmmKind};
use haltwise_core::kvm::arch::Arch;
use haltwise_core::kvm::knobs::Knobs;
use haltwise_core::kvm::rule::Rule;
use haltwise_core::kvm::step::{Observed, Step};
use haltwise_core::kvm::version::Version;
use haltwise_core::recording::{Mode, Rung};
use haltwise_core::workload::SplitMix64;
use process::run;

/// The kernel that the capture says it is of, and whose rule moves the windows.
const KERNEL: Version = Version::new(6, 12);

const START_NS: u64 = 1_000_000_000;
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
        kernel_release: format!("{KERNEL}.0"),
        arch: "x86_64".to_owned(),
        cpu_model: None,
        cpus: 256,
        hostname: None,
    };
    let clock = Clock::new(START_NS, 1_767_225_600_000_000_000);
    let mut info = CaptureInfo::new(tool, host, clock, Rung::Bpf, Mode::Full);
    let set = Knobs::defaults(KERNEL, Arch::X86);
    info.knobs = [
        ("halt_poll_ns", set.halt_poll_ns),
        ("halt_poll_ns_grow", set.grow),
        ("halt_poll_ns_grow_start", set.grow_start),
        ("halt_poll_ns_shrink", set.shrink),
    ]
    .map(|(name, value)| Knob {
        time_ns: START_NS,
        name: name.to_owned(),
        scope: KnobScope::Host,
        value: value.to_string(),
    })
    .to_vec();
    info.roster.vms = (0..vms).map(vm).collect();
    info.roster.vcpus = (0..vms).map(|vm| vcpu(vm, &set)).collect();
    let mut recording = Recording::create(directory, info).expect("a capture");
    let mut world = World {
        rule: Rule::of(KERNEL, Arch::X86),
        set,
        windows: vec![0; vms as usize],
        random: SplitMix64(1),
    };
    for turn in 0..halts {
        for some in (0..vms).collect::<Vec<u32>>().chunks(50_000) {
            let mut facts = Facts::default();
            for &vm in some {
                let (halt, change) = world.halt(vm, turn);
                facts.halts.push(halt);
                facts.windows.extend(change);
            }
            facts.windows.sort_by_key(|change| change.time_ns);
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

fn vcpu(vm: u32, set: &Knobs) -> Vcpu {
    Vcpu {
        vm: VmIndex(vm),
        id: VcpuId(0),
        tid: Tid(1_000_000 + vm),
        window_ns: Some(0),
        ceiling_ns: Some(set.halt_poll_ns),
        ceiling_source: CeilingSource::Param,
        guest_veto: None,
        time: None,
    }
}

struct World {
    rule: Rule,
    set: Knobs,
    /// What the last halt of each VM left.
    windows: Vec<u32>,
    random: SplitMix64,
}

impl World {
    /// One halt of each VM in each turn, by rising time, and KVM's call of grow or shrink, if there is one.
    fn halt(&mut self, vm: u32, turn: u64) -> (Halt, Option<WindowChange>) {
        let ceiling = self.set.halt_poll_ns;
        let left = self.windows[vm as usize];
        let window = self.rule.entry(left, ceiling);
        let offset_ns = TURN_NS / 2 * u64::from(vm) / self.windows.len() as u64;
        let gap_ns = 20_000 << self.random.below(12);
        let waited = gap_ns > u64::from(window);
        let latency_ns = 20_000 + self.random.below(40_000);
        let halt_ns = gap_ns + if waited { latency_ns } else { 0 };
        let step = (self.rule).after(&self.set, ceiling, window, Observed::valid(halt_ns));
        self.windows[vm as usize] = step.window;
        let halt = Halt {
            start_ns: START_NS + turn * TURN_NS + offset_ns,
            vm: Some(VmIndex(vm)),
            vcpu: Some(VcpuId(0)),
            tid: Tid(1_000_000 + vm),
            halt_ns,
            poll_ns: Some(gap_ns.min(u64::from(window))),
            window_ns: Some(window),
            window_next_ns: Some(step.window),
            ceiling_ns: Some(ceiling),
            ceiling_source: CeilingSource::Param,
            change: match step.call {
                None => WindowCall::None,
                Some(call) if call.grow => WindowCall::Grow,
                Some(_) => WindowCall::Shrink,
            },
            polled: Some(window > 0),
            wake: WakeSource::Timer,
            wake_latency_ns: Some(if waited { latency_ns } else { 0 }),
            waited,
            valid: true,
            poll_cut: false,
        };
        (halt, change(&halt, step))
    }
}

fn change(halt: &Halt, step: Step) -> Option<WindowChange> {
    let call = step.call?;
    Some(WindowChange {
        time_ns: halt.end_ns(),
        vm: halt.vm,
        vcpu: halt.vcpu,
        tid: halt.tid,
        grow: call.grow,
        old_ns: call.old,
        new_ns: call.new,
    })
}
