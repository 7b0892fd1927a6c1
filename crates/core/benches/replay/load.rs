//! Halts to replay: made-up loads, with wake-up latencies as this project's measurements have them.

use haltwise_core::event::{Halt, WakeSource};
use haltwise_core::ids::{VcpuId, VmIndex};
use haltwise_core::replay::Sample;
use haltwise_core::replay::VcpuKey;
use haltwise_core::replay::latency::{Latencies, Table};
use haltwise_core::replay::session::Survey;
use haltwise_core::workload::{Gaps, SplitMix64};

/// A load: its name, its gaps in the grammar of `core::workload`, and what ends them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) name: &'static str,
    gaps: &'static str,
    /// Number of halts in a hundred that a timer ends.
    timers: u64,
    /// Number of polls in a hundred that are cut short for another task.
    cuts: u64,
}

/// All loads. `near` is the hardest for vectors: every gap lies among the ceilings.
pub(crate) const LOADS: [Load; 5] = [
    Load {
        name: "near",
        gaps: "exp:60us",
        timers: 0,
        cuts: 0,
    },
    Load {
        name: "mixed",
        gaps: "bimodal:0.8:15us:2ms",
        timers: 20,
        cuts: 0,
    },
    Load {
        name: "ticks",
        gaps: "uniform:20us:4ms",
        timers: 100,
        cuts: 0,
    },
    Load {
        name: "idle",
        gaps: "uniform:900us:40ms",
        timers: 50,
        cuts: 0,
    },
    Load {
        name: "crowded",
        gaps: "exp:60us",
        timers: 20,
        cuts: 10,
    },
];

/// (length of sleep, wake-up latency) in nanoseconds: measurements/2026-11-21-vm-calibrate.
const MEASURED: [(u64, u64); 8] = [
    (10_000, 19_200),
    (30_000, 19_500),
    (100_000, 20_300),
    (300_000, 25_200),
    (1_000_000, 26_400),
    (3_000_000, 66_000),
    (10_000_000, 71_600),
    (20_000_000, 96_200),
];

impl Load {
    /// Whether polls of it were cut short.
    pub(crate) fn is_cut(&self) -> bool {
        self.cuts > 0
    }

    /// `count` halts, recorded without polling.
    pub(crate) fn halts(&self, count: usize) -> Vec<Halt> {
        let spec = self.gaps.parse().expect("a gap process");
        let mut gaps = Gaps::new(spec, 1).expect("a gap process");
        let mut draw = SplitMix64(2);
        let mut now_ns = 1_000_000;
        let one = |_| {
            let gap_ns = gaps.draw().0;
            let latency_ns = latency(gap_ns, &mut draw);
            let is_cut = draw.below(100) < self.cuts;
            let polled_ns = if is_cut { gap_ns.min(50_000) / 3 } else { 0 };
            let is_timer = draw.below(100) < self.timers;
            let halt = Halt {
                start_ns: now_ns,
                halt_ns: gap_ns + latency_ns,
                vm: Some(VmIndex(0)),
                vcpu: Some(VcpuId(0)),
                waited: true,
                valid: true,
                window_ns: Some(if is_cut { 200_000 } else { 0 }),
                poll_ns: Some(polled_ns),
                wake_latency_ns: Some(latency_ns),
                wake: if is_timer {
                    WakeSource::Timer
                } else {
                    WakeSource::Device
                },
                poll_cut: Some(is_cut),
                ..Halt::default()
            };
            now_ns = halt.end_ns() + 5_000;
            halt
        };
        (0..count).map(one).collect()
    }
}

/// As measured for that length of sleep, up to a fifth more.
fn latency(slept_ns: u64, draw: &mut SplitMix64) -> u64 {
    let known = MEASURED
        .iter()
        .rfind(|(length_ns, _)| *length_ns <= slept_ns);
    let (_, latency_ns) = known.unwrap_or(&MEASURED[0]);
    latency_ns + draw.below(latency_ns / 5)
}

/// The wake-up latencies that such a recording shows.
pub(crate) fn table(halts: &[Halt]) -> Table {
    let mut survey = Survey::default();
    for halt in halts {
        survey.halt(halt);
    }
    let first = halts.first().expect("halts");
    survey
        .table_of(VcpuKey::of(first), Some(&elsewhere()))
        .expect("sleeps")
}

/// Measured latencies for lengths of sleep that a load lacks.
pub(crate) fn elsewhere() -> Latencies {
    let mut elsewhere = Latencies::default();
    for (slept_ns, latency_ns) in MEASURED {
        elsewhere.add(slept_ns, latency_ns);
    }
    elsewhere
}

pub(crate) fn samples(halts: &[Halt], table: &Table) -> Vec<Sample> {
    let turns = (0..).zip(halts);
    turns
        .map(|(turn, halt)| Sample::new(halt, table, turn))
        .collect()
}
