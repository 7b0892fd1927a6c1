//! Made-up costs tables of a fleet of any size, by seed: for tests, examples and benchmarks. Nothing of them was measured.
//!
//! Gaps of a VM are at most `w` with the chance `w / (w + g)`, where `g` is the median gap of its class: so each setting
//! has a plausible trade of polling for sleeps, and classes have different best settings.

use std::collections::BTreeMap;

use haltwise_core::costs::grid::{Kind, Shape, settings};
use haltwise_core::costs::play::{EVERY, Figures, Line, VmCosts};
use haltwise_core::costs::table::{Host, VmOf};
use haltwise_core::identity::Identity;
use haltwise_core::ids::VmIndex;
use haltwise_core::kvm::{Arch, Knobs, Version};
use haltwise_core::replay::Sums;
use haltwise_core::workload::SplitMix64;

const DAY_NS: u64 = 86_400_000_000_000;

/// When the first day begins, in nanoseconds since 1970: 2026-11-01.
const FIRST_DAY_NS: u64 = 1_793_491_200_000_000_000;

/// Kernels of the fleet, and CPUs, with what a sleep costs on each.
const KERNELS: [&str; 3] = ["6.1", "6.8", "6.12"];
const CPUS: [(&str, u64); 2] = [
    ("Example CPU A @ 2.4 GHz", 2_600),
    ("Example CPU B @ 3.1 GHz", 3_900),
];

/// Classes of VMs: median gap in nanoseconds, halts a second.
const CLASSES: [(&str, u64, u64); 4] = [
    ("web", 35_000, 900),
    ("db", 90_000, 400),
    ("batch", 2_000_000, 40),
    ("desktop", 600_000, 120),
];

/// Wake-up latency of the VMs' sleeps, in nanoseconds.
const LATENCY_NS: u64 = 30_000;

/// Which table it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Which {
    pub seed: u64,
    pub host: u64,
    /// Day from the first.
    pub day: u64,
    pub vms: u32,
}

pub(crate) fn table(which: Which) -> (Host, Vec<(VmOf, VmCosts)>) {
    let mut of_host = SplitMix64(which.seed ^ which.host.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let (kernel, cpu) = (pick(&mut of_host, &KERNELS), pick(&mut of_host, &CPUS));
    let start_unix_ns = FIRST_DAY_NS + which.day * DAY_NS;
    let host = Host {
        name: format!("host-{:05}", which.host),
        date: Some(format!("2026-11-{:02}", which.day % 30 + 1)),
        start_unix_ns,
        end_unix_ns: start_unix_ns + DAY_NS,
        kernel: (*kernel).to_owned(),
        kernel_release: format!("{kernel}.0-amd64"),
        arch: "x86".to_owned(),
        cpu_model: Some(cpu.0.to_owned()),
        cpus: 64,
        switch_cpu_ns: cpu.1,
        switch_cpu_source: "calibrated".to_owned(),
        labels: BTreeMap::from([("rack".to_owned(), format!("r{}", which.host / 40))]),
    };
    let version: Version = kernel.parse().unwrap_or(Version::new(6, 1));
    let default = Knobs::defaults(version, Arch::X86);
    let mut draw = SplitMix64(of_host.next_u64() ^ which.day);
    let vms = (0..which.vms).map(|number| vm(&mut of_host, &mut draw, number, default));
    let vms = vms.collect();
    (host, vms)
}

fn pick<'a, T>(draw: &mut SplitMix64, all: &'a [T]) -> &'a T {
    let at = usize::try_from(draw.below(all.len() as u64)).unwrap_or(0);
    &all[at]
}

