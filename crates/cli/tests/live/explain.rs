//! Rules of `explain` on guests of the lab that behave as the rule has it, and on one that does not.
//!
//! The findings of a rule on a rhythm depend on how busy the machine is, and are tested on captures (golden tests).
//! Here: storms, what must not be advised on CPUs that others want, and a VM with a ceiling of its own.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::bench::Bench;

/// The rules that fire on the lab's VM.
fn rules(lab: &str) -> Option<BTreeSet<String>> {
    let bench = Bench::set_up()?;
    bench.record("--exits=pio,mmio", &format!("{lab} --name subject-alone"));
    let page = bench.page("report --findings --json --vm subject-alone capture");
    Some(fired(&page))
}

/// Also what cost too little to be shown: how fast the machine is decides that.
pub(crate) fn fired(page: &Value) -> BTreeSet<String> {
    let of = |list: &str| page[list].as_array().unwrap().clone();
    let fired = [of("findings"), of("small")].concat();
    let ids = fired.iter().map(|it| it["rule"].as_str().unwrap());
    ids.map(str::to_owned).collect()
}

#[test]
fn a_port_that_a_guest_polls_and_memory_that_it_draws_into_are_found() {
    let Some(polling) = rules("port-poll --rounds 60") else {
        return;
    };
    assert!(polling.contains("port-polling"), "{polling:?}");
    assert!(!polling.contains("emulated-framebuffer"), "{polling:?}");
    assert!(!polling.contains("halts-not-observable"), "{polling:?}");
    let drawing = rules("framebuffer --rounds 40").unwrap();
    assert!(drawing.contains("emulated-framebuffer"), "{drawing:?}");
    assert!(!drawing.contains("port-polling"), "{drawing:?}");
}

/// JSON output of a verb for the bench's capture, and its exit code.
fn says(bench: &Bench, verb: &str) -> (Value, Option<i32>) {
    let output = bench.ran(&format!("{verb} --json capture"));
    let page = serde_json::from_slice(&output.stdout);
    (page.unwrap_or(Value::Null), output.status.code())
}

/// vCPUs that wake each other on one CPU, on which another VM spins: a guest that polls would make that
/// worse, and its remedy names the polls that were preempted.
#[test]
fn polling_in_the_guest_is_not_advised_on_a_cpu_that_others_want() {
    let Some(bench) = Bench::set_up() else { return };
    let _spinner = bench.guest(
        "spinner",
        "poller --guest-poll fixed:always --gap fixed:1ms --duration 60s --timeout 120s --pin 0",
    );
    bench.record(
        "",
        "ipi --rounds 3000 --pin 0 --timeout 120s --name subject",
    );
    let (page, _) = says(&bench, "report --findings --vm subject");
    let of = |list: &str| {
        let rows = page[list].as_array().unwrap().iter();
        rows.filter(|it| it["rule"] == "ipi-storm")
            .cloned()
            .collect::<Vec<_>>()
    };
    let found = page["findings"].as_array().unwrap().iter();
    let small = page["small"].as_array().unwrap().iter();
    let overcommitted = |it: &Value| it["rule"] == "over-committed-polling";
    if !found.chain(small).any(overcommitted) {
        // Polls of a window that stays shut are too few, and a kernel need not tell of pressure.
        println!("skipped: this machine shows nobody who waits for the CPU");
        return;
    }
    assert!(of("findings").is_empty(), "{page:#}");
    for withheld in of("withheld") {
        assert_ne!(withheld["why"], "", "{withheld:#}");
    }
}

/// A VM with a ceiling of its own: no plan for the host, and nothing blamed on VMs that follow.
#[test]
fn a_ceiling_of_the_vms_own_is_not_planned_for_the_host() {
    let Some(bench) = Bench::set_up() else { return };
    let load = "pingpong --rounds 4000 --gap exp:60us --host-wait block --cap 3ms --name subject";
    bench.record("", load);
    let plan = bench.path("plan.json");
    let plan = plan.to_str().unwrap();
    let (page, code) = says(&bench, &format!("tune --vm subject --plan {plan}"));
    assert_eq!(page["follows"], Value::Bool(false), "{page:#}");
    // Its own ceiling is what is tuned.
    assert_eq!(page["in_force"]["halt_poll_ns"], 3_000_000, "{page:#}");
    assert_eq!(code, Some(1), "a plan was asked for");
    assert!(!bench.path("plan.json").exists());
    let commands = page["commands"].as_array().unwrap().iter();
    let sets = |it: &Value| it.as_str().unwrap().ends_with("/halt_poll_ns");
    assert!(commands.clone().all(|it| !sets(it)), "{page:#}");
    let (_, code) = says(&bench, "tune --vm subject");
    assert!(matches!(code, Some(0 | 5)), "{code:?}");
    let (page, _) = says(&bench, "report --findings --vm subject");
    let mut found = page["findings"].as_array().unwrap().iter();
    assert!(
        found.all(|it| !it["vm"].is_null()),
        "nothing of the host's: {page:#}"
    );
}
