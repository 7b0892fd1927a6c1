//! Laws of the search and of what is recommended, and its corners.

use std::collections::BTreeMap;

use super::advice::{Rejected, Verdict, advise};
use super::candidates::{self, Moves, Reach};
use super::finalist::{Final, play_final};
use super::search::{Aim, search};
use super::stage::{self, Entry, Part};
use super::*;
use crate::event::{CeilingSource, Halt, WakeSource};
use crate::ids::{VcpuId, VmIndex};
use crate::kvm::{Arch, Knobs, Rule, Version};
use crate::policy::Start;
use crate::replay::calibration::drifts_percent;
use crate::replay::session::Survey;
use crate::replay::{Arrivals, Cost, Sample};
use crate::workload::{Gaps, SplitMix64};

mod ceilings;
mod doubt;
mod gain;
mod laws;
mod recommends;
mod whatif;

pub(crate) const COST: Cost = Cost {
    switch_cpu_ns: 10_000,
    latency_weight_milli: 1_000,
    ..Cost::FREE
};

pub(crate) const AIM: Aim = Aim {
    cost: COST,
    switch_cpu_ends_ns: None,
    max_poll_cpu_percent: None,
    drifts_percent: drifts_percent(false),
    possible_poll_cpu_percent: None,
};

/// Halts of one vCPU that were recorded without polling: gaps of a process, wake-ups of about 20 us.
pub(crate) fn load(vm: u32, spec: &str, count: usize, seed: u64) -> Vec<Halt> {
    let mut gaps = Gaps::new(spec.parse().unwrap(), seed).unwrap();
    let mut draw = SplitMix64(seed);
    let mut now_ns = 1_000_000;
    let one = |_| {
        let (gap_ns, latency_ns) = (gaps.draw().0, 18_000 + draw.below(4_000));
        let halt = Halt {
            start_ns: now_ns,
            halt_ns: gap_ns + latency_ns,
            vm: Some(VmIndex(vm)),
            vcpu: Some(VcpuId(0)),
            waited: true,
            valid: true,
            window_ns: Some(0),
            ceiling_ns: Some(0),
            ceiling_source: CeilingSource::Param,
            poll_ns: Some(0),
            wake_latency_ns: Some(latency_ns),
            wake: WakeSource::Device,
            ..Halt::default()
        };
        now_ns = halt.end_ns() + 5_000;
        halt
    };
    (0..count).map(one).collect()
}

/// Terms of a kernel whose setting in force is off.
pub(crate) fn terms(version: &str) -> Terms {
    let version: Version = version.parse().unwrap();
    let defaults = Knobs::defaults(version, Arch::X86);
    Terms {
        version,
        arch: Arch::X86,
        in_force: Knobs {
            halt_poll_ns: 0,
            ..defaults
        },
        arrivals: Arrivals::FixedGap,
        elsewhere: None,
        seed: 1,
        ceiling_only: false,
        weights_milli: BTreeMap::new(),
    }
}

fn terms_of_default() -> Terms {
    Terms {
        in_force: Knobs::defaults(Version::new(6, 12), Arch::X86),
        ..terms("6.12")
    }
}

fn material(terms: Terms, halts: &[Halt]) -> Material {
    gathered(terms, Keep::ALL, halts)
}

fn gathered(terms: Terms, keep: Keep, halts: &[Halt]) -> Material {
    let (mut survey, mut gather) = (Survey::default(), Gather::new(keep));
    for halt in halts {
        survey.halt(halt);
        gather.halt(halt);
    }
    gather.finish(terms, survey).unwrap()
}

/// At most so much polling, in % of a CPU.
fn limited(percent: f64) -> Aim {
    Aim {
        max_poll_cpu_percent: Some(percent),
        ..AIM
    }
}

/// Latency counts for nothing.
fn density() -> Aim {
    let cost = Cost {
        latency_weight_milli: 0,
        ..COST
    };
    Aim { cost, ..AIM }
}

fn goal(aim: Aim) -> Goal {
    Goal {
        name: "balanced".to_owned(),
        aim,
    }
}

fn tune(material: &Material, aim: Aim) -> (Final, Advice) {
    let found = search(material, &[aim], &Alone);
    let of = play_final(material, &found, &[aim], &Alone);
    let advice = advise(material, &of, &goal(aim));
    (of, advice)
}
