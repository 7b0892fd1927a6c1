//! Plans with ceilings of VMs: made of a capture, applied with the host's parameters, proved, and taken back.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::bench::{Bench, Running, haltwise, has_recorded, told, until_so};
use super::ceilings::vmm::{By, Vmm};
use super::ceilings::{Host, in_kernel_by, start};

fn plan(bench: &Bench, settings: &Value, ceilings: &[(&str, u64)]) -> PathBuf {
    let ceilings: Vec<Value> = (ceilings.iter())
        .map(|(vm, ns)| json!({"vm": vm, "halt_poll_ns": ns, "goal": "latency", "lambda": 10.0}))
        .collect();
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let plan = json!({
        "schema": "haltwise-plan", "version": 1,
        "tool": {"name": "haltwise", "version": "0.1.0"},
        "capture": {
            "hostname": null, "kernel_release": release, "arch": "x86_64",
            "started_unix_ns": 0, "ended_unix_ns": null, "halts": 1
        },
        "goal": {"name": "balanced", "lambda": 1.0, "max_poll_cpu_percent": null},
        "scope": "host-and-vms", "before": {}, "settings": settings, "ceilings": ceilings,
        "expected": null, "reason": "written by hand"
    });
    let path = bench.path("plan.json");
    std::fs::write(&path, plan.to_string()).unwrap();
    path
}

#[track_caller]
fn apply(host: &Host, code: i32, plan: &Path, options: &str) -> String {
    host.says(code, &format!("apply {} {options}", plan.display()))
}

fn own(name: &str) -> u64 {
    let found = in_kernel_by(name);
    assert_eq!(found.len(), 1, "{name}: {found:?}");
    assert_eq!(found[0].1, "own-cap", "{name}");
    found[0].0
}

#[test]
fn a_plan_sets_parameters_and_ceilings_and_undo_takes_both_back() {
    let Some(bench) = Bench::set_up() else { return };
    let host = Host::new();
    let before = host.ceiling();
    let vms = ["planned-a", "planned-b"].map(|name| start(&bench, name, |lab| lab));
    let wanted = [("planned-a", 70_000), ("planned-b", 0)];
    let plan = plan(&bench, &json!({"halt_poll_ns": 30_000}), &wanted);
    let said = apply(&host, 0, &plan, "");
    assert!(said.contains("(halt_poll_ns -> 70.0 us)"), "{said}");
    assert_eq!(in_kernel_by("planned-a")[0].1, "follows");
    apply(&host, 0, &plan, "--yes");
    assert_eq!(
        (own("planned-a"), own("planned-b"), host.ceiling()),
        (70_000, 0, 30_000)
    );
    let said = apply(&host, 0, &plan, "--yes");
    assert!(said.contains("There is nothing to do"), "{said}");
    let said = host.says(0, "status");
    assert!(said.contains("ceiling of planned-b (pid "), "{said}");
    // Another controller, with files of its own, sets what this one has set.
    let other = Host::new();
    other.says(0, "apply --vm planned-a --ceiling 9us --yes");
    let said = apply(&host, 1, &plan, "--yes");
    assert!(said.contains("is not as apply 1"), "{said}");
    host.says(5, "undo");
    assert_eq!(
        (own("planned-a"), own("planned-b"), host.ceiling()),
        (9_000, before, before)
    );
    other.says(0, "undo");
    assert_eq!(own("planned-a"), 70_000);
    drop(vms);
}

#[test]
fn vms_that_are_not_there_or_cannot_be_set_are_named_and_the_others_are_set() {
    let Some(bench) = Bench::set_up() else { return };
    let host = Host::new();
    let settable = start(&bench, "settable", |lab| lab);
    let unsettable = Vmm::start(&bench, "unsettable", By::Nothing);
    let named = format!("small_vmm-{}", unsettable.id());
    let wanted = [("settable", 1_000), (&named, 2_000), ("later", 3_000)];
    let path = plan(&bench, &json!({}), &wanted);
    let said = apply(&host, 5, &path, "--yes");
    assert!(said.contains("later: no VM of this name runs"), "{said}");
    assert!(said.contains(&format!("{named}: ask pid")), "{said}");
    assert_eq!(own("settable"), 1_000);
    assert_eq!(in_kernel_by(&named)[0].1, "follows");
    // A VM that comes later.
    let waiting = Running::start(
        Command::new(haltwise())
            .arg("apply")
            .arg(path)
            .args(["--yes", "--follow", "--root"])
            .arg(host.0.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    );
    let later = start(&bench, "later", |lab| lab);
    until_so("its ceiling", || {
        in_kernel_by("later").iter().any(|(ns, _)| *ns == 3_000)
    });
    assert_eq!(waiting.end(Signal::INT).status.code(), Some(5));
    host.says(0, "undo");
    assert_eq!(own("later"), host.ceiling());
    drop((settable, unsettable, later));
}

#[test]
fn a_capture_knows_whose_ceiling_could_be_set_and_tune_plans_for_these() {
    let Some(bench) = Bench::set_up() else { return };
    let governed = start(&bench, "tuned-a", |lab| lab);
    let plain = Vmm::start(&bench, "tuned-b", By::Nothing);
    let plain_name = format!("small_vmm-{}", plain.id());
    has_recorded(&bench.ran("record --duration 1s -o cap"));
    drop((governed, plain));
    let info = std::fs::read_to_string(bench.path("cap/capture.json")).unwrap();
    let info: Value = serde_json::from_str(&info).unwrap();
    for (name, settable) in [("tuned-a", true), (&plain_name, false)] {
        let mut vms = info["roster"]["vms"].as_array().unwrap().iter();
        let vm = vms.find(|vm| vm["name"] == name).unwrap();
        assert_eq!(vm["ceiling_settable"], settable, "{vm}");
    }
    let result = bench.page("tune cap --goal tuned-a=latency --goal density --json");
    assert_eq!(result["goal"]["name"], "density");
    let own = &result["played"]["caps"];
    // None where another load leaves no CPU to poll with.
    for vm in own["vms"].as_array().into_iter().flatten() {
        assert_eq!(vm["goal"] == "latency", vm["name"] == "tuned-a", "{vm}");
        assert_ne!(vm["name"], plain_name, "{vm}");
    }
}

#[test]
fn a_plan_is_proved_vm_by_vm() {
    let Some(bench) = Bench::set_up() else { return };
    let vms = ["proved-a", "proved-b"].map(|name| start(&bench, name, |lab| lab));
    plan(&bench, &json!({}), &[("proved-a", 0), ("proved-b", 5_000)]);
    let line = "prove --json --rounds 2 --duration 300ms --switch-cpu 5us --vm proved-a --vm proved-b --plan plan.json";
    let refused = |code: i32, line: &str, why: &str| {
        let output = bench.ran(line);
        let said = told(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(why), "{said}");
    };
    refused(2, line, "the ceiling of proved-a to");
    let yes = format!("{line} --yes");
    let proof = bench.page(&yes);
    assert_eq!(proof["means"], "vm-ceilings");
    let scopes = proof["scopes"].as_array().unwrap();
    let told: Vec<_> = scopes
        .iter()
        .map(|it| (&it["vm"], &it["b_halt_poll_ns"]))
        .collect();
    assert_eq!(
        told,
        [
            (&json!("proved-a"), &json!(0)),
            (&json!("proved-b"), &json!(5_000))
        ]
    );
    // The settings that were in force before are in force again.
    let ceiling = Host::new().ceiling();
    assert_eq!((own("proved-a"), own("proved-b")), (ceiling, ceiling));
    drop(vms);
    refused(3, &yes, "no VM of this name runs");
}
