//! `haltwise exits` on a capture drawn from seeds, against committed texts; its JSON against its page.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use haltwise_capture::recording::Recording;
use haltwise_core::event::{Facts, Lost};
use haltwise_core::exit::{Cause, Exits, Isa, Kind, Named, Recorded, SubKey};
use haltwise_core::hist::LogHist;
use haltwise_core::ids::{Tid, VcpuId, VmIndex};

use super::schema::{agree, keys};
use super::{START_NS, compare, fits, flat, haltwise, home, info_of, knobs, scenarios};

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

/// The guests of another scenario, with exits beside their halts.
pub(super) fn write(dir: &Path, software: bool) {
    let scenario = scenarios::all()
        .into_iter()
        .find(|it| it.name == "fleet")
        .unwrap();
    let mut info = info_of(&scenario);
    info.knobs = knobs(START_NS, "200000");
    info.roster = scenario.roster;
    info.exits = Some(Recorded {
        sub_keys: vec![SubKey::Msr, SubKey::Pio],
        names: vec![Named {
            isa: Isa::Vmx,
            reason: 98,
            name: "NEW_REASON".into(),
        }],
        ..Recorded::default()
    });
    let mut recording = Recording::create(dir, info).unwrap();
    recording.append(&scenario.facts).unwrap();
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
    let lost = vec![Lost {
        time_ns: START_NS,
        count: 0,
        place: "none".into(),
    }];
    recording
        .append(&Facts {
            exits,
            lost,
            ..Facts::default()
        })
        .unwrap();
    let mut ending = scenario.ending.unwrap();
    ending.ended.time_ns = START_NS + 3 * SECOND;
    recording.finish(ending).unwrap();
}

const OTHER: Cause = Cause {
    kind: Kind::Other,
    isa: Isa::None,
    reason: None,
    sub: None,
};

const CASES: [(&str, &[&str]); 8] = [
    ("reason.txt", &[]),
    ("vm.txt", &["--by", "vm"]),
    ("vcpu.txt", &["--by", "vcpu", "--vm", "4711"]),
    ("second.txt", &["--by", "second"]),
    ("sub.txt", &["--sub", "--reason", "msr_write"]),
    ("reason.csv", &["--csv"]),
    ("second.csv", &["--csv", "--by", "second"]),
    ("vcpu.json", &["--json", "--by", "vcpu"]),
];

#[test]
fn pages_are_as_committed() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("hard"), false);
    write(&dir.path().join("soft"), true);
    let mut wrong = String::new();
    let mut say = |capture: &str, file: &str, options: &[&str]| {
        let (text, code) = haltwise(dir.path(), &[&["exits", capture], options].concat());
        let file = format!("exits/{file}");
        let text = match Path::new(&file).extension().and_then(|it| it.to_str()) {
            Some("json") => flat(&serde_json::from_str(&text).unwrap(), 0) + "\n",
            Some("csv") => text,
            _ => {
                wrong.extend(fits(&file, &text).err());
                text + &format!("(exit code {})\n", code.unwrap())
            }
        };
        wrong.extend(compare(&file, &text).err());
    };
    for (file, options) in CASES {
        say("hard", file, options);
    }
    say("soft", "software.txt", &[]);
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn the_page_describes_every_field() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/exits-json.md");
    let page = fs::read_to_string(page).unwrap();
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("cap"), false);
    let (text, _) = haltwise(dir.path(), &["exits", "cap", "--json", "--by", "vm"]);
    let mut printed = BTreeSet::new();
    keys(&serde_json::from_str(&text).unwrap(), &mut printed);
    agree(&page, &printed);
}

#[test]
fn what_cannot_be_shown_is_said_with_what_to_do() {
    let run = |arguments: &[&str]| {
        let mut haltwise = Command::new(env!("CARGO_BIN_EXE_haltwise"));
        let output = haltwise
            .args(arguments)
            .current_dir(home())
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, said) = run(&["exits", "captures/idle"]);
    assert_eq!(code, Some(1));
    assert!(
        said.contains("holds none\nhint: `haltwise record --exits`"),
        "{said}"
    );
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("cap"), false);
    let cap = dir.path().join("cap");
    let (code, said) = run(&["exits", cap.to_str().unwrap(), "--reason", "hlt\u{1b}[2J"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("has the reason `hlt?[2J`\nhint: "), "{said}");
    let (code, said) = run(&["record", "-o", "/nowhere", "--exits=ports"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("`ports` is none of msr, pio"), "{said}");
}
