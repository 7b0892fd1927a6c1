//! A plan that `tune` makes of a guest's capture, applied in that guest: a made-up one without KVM.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::Host;

const PARAMETERS: &str = "sys/module/haltpoll/parameters";

const BEFORE: [(&str, &str); 5] = [
    ("guest_halt_poll_allow_shrink", "Y"),
    ("guest_halt_poll_grow", "2"),
    ("guest_halt_poll_grow_start", "50000"),
    ("guest_halt_poll_ns", "200000"),
    ("guest_halt_poll_shrink", "2"),
];

fn guest() -> Host {
    let guest = Host::new("6.12.117+deb12-cloud-amd64");
    fs::remove_dir_all(guest.path("sys/module/kvm")).unwrap();
    for (name, value) in BEFORE {
        guest.set(&format!("{PARAMETERS}/{name}"), value);
    }
    guest
}

fn files(guest: &Host) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(guest.path(PARAMETERS)).unwrap();
    let read = |file: fs::DirEntry| {
        let name = file.file_name().into_string().unwrap();
        (name, fs::read(file.path()).unwrap())
    };
    files.map(|file| read(file.unwrap())).collect()
}

fn tune(guest: &Host, goal: &str) -> Value {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/recorded/inside");
    let file = guest.0.path().join("plan.json");
    let output = Command::new(env!("CARGO_BIN_EXE_haltwise"))
        .args(["tune", "--goal", goal, "--plan"])
        .args([&file, &recorded])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let plan: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let sets = plan["settings"] != serde_json::json!({});
    assert_eq!(said.contains("plan.json --yes"), sets, "{said}");
    plan
}

#[test]
fn a_plan_of_a_guest_is_applied_in_the_guest_and_undone_to_the_byte() {
    let guest = guest();
    let plan = tune(&guest, "balanced");
    assert_eq!(plan["version"], 2);
    assert_eq!(plan["scope"], "guest");
    let before = files(&guest);
    let (code, out, err) = guest.run("apply plan.json");
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("guest_halt_poll_ns"), "{out}");
    assert_eq!(files(&guest), before);
    let (code, out, err) = guest.run("apply plan.json --yes");
    assert_eq!(code, Some(0), "{out}{err}");
    let wanted = plan["settings"].as_object().unwrap();
    assert_eq!(wanted.len(), 5);
    for (name, value) in wanted {
        let value = match value {
            Value::Bool(true) => "Y".to_owned(),
            Value::Bool(false) => "N".to_owned(),
            number => number.to_string(),
        };
        let found = String::from_utf8(files(&guest)[name].clone()).unwrap();
        assert_eq!(found.trim(), value, "{name}");
    }
    assert_ne!(files(&guest), before);
    let (code, out, err) = guest.run("undo");
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(files(&guest), before);
}

/// By CPU time alone its host should poll: nothing of that is set in the guest.
#[test]
fn where_the_host_should_poll_the_plan_sets_nothing_and_says_so() {
    let guest = guest();
    let plan = tune(&guest, "density");
    assert_eq!(plan["settings"], serde_json::json!({}));
    assert_eq!(plan["expected"], Value::Null);
    let reason = plan["reason"].as_str().unwrap();
    assert!(reason.starts_with("Poll in the host instead"), "{reason}");
    let before = files(&guest);
    let (code, out, err) = guest.run("apply plan.json --yes");
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(files(&guest), before);
}

#[test]
fn a_host_without_the_governor_refuses_it() {
    let host = Host::new("6.12.117+deb12-cloud-amd64");
    tune(&host, "balanced");
    let (code, out, err) = host.run("apply plan.json --yes");
    assert_eq!(code, Some(3), "{out}{err}");
    assert!(err.contains("guest_halt_poll"), "{err}");
}
