//! This host's KVM does as its rule has it: VMs whose vCPUs wake each other, and ceilings that change
//! while they run. The module's parameters are as they are.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::bench::{Bench, HALTING, json, told};

/// Transitions that a run must show besides matching.
const ALL: &[&str] = &["grow", "shrink", "silent", "none"];

/// Guests and the transitions that must have happened. Fixed settings and ceilings are tried in stock kernels
/// (`xtask/src/kernels/rule/grid.rs`); here is what they have not: several vCPUs that wake each other, and ceilings that
/// change while a VM runs.
const RUNS: [(&str, &[&str]); 3] = [
    ("ipi --rounds 3000 --vcpus 3 --cap 200us", &["grow", "none"]),
    (
        "pingpong --vms 2 --vcpus 2 --rounds 6000 --gap uniform:5us:300us --host-wait block \
         --caps 0,200us,20us,500us,10us,50us --caps-every 100ms",
        ALL,
    ),
    // The recorder cannot see a ceiling that comes and goes while a vCPU waits for a CPU.
    (
        "pingpong --rounds 6000 --gap uniform:5us:300us --caps 500us,0,90us,300us --caps-every 60ms",
        ALL,
    ),
];

/// Verifies one VM of the lab: others may run here and be recorded too.
fn verify(bench: &Bench, load: &str, vm: &str, is_partial: bool) -> Value {
    let output = bench.ran(&format!("verify --json --vm {vm} capture"));
    let code = if is_partial { 5 } else { 0 };
    let said = told(&output);
    assert_eq!(output.status.code(), Some(code), "{load}: {said}");
    json(&output)
}

#[test]
fn every_transition_is_as_the_rule_has_it() {
    for (load, allowed) in RUNS {
        let Some(bench) = Bench::set_up() else { return };
        let recorded = bench.record("--source bpf", &format!("{load} --name verified"));
        assert_eq!(recorded.lost(), 0, "{load}");
        let vms: BTreeSet<String> = recorded.counted().into_iter().map(|it| it.vm).collect();
        for vm in vms {
            let result = verify(&bench, load, &vm, false);
            let count = |name: &str| result[name].as_u64().unwrap();
            assert_eq!(count("differences"), 0, "{load}");
            assert!(count("checked") > 500, "{load}: {result}");
            let is_most = count("checked") * 10 > count("halts") * 9;
            assert!(is_most, "{load}: {result}");
            for transition in allowed {
                let matched = result["transitions"][transition]["matched"].as_u64();
                assert!(matched > Some(0), "{load}: no {transition}: {result}");
            }
        }
    }
}

/// A recorder detaches its programs and events in an order that leaves no halt without its call.
#[test]
fn a_recording_that_ends_before_its_vm_is_right_to_the_last_halt() {
    let Some(bench) = Bench::set_up() else { return };
    let load = "uniform:5us:240us";
    let line = format!("{HALTING} --vcpus 2 --gap {load}");
    let lab = bench.guest("goes-on", &line);
    for rung in ["bpf", "bpf", "bpf", "bpf", "bpf", "tracepoints"] {
        let Some(bench) = Bench::set_up() else { return };
        let output = bench.ran(&format!(
            "record --source {rung} --vm goes-on --duration 400ms -o capture"
        ));
        let lost = output.status.code() == Some(5);
        assert!(
            output.status.success() || lost && rung == "tracepoints",
            "{}",
            told(&output)
        );
        let result = verify(&bench, load, "goes-on", lost);
        assert!(result["checked"].as_u64() > Some(100), "{rung}: {result}");
    }
    drop(lab);
}
