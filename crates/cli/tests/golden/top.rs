//! `haltwise top` on captures without a terminal: pages and JSON against committed texts; the JSON
//! against its page and against `report`. The full screen is in `crates/cli/src/top/draw/test.rs`.

use serde_json::Value;

use super::schema::conforms;
use super::{compare, fits, flat, haltwise, home, scenarios};

fn once(name: &str, options: &[&str]) -> String {
    let capture = format!("captures/{name}");
    let arguments = [&["top", &capture, "--once"], options].concat();
    let (text, code) = haltwise(&home(), &arguments);
    let code = code.unwrap();
    if options.contains(&"--json") {
        flat(&serde_json::from_str(&text).unwrap(), 0) + "\n"
    } else {
        text + &format!("(exit code {code})\n")
    }
}

#[test]
fn pages_are_as_committed() {
    let text = once("fleet", &[]);
    let mut wrong: String = compare("fleet/top.txt", &text).err().into_iter().collect();
    wrong.extend(fits("fleet/top.txt", &text).err());
    let json = once("fleet", &["--json"]);
    wrong.extend(compare("fleet/top.json", &json).err());
    assert!(wrong.is_empty(), "\n{wrong}");
}

fn json(arguments: &[&str]) -> Vec<Value> {
    let (text, _) = haltwise(&home(), arguments);
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Steps are disjoint and cover everything: their sums are those of the whole, and of the report.
#[test]
fn steps_add_up_to_the_report() {
    for scenario in scenarios::all() {
        let capture = format!("captures/{}", scenario.name);
        let steps = json(&["top", &capture, "--json", "--interval", "7ms"]);
        let (report, _) = haltwise(&home(), &["report", &capture, "--json"]);
        let report: Value = serde_json::from_str(&report).unwrap();
        let sum = |at: &str| -> u64 {
            let each = steps.iter().map(|step| step.pointer(at).unwrap());
            each.map(|value| value.as_u64().unwrap()).sum()
        };
        let account = &report["host"]["account"];
        for field in ["halts", "waits"] {
            let total = sum(&format!("/total/{field}"));
            assert_eq!(Some(total), account[field].as_u64(), "{capture} {field}");
        }
        for part in account["parts"].as_object().unwrap() {
            let total = sum(&format!("/total/parts/{}", part.0));
            assert_eq!(Some(total), part.1.as_u64(), "{capture} {}", part.0);
        }
        assert_eq!(Some(sum("/lost")), report["recording"]["lost"].as_u64());
        let ends: Vec<_> = steps.iter().map(|step| step["end_ns"].as_u64()).collect();
        let starts = steps.iter().skip(1).map(|step| step["start_ns"].as_u64());
        assert!(
            starts.eq(ends[..ends.len() - 1].iter().copied()),
            "{capture}"
        );
    }
}

#[test]
fn only_the_vms_and_the_moment_that_are_asked_for() {
    let fleet = |options: &[&str]| json(&[&["top", "captures/fleet", "--json"], options].concat());
    let one = fleet(&["--vm", "db"]);
    assert_eq!(one[0]["vms"].as_array().unwrap().len(), 1);
    assert_eq!(one[0]["vms"][0]["name"], "db");
    assert_eq!(one[0]["total"]["halts"], one[0]["vms"][0]["halts"]);
    // `late` comes after 30 of 60 ms.
    let names = |step: &Value| -> Vec<String> {
        let vms = step["vms"].as_array().unwrap().iter();
        vms.map(|vm| vm["name"].to_string()).collect()
    };
    let early = fleet(&["--interval", "10ms", "--at", "0"]);
    assert_eq!(early.len(), 6);
    assert!(!names(&early[0]).contains(&"\"late\"".to_owned()));
    let late = fleet(&["--interval", "10ms", "--at", "45ms"]);
    assert_eq!(late.len(), 2);
    assert!(names(&late[0]).contains(&"\"late\"".to_owned()));
}

#[test]
fn the_json_of_exits_is_as_published() {
    let dir = tempfile::tempdir().unwrap();
    super::exits::write(&dir.path().join("cap"), false);
    let (text, _) = haltwise(dir.path(), &["top", "cap", "--once", "--json"]);
    let with_exits: Value = serde_json::from_str(&text).unwrap();
    let reason = &with_exits["total"]["exits"]["reasons"][0];
    assert_eq!(reason["name"], "MSR_WRITE");
    conforms("top", &with_exits);
}