fn vm(
    of_host: &mut SplitMix64,
    draw: &mut SplitMix64,
    number: u32,
    default: Knobs,
) -> (VmOf, VmCosts) {
    let &(class, gap_ns, per_second) = pick(of_host, &CLASSES);
    let gap_ns = gap_ns / 2 + of_host.below(gap_ns);
    let id = of_host.next_u64();
    let vcpus = 1 + number % 8;
    let of = VmOf {
        name: Some(format!("{class}-{number}")),
        vmm: Some("qemu".to_owned()),
        identity: Identity {
            uuid: Some(format!("{id:016x}-{number:04x}")),
            ..Identity::default()
        },
        vcpus,
        class: Some(class.to_owned()),
        goal: (class == "web").then(|| "latency".to_owned()),
        own_ceiling_ns: None,
    };
    let halts = per_second * 43_200 * u64::from(vcpus);
    let halves = [0, 1].map(|_| halts / 2 + draw.below(halts));
    let grid = settings()
        .into_iter()
        .map(|knobs| (Kind::Grid, Some(knobs)));
    let named = [
        (Kind::Recorded, None),
        (Kind::InForce, Some(default)),
        (Kind::Default, Some(default)),
    ];
    let bounds = Kind::ORACLES.map(|(kind, _)| (kind, None));
    let lines = named
        .into_iter()
        .chain(grid)
        .chain(bounds)
        .map(|(kind, knobs)| Line {
            kind,
            knobs,
            halves: halves
                .map(|halts| figures(draw, kind, knobs.unwrap_or(default), gap_ns, halts)),
        });
    let costs = VmCosts {
        vm: Some(VmIndex(number)),
        vcpus,
        own_ceiling_ns: None,
        lines: lines.collect(),
    };
    (of, costs)
}

fn figures(draw: &mut SplitMix64, kind: Kind, knobs: Knobs, gap_ns: u64, halts: u64) -> Figures {
    let window_ns = u64::from(knobs.halt_poll_ns);
    // Windows that adapt are not always open.
    let open_percent = match Shape::of(&knobs) {
        Some(Shape::Fixed) => 100,
        Some(Shape::Toggle) => 60,
        Some(Shape::Halving) => 75,
        _ => 50,
    };
    let polls = halts / 100 * open_percent;
    let met = mul_div(polls, window_ns, window_ns + gap_ns);
    let failed = if window_ns == 0 { 0 } else { polls - met };
    let sleeps = halts - met;
    // No poll lasts longer than its halt.
    let (met_ns, failed_ns) = ((window_ns / 2).min(gap_ns), window_ns.min(gap_ns));
    let latency_ns = LATENCY_NS + draw.below(LATENCY_NS / 8);
    let mut sums = Sums {
        halts,
        blocks: sleeps,
        failed_polls: failed,
        poll_ns: met * met_ns + failed * failed_ns,
        latency_ns: sleeps * latency_ns,
        halt_ns: halts * gap_ns + sleeps * latency_ns,
        ..Sums::default()
    };
    if !kind.has_knobs() && kind != Kind::Recorded {
        // An eighth of what no polling costs: less than any setting comes to.
        sums = Sums {
            blocks: halts / 8,
            failed_polls: 0,
            poll_ns: 0,
            latency_ns: halts / 8 * latency_ns,
            ..sums
        };
    }
    let mut figures = Figures {
        sums,
        ..Figures::default()
    };
    let sampled = halts / EVERY as u64;
    let slept = mul_div(sampled, sums.blocks, halts.max(1));
    // The histogram in a few steps about the mean.
    let parts = [
        (0, sampled - slept),
        (latency_ns / 2, slept / 2),
        (latency_ns, slept / 3),
        (latency_ns * 3, slept / 6),
    ];
    let mut counts = Vec::new();
    for (value, count) in parts {
        let bucket = haltwise_core::hist::bucket_of(value);
        counts.resize(counts.len().max(bucket + 1), 0);
        counts[bucket] += count;
    }
    let sum = parts.iter().map(|(value, count)| value * count).sum();
    figures.latency.add_buckets(counts, sum);
    figures
}

fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    let product = u128::from(a) * u128::from(b) / u128::from(c.max(1));
    u64::try_from(product).unwrap_or(u64::MAX)
}
