//! Writes captures of hosts that are drawn from seeds: VMs with several loads, windows by KVM's own algorithm.
//!
//!     cargo run -p haltwise-capture --example seeded_captures -- DIR 200 2000
//!
//! makes `DIR/host-000` to `DIR/host-199`, each with about 2,000 halts for each of its one to three VMs; a third number is
//! how many VMs each has. The same numbers give the same captures. For tests and benchmarks of what reads many captures.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use haltwise_capture::info::{CaptureInfo, Clock, Ended, Host, Tool};
use haltwise_capture::recording::{Ending, Recording};
use haltwise_core::event::{
    CeilingSource, Facts, Halt, HostSample, Knob, KnobScope, Vcpu, Vm, WakeSource,
};
use haltwise_core::ids::{Pid, Tid, VcpuId, VmIndex, VmKey, VmmKind};
use haltwise_core::kvm::{Arch, Knobs, Observed, Rule, Version};
use haltwise_core::parameter::{Parameter, Values};
use haltwise_core::recording::{Mode, Rung};
use haltwise_core::workload::{Gaps, SplitMix64};

/// When each recording begins, on the host's clock and on the calendar.
const START_NS: u64 = 100_000_000_000;
const START_UNIX_NS: u64 = 1_767_225_600_000_000_000;

const RUN_NS: u64 = 15_000;

/// Loads, and the classes of VMs that have them.
const LOADS: [(&str, &str); 4] = [
    ("web", "exp:60us"),
    ("db", "bimodal:0.7:25us:2ms"),
    ("batch", "phases:30us*60:3ms*6"),
    ("idle", "uniform:1ms:4ms"),
];

const KERNELS: [&str; 2] = ["6.1.0", "6.12.0"];

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().context("name a directory")?;
    let hosts: u64 = arguments.next().as_deref().unwrap_or("200").parse()?;
    let halts: u64 = arguments.next().as_deref().unwrap_or("2000").parse()?;
    let vms = arguments.next().map(|vms| vms.parse()).transpose()?;
    for seed in 0..hosts {
        let host = Path::new(&directory).join(format!("host-{seed:03}"));
        write(&host, seed, halts, vms).with_context(|| format!("write {}", host.display()))?;
    }
    Ok(())
}

fn write(directory: &Path, seed: u64, halts: u64, vms: Option<u32>) -> anyhow::Result<()> {
    let mut random = SplitMix64(seed);
    let kernel = KERNELS[usize::try_from(random.below(2))?];
    let mut info = info(seed, kernel);
    let knobs = Knobs::defaults(kernel.parse::<Version>()?, Arch::X86);
    info.knobs = knob_rows(&knobs);
    let rule = Rule::of(kernel.parse()?, Arch::X86);
    let mut facts = Facts::default();
    let drawn = 1 + u32::try_from(random.below(3))?;
    for vm in 0..vms.unwrap_or(drawn) {
        let (class, gaps) = LOADS[usize::try_from(random.below(LOADS.len() as u64))?];
        add_vm(&mut info, vm, class, &knobs);
        let gaps = Gaps::new(gaps.parse()?, random.below(u64::MAX)).map_err(anyhow::Error::msg)?;
        halt(&mut facts, vm, (gaps, halts), (&rule, &knobs), &mut random);
    }
    facts.halts.sort_by_key(|halt| halt.start_ns);
    facts.windows.sort_by_key(|change| change.time_ns);
    let end_ns = facts.halts.iter().map(Halt::end_ns).max();
    let end_ns = end_ns.unwrap_or(START_NS) + RUN_NS;
    facts.host = [START_NS, end_ns].map(sample).to_vec();
    let mut recording = Recording::create(directory, info)?;
    recording.append(&facts)?;
    let by = "end of the example".into();
    recording.finish(Ending {
        ended: Ended {
            time_ns: end_ns,
            by,
        },
        lost: BTreeMap::new(),
        overhead: None,
    })?;
    Ok(())
}

