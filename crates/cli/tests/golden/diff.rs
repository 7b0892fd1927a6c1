//! `haltwise diff` on pairs of captures, committed ones and longer ones drawn from seeds, against committed texts.

use std::fs;
use std::path::Path;

use haltwise_core::event::{CeilingSource, Facts, Halt, WakeSource};
use haltwise_core::exit::{Cause, Exits, Isa, Kind, Recorded};
use haltwise_core::hist::LogHist;
use haltwise_core::ids::{Tid, VcpuId, VmIndex};
use haltwise_core::kvm::Call;
use haltwise_core::recording::{Mode, Rung};
use haltwise_core::units::Nanos;
use haltwise_core::workload::SplitMix64;
use serde_json::Value;

use super::schema::conforms;
use super::{
    START_NS, compare, flat, haltwise, home, in_order, info, knobs, prints, ran, record, scenarios,
};

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
    let mean = if vm == 0 { load.gap } else { Nanos(20_000_000) };
    let ceiling_ns = if vm == 0 { load.ceiling } else { 0 };
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
            tid: Tid(5_000 + vm),
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

fn exits(load: Load, facts: &mut Facts) {
    let mut draw = SplitMix64(load.seed * 1_000);
    for second in 1..=SECONDS {
        for (reason, per_s, each_ns) in load.exits {
            let count = per_s + draw.below(per_s / 4);
            let mut handling_ns = LogHist::default();
            for _ in 0..count {
                handling_ns.record(each_ns * (75 + draw.below(50)) / 100);
            }
            facts.exits.push(Exits {
                time_ns: START_NS + second * SECOND,
                interval_ns: SECOND,
                vm: Some(VmIndex(0)),
                vcpu: Some(VcpuId(0)),
                tid: Tid(5_000),
                cause: Cause {
                    kind: Kind::Exit,
                    isa: Isa::Vmx,
                    reason: Some(*reason),
                    sub: None,
                },
                count,
                user_ns: 0,
                handling_ns,
            });
        }
    }
}

fn write(dir: &Path, load: Load, kernel: &str) {
    let mut info = info(kernel, Rung::Bpf, Mode::Full);
    info.knobs = knobs(START_NS, "200000");
    info.roster = scenarios::all().remove(5).roster;
    info.exits = Some(Recorded::default());
    let mut facts = Facts::default();
    for vm in 0..2 {
        halts(load, vm, &mut facts);
    }
    in_order(&mut facts);
    exits(load, &mut facts);
    let ending = scenarios::ending(SECONDS * SECOND);
    record(dir, info, &facts, Some(ending));
}

fn write_all(home: &Path) {
    let again = Load { seed: 3, ..BEFORE };
    write(&home.join("before"), BEFORE, "6.12.0-golden");
    write(&home.join("again"), again, "6.12.0-golden");
    write(&home.join("after"), AFTER, "6.12.1-golden");
}

fn json(home: &Path, a: &str, b: &str) -> Value {
    serde_json::from_str(&haltwise(home, &["diff", a, b, "--json"]).0).unwrap()
}

#[test]
fn pages_are_as_committed() {
    let dir = tempfile::tempdir().unwrap();
    write_all(dir.path());
    let mut wrong = String::new();
    for (home, file, line) in [
        (dir.path(), "shift.txt", "before after"),
        (dir.path(), "shift-all.txt", "before after --rows all"),
        (dir.path(), "same.txt", "before again"),
        (
            dir.path(),
            "other-vm.txt",
            "before after --vm web-1=db --rows all",
        ),
        (
            &home(),
            "counts-fleet.txt",
            "captures/counts captures/fleet",
        ),
        (
            &home(),
            "hostile.txt",
            "captures/hostile-names captures/fleet",
        ),
    ] {
        let line = format!("diff {line}");
        let words: Vec<&str> = line.split(' ').collect();
        wrong += &prints(home, &format!("diff/{file}"), &words);
    }
    let shift = json(dir.path(), "before", "after");
    conforms("diff", &shift);
    let shift = flat(&shift, 0) + "\n";
    wrong.extend(compare("diff/shift.json", &shift).err());
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// Linux 6.12 takes halts whose event is pending away from KVM's rule.
#[test]
fn kernels_that_count_halts_differently_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("old"), BEFORE, "6.11.0-golden");
    write(&dir.path().join("new"), BEFORE, "6.12.0-golden");
    write(&dir.path().join("newer"), BEFORE, "6.18.0-golden");
    let said = |a, b| {
        let json = json(dir.path(), a, b);
        let rows = json["circumstances"].as_array().unwrap().clone();
        let is_it = |row: &Value| row["what"] == "HLT with an event pending";
        let row = rows.into_iter().find(is_it)?;
        Some([&row["a"], &row["b"]].map(|it| it.as_str().unwrap().contains("do not compare")))
    };
    assert_eq!(said("old", "new"), Some([false, true]));
    assert_eq!(said("newer", "old"), Some([true, false]));
    assert_eq!(said("new", "newer"), None);
}

