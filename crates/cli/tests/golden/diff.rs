//! Captures for `diff`, drawn from seeds, longer than the committed ones.

use std::path::Path;

use haltwise_core::event::{CeilingSource, Facts, Halt, WakeSource};
use haltwise_core::exit::{Isa, Kind, Recorded};
use haltwise_core::hist::LogHist;
use haltwise_core::ids::{VcpuId, VmIndex};
use haltwise_core::kvm::Call;
use haltwise_core::recording::{Mode, Rung};
use haltwise_core::units::Nanos;
use haltwise_core::workload::SplitMix64;

use super::guest::tid;
use super::{START_NS, exits, in_order, info, knobs, record, scenarios};

const SECOND: u64 = 1_000_000_000;
const SECONDS: u64 = 40;

#[derive(Clone, Copy)]
struct Load {
    seed: u64,
    /// Mean gap of the first VM; of the others twice that, whatever the first does.
    gap: Nanos,
    ceiling: u32,
    /// Exits a second, by reason of VMX.
    exits: &'static [(u32, u64, u64)],
}

const BEFORE: Load = Load {
    seed: 1,
    gap: Nanos(10_000_000),
    ceiling: 0,
    exits: &[(32, 900, 1_450), (30, 40, 18_000), (12, 100, 5_000_000)],
};

/// A fifth slower, polling, and with a device that the other had not.
const AFTER: Load = Load {
    seed: 2,
    gap: Nanos(12_000_000),
    ceiling: 1_000_000,
    exits: &[
        (32, 1_100, 1_450),
        (30, 40, 19_000),
        (48, 25, 3_000),
        (12, 80, 6_000_000),
    ],
};

fn halts(load: Load, vm: u32, facts: &mut Facts) {
    let mut draw = SplitMix64(load.seed * 100 + u64::from(vm));
    let (mean, ceiling_ns) = match vm {
        0 => (load.gap, load.ceiling),
        _ => (Nanos(20_000_000), 0),
    };
    let mut now_ns = START_NS + 1_000;
    while now_ns < START_NS + SECONDS * SECOND {
        let gap_ns = draw.exponential(mean).0;
        let waited = gap_ns >= u64::from(ceiling_ns);
        let latency_ns = if waited {
            15_000 + draw.below(10_000)
        } else {
            0
        };
        let halt = Halt {
            start_ns: now_ns,
            halt_ns: gap_ns + latency_ns,
            vm: Some(VmIndex(vm)),
            vcpu: Some(VcpuId(0)),
            tid: tid(vm, 0),
            waited,
            valid: true,
            window_ns: Some(ceiling_ns),
            window_next_ns: Some(ceiling_ns),
            ceiling_ns: Some(ceiling_ns),
            ceiling_source: CeilingSource::Cap,
            poll_cut: Some(false),
            poll_ns: Some(gap_ns.min(u64::from(ceiling_ns))),
            wake_latency_ns: Some(latency_ns),
            wake: WakeSource::Device,
            ..Halt::default()
        };
        now_ns = halt.end_ns() + 100_000;
        if ceiling_ns > 0 && draw.below(4) == 0 {
            let call = Call {
                grow: !waited,
                old: ceiling_ns,
                new: ceiling_ns,
            };
            facts.windows.push(call.row(&halt));
        }
        facts.halts.push(halt);
    }
}

fn exits_of(load: Load, facts: &mut Facts) {
    let mut draw = SplitMix64(load.seed * 1_000);
    for second in 1..=SECONDS {
        for (reason, per_s, each_ns) in load.exits {
            let mut times = LogHist::default();
            for _ in 0..per_s + draw.below(per_s / 4) {
                times.record(each_ns * (75 + draw.below(50)) / 100);
            }
            let cause = (Kind::Exit, Isa::Vmx, Some(*reason), None);
            let row = exits::row((0, 0), (second * SECOND, SECOND), cause, times);
            facts.exits.push(row);
        }
    }
}

pub(super) fn write(dir: &Path, load: &str, kernel: &str) {
    let load = match load {
        "before" => BEFORE,
        "again" => Load { seed: 3, ..BEFORE },
        "after" => AFTER,
        _ => Load {
            ceiling: AFTER.ceiling,
            ..BEFORE
        },
    };
    let mut info = info(&format!("{kernel}-golden"), Rung::Bpf, Mode::Full);
    info.knobs = knobs(START_NS, "200000");
    info.roster = scenarios::named("fleet").roster;
    info.exits = Some(Recorded::default());
    let mut facts = Facts::default();
    for vm in 0..2 {
        halts(load, vm, &mut facts);
    }
    in_order(&mut facts);
    exits_of(load, &mut facts);
    let ending = scenarios::ending(SECONDS * SECOND);
    record(dir, info, &facts, Some(ending));
}
