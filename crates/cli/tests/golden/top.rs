//! `haltwise top` on captures without a terminal: pages and JSON against committed texts; the JSON
//! against its page and against `report`. The full screen is in `crates/cli/src/top/draw/test.rs`.

use serde_json::{Value, json};

use super::many;
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

/// Numbers of the VMs in the order in which a text names them, each at its first name after `from`.
fn named(text: &str, from: &str) -> Vec<u32> {
    let (_, text) = text.split_once(from).unwrap();
    let names = text.split("production-frontend-").skip(1);
    let mut numbers = Vec::new();
    for number in names.filter_map(|rest| rest.get(..2)?.parse().ok()) {
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    numbers
}

/// In the report, on the page and in `top`; the VMs' CPU time was recorded.
#[test]
fn vms_stand_by_cpu_time_and_those_that_cannot_be_observed_last() {
    let dir = tempfile::tempdir().unwrap();
    many::write(&dir.path().join("many"));
    let path = dir.path().join("many/capture.json");
    let mut info: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for (n, vm) in (1..).zip(info["roster"]["vms"].as_array_mut().unwrap()) {
        vm["threads"] = json!({
            "over_ns": 1_000_000_000_u64, "vcpu_cpu_ns": n * 1_000_000, "main_cpu_ns": 0, "main_runs": 0, "others_cpu_ns": 0,
        });
    }
    info.as_object_mut().unwrap().remove("crc32");
    std::fs::write(&path, info.to_string()).unwrap();
    let run = |words: &[&str]| super::ran(dir.path(), words).1;
    let report = run(&["report", "many", "--rows", "all", "--width", "120"]);
    let top = run(&["top", "many", "--once", "--width", "120"]);
    run(&["report", "many", "--html", "page.html"]);
    let page = std::fs::read_to_string(dir.path().join("page.html")).unwrap();
    let expected: Vec<u32> = (0..59).rev().chain([60, 59]).collect();
    assert_eq!(named(&report, "wake p50"), expected);
    assert_eq!(named(&top, "CEILING"), expected);
    let table = "<caption>Halted time of each VM";
    assert_eq!(named(&page, table), expected);
    let (open, _) = page
        .split_once(table)
        .unwrap()
        .1
        .split_once("<details")
        .unwrap();
    assert_eq!(named(open, ""), expected[..20], "the others are folded");
}