/// A text that holds wake-ups alone tells of no cut polls, grows or shrinks: that is not none of them.
#[test]
fn what_a_capture_does_not_tell_is_not_zero() {
    let dir = tempfile::tempdir().unwrap();
    let mut draw = SplitMix64(4);
    let mut time_us = 1_000_000_000;
    let lines = (0..2_000).map(|_| {
        let ns = draw.exponential(Nanos(120_000)).0;
        time_us += ns / 1_000 + 30;
        let (s, us) = (time_us / 1_000_000, time_us % 1_000_000);
        format!(
            "  kvm-7  [001] d... {s}.{us:06}: kvm_vcpu_wakeup: wait time {ns} ns, polling valid\n"
        )
    });
    fs::write(dir.path().join("trace.txt"), lines.collect::<String>()).unwrap();
    let (code, _, said) = ran(dir.path(), &["import", "-o", "cap", "trace.txt"]);
    assert_eq!(code, 0, "{said}");
    write(&dir.path().join("after"), AFTER, "6.12.1-golden");
    let json = json(dir.path(), "after", "cap");
    let rows = json["comparisons"].as_array().unwrap();
    for (figure, verdict) in [
        ("cut-polls", "not-told"),
        ("grows", "not-told"),
        ("shrinks", "not-told"),
        ("poll-wasted-cpu", "not-told"),
        ("halts", "different"),
    ] {
        let row = rows
            .iter()
            .find(|row| row["figure"] == figure && row["vm"].is_null());
        assert_eq!(row.unwrap()["verdict"], verdict, "{figure}");
    }
}

/// Figures of lost data are `not-told`, never `different`.
#[test]
fn damage_is_no_difference() {
    let dir = tempfile::tempdir().unwrap();
    let polling = Load {
        ceiling: AFTER.ceiling,
        ..BEFORE
    };
    for (name, load, figures) in [
        ("window_changes", polling, &["grows", "shrinks"][..]),
        ("exits", BEFORE, &["exits", "exit-time"]),
        ("halts", BEFORE, &["halts", "blocks", "gap-p50"]),
    ] {
        write(&dir.path().join("whole"), load, "6.12.0-golden");
        write(&dir.path().join(name), load, "6.12.0-golden");
        let file = dir.path().join(name).join(format!("{name}.parquet"));
        fs::remove_file(file).unwrap();
        let arguments = ["diff", "whole", name, "--json"];
        let (text, code) = haltwise(dir.path(), &arguments);
        assert_eq!(code, Some(5), "{name}");
        let json: Value = serde_json::from_str(&text).unwrap();
        for row in json["comparisons"].as_array().unwrap() {
            let figure = row["figure"].as_str().unwrap();
            assert_ne!(row["verdict"], "different", "{name}: {figure}");
            if figures.contains(&figure) && row["verdict"] != "in-neither" {
                assert_eq!(row["verdict"], "not-told", "{name}: {figure}: {row}");
            }
        }
        assert!(json["b"]["damaged"].as_bool().unwrap(), "{name}");
        fs::remove_dir_all(dir.path().join("whole")).unwrap();
    }
}
