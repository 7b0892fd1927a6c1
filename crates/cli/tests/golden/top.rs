//! `haltwise top` on captures without a terminal: its JSON against `report`. The full screen is in `crates/cli/src/top/draw/test.rs`.

use serde_json::{Value, json};

use super::many;
use super::{haltwise, home, scenarios};

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