fn halt(
    facts: &mut Facts,
    vm: u32,
    (mut gaps, halts): (Gaps, u64),
    (rule, knobs): (&Rule, &Knobs),
    random: &mut SplitMix64,
) {
    let ceiling = knobs.halt_poll_ns;
    let (mut window, mut now_ns) = (0, START_NS + RUN_NS);
    for _ in 0..halts {
        let gap_ns = gaps.draw().0;
        window = rule.entry(window, ceiling);
        let caught = window > 0 && gap_ns <= u64::from(window);
        let latency_ns = if caught {
            0
        } else {
            24_000 + random.below(16_000)
        };
        let halt_ns = gap_ns + latency_ns;
        let observed = Observed {
            halt_ns,
            valid: true,
            allowed: true,
        };
        let step = rule.after(knobs, ceiling, window, observed);
        let (vm, vcpu, tid) = (Some(VmIndex(vm)), Some(VcpuId(0)), tid(vm));
        let halt = Halt {
            start_ns: now_ns,
            halt_ns,
            vm,
            vcpu,
            tid,
            waited: !caught,
            valid: true,
            window_ns: Some(window),
            window_next_ns: Some(step.window),
            ceiling_ns: Some(ceiling),
            ceiling_source: CeilingSource::Param,
            poll_ns: Some(gap_ns.min(window.into())),
            wake_latency_ns: Some(latency_ns),
            wake: WakeSource::Device,
            change: step.call.into(),
            ..Halt::default()
        };
        now_ns += halt_ns;
        facts.windows.extend(step.call.map(|call| call.row(&halt)));
        facts.halts.push(halt);
        (window, now_ns) = (step.window, now_ns + RUN_NS);
    }
}

fn tid(vm: u32) -> Tid {
    Tid(4_712 + vm * 100)
}

fn info(seed: u64, kernel: &str) -> CaptureInfo {
    let tool = Tool {
        name: "seeded_captures".into(),
        version: env!("CARGO_PKG_VERSION").into(),
    };
    let host = Host {
        kernel_release: kernel.into(),
        arch: "x86_64".into(),
        cpu_model: Some(["Epyc", "Xeon"][usize::from(seed.is_multiple_of(3))].into()),
        cpus: 4,
        hostname: Some(format!("host-{seed:03}")),
    };
    let clock = Clock::new(START_NS, START_UNIX_NS);
    CaptureInfo::new(tool, host, clock, Rung::Bpf, Mode::Full)
}

fn knob_rows(knobs: &Knobs) -> Vec<Knob> {
    let row = |(parameter, value): (Parameter, u32)| Knob {
        time_ns: START_NS,
        name: parameter.name().into(),
        scope: KnobScope::Host,
        value: value.to_string(),
    };
    Values::from(*knobs).listed().map(row).collect()
}

fn add_vm(info: &mut CaptureInfo, vm: u32, class: &str, knobs: &Knobs) {
    let index = VmIndex(vm);
    info.roster.vms.push(Vm {
        index,
        key: VmKey {
            pid: Pid(4_711 + vm * 100),
            start_ticks: 4_000,
            ordinal: 0,
        },
        name: format!("{class}-{vm}"),
        vmm: VmmKind::Qemu,
        ..Vm::default()
    });
    info.roster.vcpus.push(Vcpu {
        vm: index,
        id: VcpuId(0),
        tid: tid(vm),
        window_ns: Some(0),
        ceiling_ns: Some(knobs.halt_poll_ns),
        ceiling_source: CeilingSource::Param,
        guest_veto: Some(false),
        ..Vcpu::default()
    });
}

fn sample(time_ns: u64) -> HostSample {
    HostSample {
        time_ns,
        cpus: 4,
        busy_ns: time_ns,
        total_ns: 4 * time_ns,
        ..HostSample::default()
    }
}
