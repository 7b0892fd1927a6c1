//! `haltwise report --exits` on a capture drawn from seeds, against committed texts; its JSON against its page.

use std::path::Path;

use haltwise_core::event::{Facts, Lost};
use haltwise_core::exit::{Cause, Exits, Isa, Kind, Named, Recorded, SubKey};
use haltwise_core::hist::LogHist;
use haltwise_core::ids::{Tid, VcpuId, VmIndex};

use super::schema::conforms;
use super::{START_NS, compare, fits, flat, haltwise, info_of, record, scenarios};

const SECOND: u64 = 1_000_000_000;

/// Kind, reason, sub-key, how often in a second, and how long each takes, of which in the VMM.
type Drawn = (Kind, Option<u32>, Option<u64>, u64, u64, u64);

const VMX: [Drawn; 13] = [
    (Kind::Exit, Some(48), None, 400, 2_300, 0),
    (Kind::Exit, Some(32), None, 3_100, 1_450, 0),
    (Kind::Exit, Some(30), None, 97, 18_000, 15_500),
    (Kind::Exit, Some(12), None, 210, 900_000, 0),
    (Kind::Exit, Some(1), None, 260, 1_100, 0),
    // A number that no table has, and one that only this kernel names.
    (Kind::Exit, Some(99), None, 3, 5_000, 0),
    (Kind::Exit, Some(98), None, 2, 5_000, 0),
    (Kind::MsrWrite, Some(32), Some(0x830), 2_900, 1_450, 0),
    (Kind::MsrWrite, Some(32), Some(0x6e0), 200, 1_450, 0),
    (Kind::PioWrite, Some(30), Some(0x3f8), 97, 18_000, 15_500),
    (Kind::Entry, None, None, 4_072, 0, 0),
    (Kind::InjVirq, None, None, 470, 0, 0),
    (Kind::UserspaceExit, Some(2), None, 97, 15_500, 15_500),
];

fn rows() -> Vec<Exits> {
    let mut rows = Vec::new();
    for second in 1..=3_u64 {
        for (vm, vcpu) in [(0, 0), (0, 1), (1, 0)] {
            for (place, (kind, reason, sub, count, each, user)) in (0..).zip(VMX) {
                // Every vCPU and second a little else, and a spread.
                let count = count + second * u64::from(vcpu) + place + u64::from(vm);
                let mut times = LogHist::default();
                if each > 0 {
                    for nth in 0..count - u64::from(second == 3 && kind == Kind::Exit) {
                        times.record(each * (90 + nth * 7919 % 40) / 100);
                    }
                }
                let isa = match kind {
                    Kind::Entry | Kind::InjVirq | Kind::UserspaceExit => Isa::None,
                    _ => Isa::Vmx,
                };
                rows.push(Exits {
                    time_ns: START_NS + second * SECOND,
                    interval_ns: SECOND,
                    vm: Some(VmIndex(vm)),
                    vcpu: Some(VcpuId(vcpu)),
                    tid: Tid(4_712 + vm * 100 + vcpu),
                    cause: Cause {
                        kind,
                        isa,
                        reason,
                        sub,
                    },
                    count,
                    user_ns: times.sum() * user / each.max(1),
                    handling_ns: times,
                });
            }
        }
    }
    rows
}

pub(super) fn write(dir: &Path, software: bool) {
    let mut exits = rows();
    if software {
        exits.retain(|row| row.cause.kind == Kind::UserspaceExit);
    } else {
        exits.push(Exits {
            vm: None,
            vcpu: None,
            tid: Tid(0),
            cause: OTHER,
            user_ns: 0,
            handling_ns: LogHist::default(),
            ..exits[0].clone()
        });
    }
    write_rows(dir, exits);
}

