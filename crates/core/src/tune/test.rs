//! Laws of the search and of what is recommended, and its corners.

use super::advice::{Rejected, Verdict, advise};
use super::candidates::{self, Reach};
use super::final_round::{FinalRound, play_final};
use super::search::{Aim, search};
use super::stage::{self, Entry, Part};
use super::*;
use crate::event::{CeilingSource, Halt, WakeSource};
use crate::ids::VmIndex;
use crate::kvm::{Arch, Knobs, Version};
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
            vm: Some(VmIndex(vm)),
            ceiling_ns: Some(0),
            ceiling_source: CeilingSource::Param,
            wake: WakeSource::Device,
            ..Halt::under(0, now_ns, gap_ns, latency_ns)
        };
        now_ns = halt.end_ns() + 5_000;
        halt
    };
    (0..count).map(one).collect()
}

/// Terms of a kernel whose setting in force is off.
pub(crate) fn terms(version: &str) -> Terms {
    let version: Version = version.parse().unwrap();
    let mut off = Knobs::defaults(version, Arch::X86);
    off.halt_poll_ns = 0;
    Terms {
        arrivals: Arrivals::FixedGap,
        seed: 1,
        ..Terms::new(version, Arch::X86, off)
    }
}

fn terms_of_default() -> Terms {
    Terms {
        in_force: Knobs::defaults(Version::new(6, 12), Arch::X86),
        ..terms("6.12")
    }
}

fn inputs(terms: Terms, halts: &[Halt]) -> Inputs {
    gathered(terms, Keep::ALL, halts)
}

fn gathered(terms: Terms, keep: Keep, halts: &[Halt]) -> Inputs {
    taken(terms, Gather::new(keep), halts)
}

pub(crate) fn taken(terms: Terms, mut gather: Gather, halts: &[Halt]) -> Inputs {
    let mut survey = Survey::default();
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

fn density() -> Aim {
    let mut cost = COST;
    cost.latency_weight_milli = 0;
    Aim { cost, ..AIM }
}

fn goal(aim: Aim) -> Goal {
    Goal {
        name: "balanced".to_owned(),
        aim,
    }
}

fn tune(inputs: &Inputs, aim: Aim) -> (FinalRound, Advice) {
    let found = search(inputs, &[aim], &Serial);
    let of = play_final(inputs, &found, &[aim], &Serial);
    let advice = advise(inputs, &of, &goal(aim));
    (of, advice)
}
