//! Captures for findings, drawn from seeds.

use std::path::Path;

use haltwise_core::event::{Facts, Knob, WakeSource};
use haltwise_core::exit::{Exits, Isa, Kind, Recorded, SubKey};
use haltwise_core::hist::LogHist;
use haltwise_core::ids::VmIndex;

use super::guest::Guest;
use super::scenarios::Scenario;
use super::{START_NS, exits, in_order, info_of, knobs, record, scenarios};

/// Ten times as long as the scenarios, so that an idle guest has halted often enough.
const LENGTH_NS: u64 = 10 * super::LENGTH_NS;

/// Kind, reason, sub-key, how often in a second, and how long each takes.
type Drawn = (Kind, u32, Option<u64>, u64, u64);

/// An idle Windows guest that ticks by its RTC.
const WINDOWS: [Drawn; 4] = [
    (Kind::Exit, 12, None, 1_024, 900_000),
    (Kind::Exit, 30, None, 2_100, 11_000),
    (Kind::PioRead, 30, Some(0x71), 1_050, 11_000),
    (Kind::PioWrite, 30, Some(0x70), 1_050, 11_000),
];

/// A guest that spins, signals and prints.
const BUSY: [Drawn; 8] = [
    (Kind::Exit, 40, None, 2_600, 3_200),
    (Kind::Exit, 32, None, 7_000, 1_450),
    (Kind::MsrWrite, 32, Some(0x80b), 4_000, 1_450),
    (Kind::MsrWrite, 32, Some(0x830), 3_000, 1_450),
    (Kind::Exit, 30, None, 1_900, 14_000),
    (Kind::PioWrite, 30, Some(0x3f8), 1_900, 14_000),
    (Kind::MmioWrite, 49, Some(0xb_8000), 900, 8_000),
    (Kind::MmioWrite, 49, Some(0xb_9000), 700, 8_000),
];

fn exits_of(vm: u32, drawn: &[Drawn]) -> impl Iterator<Item = Exits> {
    drawn.iter().map(move |&(kind, reason, sub, per_s, each)| {
        let mut times = LogHist::default();
        (0..per_s * LENGTH_NS / 1_000_000_000).for_each(|_| times.record(each));
        let cause = (kind, Isa::Vmx, Some(reason), sub);
        exits::row((vm, 0), (LENGTH_NS, LENGTH_NS), cause, times)
    })
}

/// Writes storms; or VMs that each show something else, with exits and their keys, without keys, or halts alone.
pub(super) fn write(dir: &Path, kind: &str) {
    let keys: &[SubKey] = match kind {
        "storms" => return write_storms(dir),
        "keys" => &[SubKey::Msr, SubKey::Pio, SubKey::Mmio],
        _ => &[],
    };
    let mut scenario = scenarios::named("fleet");
    // The VM that came late is an idle Windows guest now, for the whole recording.
    let is_late = |vm: Option<VmIndex>| vm == Some(VmIndex(2));
    scenario.facts.halts.retain(|halt| !is_late(halt.vm));
    scenario.facts.windows.retain(|change| !is_late(change.vm));
    let windows = Guest {
        vm: 2,
        gaps: "fixed:920us",
        run_ns: 22_500,
        wakes: &[WakeSource::Timer],
        ..Guest::default()
    };
    scenario.facts.knobs = Vec::new();
    let recorded = (kind != "halts").then(|| Recorded {
        sub_keys: keys.to_vec(),
        ..Recorded::default()
    });
    if recorded.is_some() {
        scenario.facts.exits = exits_of(1, &BUSY).chain(exits_of(2, &WINDOWS)).collect();
    }
    let knobs = knobs(START_NS, "2000000");
    write_with(dir, scenario, &[windows], knobs, recorded);
}

/// A host whose guests storm: one ticks, two vCPUs of another wake each other, one comes in bursts, one
/// has more vCPUs than there are CPUs. Windows are thrown away at each shrink.
fn write_storms(dir: &Path) {
    let mut scenario = scenarios::named("fleet");
    scenario.facts = Facts {
        host: scenario.facts.host,
        ..Facts::default()
    };
    scenario.roster.vms.truncate(4);
    for (vm, name) in scenario
        .roster
        .vms
        .iter_mut()
        .zip(["ticker", "pair", "batch", "dense"])
    {
        name.clone_into(&mut vm.name);
    }
    scenario.roster.vcpus.clear();
    let guest = |vm, vcpu, gaps| Guest {
        vm,
        vcpu,
        gaps,
        shrink: 0,
        seed: u64::from(vm + vcpu),
        ..Guest::default()
    };
    let tick = |vcpu| Guest {
        run_ns: 60_000,
        wakes: &[WakeSource::Timer],
        ..guest(0, vcpu, "fixed:3910us")
    };
    let ipi = |vcpu| Guest {
        wakes: &[WakeSource::Ipi],
        ..guest(1, vcpu, "exp:60us")
    };
    let cut = |vcpu| Guest {
        cut: 0.7,
        ..guest(3, vcpu, "exp:90us")
    };
    let bursts = guest(2, 0, "phases:30us*60:3ms*6");
    let guests = [tick(0), tick(1), ipi(0), ipi(1), bursts, cut(0), cut(1)];
    let mut knobs = knobs(START_NS, "200000");
    knobs[3].value = "0".into();
    write_with(dir, scenario, &guests, knobs, None);
}

/// A scenario with guests that ran for the whole of a longer recording.
fn write_with(
    dir: &Path,
    mut scenario: Scenario,
    guests: &[Guest],
    knobs: Vec<Knob>,
    exits: Option<Recorded>,
) {
    for guest in guests {
        let guest = Guest {
            until_ns: START_NS + LENGTH_NS,
            ..guest.clone()
        };
        guest.run(&mut scenario.facts);
    }
    in_order(&mut scenario.facts);
    let mut info = info_of(&scenario);
    info.knobs = knobs;
    info.exits = exits;
    let ending = scenarios::ending(LENGTH_NS);
    record(dir, info, &scenario.facts, Some(ending));
}