fn write_rows(dir: &Path, exits: Vec<Exits>) {
    let scenario = scenarios::named("fleet");
    let mut info = info_of(&scenario);
    info.exits = Some(Recorded {
        sub_keys: vec![SubKey::Msr, SubKey::Pio],
        names: vec![Named {
            isa: Isa::Vmx,
            reason: 98,
            name: "NEW_REASON".into(),
        }],
        ..Recorded::default()
    });
    let mut facts = Facts {
        exits,
        ..scenario.facts
    };
    facts.lost.push(Lost {
        time_ns: START_NS,
        count: 0,
        place: "none".into(),
    });
    record(dir, info, &facts, Some(scenarios::ending(3 * SECOND)));
}

const OTHER: Cause = Cause {
    kind: Kind::Other,
    isa: Isa::None,
    reason: None,
    sub: None,
};

#[test]
fn text_and_json_are_as_committed() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("cap"), false);
    let (text, code) = run(dir.path(), &[]);
    let text = text + &format!("(exit code {})\n", code.unwrap());
    let (json, _) = run(dir.path(), &["--json", "--by", "vcpu"]);
    let json = serde_json::from_str(&json).unwrap();
    conforms("exits", &json);
    let json = flat(&json, 0) + "\n";
    let texts = [("exits/reason.txt", text), ("exits/vcpu.json", json)];
    let wrong = texts.map(|(file, text)| compare(file, &text).err());
    let wrong: String = wrong.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "\n{wrong}");
}

fn run(dir: &Path, options: &[&str]) -> (String, Option<i32>) {
    haltwise(dir, &[&["report", "--exits", "cap"], options].concat())
}

/// Linux 6.15 on Zen 5: vCPUs halt by Idle HLT. `hlt` means these too, and their sleep is no cost.
#[test]
fn exits_by_idle_hlt_are_halts() {
    let dir = tempfile::tempdir().unwrap();
    let mut rows = rows();
    for row in &mut rows {
        if row.cause.isa == Isa::Vmx {
            let numbers = [(12, 0xa6), (32, 0x7c), (30, 0x7b)];
            let number = numbers.iter().find(|it| Some(it.0) == row.cause.reason);
            row.cause.reason = number.map_or(row.cause.reason, |it| Some(it.1));
            row.cause.isa = Isa::Svm;
        }
    }
    write_rows(&dir.path().join("cap"), rows);
    let (json, _) = run(dir.path(), &["--json", "--exit", "hlt"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let rows = json["reasons"].as_array().unwrap();
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(
        (&row["name"], &row["reason"]),
        (&"idle-halt".into(), &0xa6.into())
    );
    assert_eq!(
        (&row["is_halt"], &row["spread_ns"]),
        (&true.into(), &().into())
    );
    assert_eq!(json["total"]["halt_exits"], row["count"]);
    assert!(row["host_ns"].as_u64() < row["time_ns"].as_u64(), "{row}");
    let (text, _) = run(dir.path(), &[]);
    assert!(text.contains("idle-halt: "), "{text}");
}

#[test]
fn every_table_fits() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("cap"), false);
    for (options, row) in [
        (&[][..], "IO_INSTRUCTION      18.0ms  1.39%    900"),
        (&["--by", "vm"], "web-1  50.1ms  10.3ms  23.3k"),
        (&["--by", "vcpu"], "web-1     1  25.2ms"),
        (&["--by", "second"], "     2  25.0ms"),
        (&["--by", "sub"], "msr_write 0x6e0 (IA32_TSC_DEADLINE)"),
        (&["--by", "sub", "--exit", "msr_write"], "(x2APIC ICR)"),
    ] {
        let (text, _) = run(dir.path(), options);
        fits("exits", &text).unwrap();
        assert!(text.contains(row), "{options:?}: {text}");
    }
    let (text, _) = run(dir.path(), &["--rows", "2"]);
    assert!(text.contains("  and 6 more (--rows all)\n"), "{text}");
}

#[test]
fn where_kvm_reports_no_exits_the_first_line_says_so() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("cap"), true);
    let (text, _) = run(dir.path(), &[]);
    let first = text.lines().next().unwrap();
    assert!(
        first.starts_with("golden-1: KVM does not report exits of 5 VMs"),
        "{text}"
    );
    assert!(text.contains("== Returns to the VMM ="), "{text}");
}
