//! `haltwise report --findings` against committed texts, on captures drawn from seeds; its JSON against its schema.

use std::path::Path;

use haltwise_core::event::{Facts, Knob, WakeSource};
use haltwise_core::exit::{Cause, Exits, Isa, Kind, Recorded, SubKey};
use haltwise_core::hist::LogHist;
use haltwise_core::ids::{Tid, VcpuId, VmIndex};

use super::guest::Guest;
use super::scenarios::Scenario;
use super::schema::conforms;
use super::{START_NS, haltwise, home, in_order, info_of, knobs, prints, record, scenarios};

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

fn exits(vm: u32, drawn: &[Drawn]) -> Vec<Exits> {
    let length = |per_s: u64| per_s * LENGTH_NS / 1_000_000_000;
    let row = |&(kind, reason, sub, per_s, each): &Drawn| {
        let mut handling_ns = LogHist::default();
        (0..length(per_s)).for_each(|_| handling_ns.record(each));
        Exits {
            time_ns: START_NS + LENGTH_NS,
            interval_ns: LENGTH_NS,
            vm: Some(VmIndex(vm)),
            vcpu: Some(VcpuId(0)),
            tid: Tid(4_712 + vm * 100),
            cause: Cause {
                kind,
                isa: Isa::Vmx,
                reason: Some(reason),
                sub,
            },
            count: length(per_s),
            user_ns: 0,
            handling_ns,
        }
    };
    drawn.iter().map(row).collect()
}

/// VMs that each show something else, and one of the scenarios' with exits. `told`: what is told of
/// exits beside their reasons; `None` if they are not recorded.
fn write(dir: &Path, told: Option<&[SubKey]>) {
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
    if told.is_some() {
        scenario.facts.exits = exits(1, &BUSY);
        scenario.facts.exits.extend(exits(2, &WINDOWS));
    }
    let recorded = told.map(|keys| Recorded {
        sub_keys: keys.to_vec(),
        ..Recorded::default()
    });
    write_with(
        dir,
        scenario,
        &[windows],
        knobs(START_NS, "2000000"),
        recorded,
    );
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

const KEYS: [SubKey; 3] = [SubKey::Msr, SubKey::Pio, SubKey::Mmio];

#[test]
fn pages_are_as_committed() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("told"), Some(&KEYS));
    write(&dir.path().join("plain"), Some(&[]));
    write(&dir.path().join("halts"), None);
    write_storms(&dir.path().join("storms"));
    let mut wrong = String::new();
    for (home, file, line) in [
        (dir.path(), "told.txt", "told"),
        (dir.path(), "told.json", "told --json"),
        (dir.path(), "plain.txt", "plain --vm late"),
        (dir.path(), "storms.txt", "storms"),
        (dir.path(), "halts.txt", "halts --vm 4811"),
        (&home(), "fleet.txt", "captures/fleet"),
        (&home(), "over-committed.txt", "captures/over-committed"),
        (&home(), "locked-out.txt", "captures/locked-out"),
        (&home(), "counts.txt", "captures/counts"),
    ] {
        let line = format!("report --findings {line}");
        let words: Vec<&str> = line.split(' ').collect();
        wrong += &prints(home, &format!("explain/{file}"), &words);
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn the_json_is_as_published() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("cap"), None);
    write_storms(&dir.path().join("storms"));
    for capture in ["cap", "storms"] {
        let (text, _) = haltwise(dir.path(), &["report", "--findings", capture, "--json"]);
        conforms("explain", &serde_json::from_str(&text).unwrap());
    }
}

#[test]
fn findings_are_sorted_and_cut() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("told"), Some(&KEYS));
    let run = |options: &[&str]| {
        haltwise(
            dir.path(),
            &[&["report", "--findings", "told"], options].concat(),
        )
        .0
    };
    let text = run(&["--rows", "2"]);
    assert!(text.contains("== 2.") && !text.contains("== 3."), "{text}");
    assert!(text.contains("and findings of 4 other rules"), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&run(&["--json", "--sort", "rule"])).unwrap();
    let findings = json["findings"].as_array().unwrap().iter();
    let rules: Vec<&str> = findings.map(|it| it["rule"].as_str().unwrap()).collect();
    assert!(rules.len() >= 6 && rules.is_sorted(), "{json}");
}
