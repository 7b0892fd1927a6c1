//! Loads long enough for `haltwise tune`; its costs against those of a replay, its plans against what wrote them.

use std::fs;
use std::path::Path;

use haltwise_core::event::{CeilingSource, Facts};
use haltwise_core::recording::{Mode, Rung};
use serde_json::Value;

use super::guest::Guest;
use super::{START_NS, haltwise, in_order, info, knobs, scenarios};

/// Loads long enough to judge: a name, the ceiling in force, and each vCPU's gaps.
pub(super) const LOADS: [(&str, &str, &[&str]); 5] = [
    ("polled-through", "0", &["fixed:20us"]),
    ("in-vain", "200000", &["fixed:150us"]),
    ("drifts", "0", &["phases:20us*1700:400us*300"]),
    ("two-vms", "50000", &["fixed:20us", "exp:150us"]),
    ("mixed", "200000", &["bimodal:0.8:15us:2ms"]),
];

/// How long a load is recorded, in nanoseconds.
const SPAN_NS: u64 = 150_000_000;

pub(super) fn record(dir: &Path, ceiling: &str, gaps: &[&str]) {
    let guest = |(vm, gaps): (u32, &&str)| Guest {
        vm,
        gaps: String::leak((*gaps).to_owned()),
        seed: u64::from(vm) + 7,
        run_ns: 5_000,
        ceiling_ns: ceiling.parse().unwrap(),
        latency_ns: (18_000, 22_000),
        until_ns: START_NS + SPAN_NS,
        ..Guest::default()
    };
    let guests: Vec<Guest> = (0..).zip(gaps).map(guest).collect();
    record_guests(dir, ceiling, &guests);
}

/// Writes what some guests did as a capture.
fn record_guests(dir: &Path, ceiling: &str, guests: &[Guest]) {
    let mut info = info("6.12.0-golden", Rung::Bpf, Mode::Full);
    info.knobs = knobs(START_NS, ceiling);
    info.roster = scenarios::named("fleet").roster;
    let mut facts = Facts::default();
    for guest in guests {
        for vcpu in &mut info.roster.vcpus {
            if vcpu.vm.0 == guest.vm && guest.source == CeilingSource::Cap {
                (vcpu.ceiling_ns, vcpu.ceiling_source) = (Some(guest.ceiling_ns), guest.source);
            }
        }
        guest.run(&mut facts);
    }
    in_order(&mut facts);
    super::record(dir, info, &facts, Some(scenarios::ending(SPAN_NS)));
}

/// A VM whose sleeps woke after 5 ms, for want of a CPU, and one that woke at once.
pub(super) fn disturbed(dir: &Path) {
    let guest = |vm, gaps, latency_ns| Guest {
        vm,
        gaps,
        ceiling_ns: 0,
        latency_ns,
        until_ns: START_NS + SPAN_NS,
        ..Guest::default()
    };
    let guests = [
        guest(0, "fixed:5us", (4_900_000, 5_100_000)),
        guest(1, "fixed:60us", (18_000, 22_000)),
    ];
    record_guests(dir, "0", &guests);
}

/// A VM with a ceiling of its own.
pub(super) fn capped(dir: &Path) {
    let guest = Guest {
        ceiling_ns: 3_000_000,
        source: CeilingSource::Cap,
        until_ns: START_NS + SPAN_NS,
        ..Guest::default()
    };
    record_guests(dir, "200000", &[guest]);
}

const COST: [&str; 4] = ["--switch-cpu", "10us", "--wake-latency", "20us"];

fn tuned(home: &Path, capture: &str, options: &[&str]) -> Value {
    let words = [&["tune", capture, "--json"], &COST[..], options].concat();
    serde_json::from_str(&haltwise(home, &words).0).unwrap()
}

/// `--policy` gives the recommended setting and the setting in force the costs that `tune` gives them, within 1 %.
#[test]
fn a_recommendation_and_a_replay_of_it_agree() {
    let dir = tempfile::tempdir().unwrap();
    record(&dir.path().join("cap"), "0", &["fixed:20us"]);
    let tuned = tuned(dir.path(), "cap", &[]);
    let of = |name: &str| tuned["recommended"][name].as_u64().unwrap();
    let policy = format!(
        "kvm:max={}ns,grow={},grow_start={}ns,shrink={}",
        of("halt_poll_ns"),
        of("halt_poll_ns_grow"),
        of("halt_poll_ns_grow_start"),
        of("halt_poll_ns_shrink")
    );
    let mut arguments = vec!["tune", "cap", "--policy", &policy, "--policy", "kvm"];
    arguments.extend(COST);
    arguments.push("--json");
    let (json, _) = haltwise(dir.path(), &arguments);
    let replayed: Value = serde_json::from_str(&json).unwrap();
    let cost = |n: usize| {
        let row = &replayed["host"]["played"][n]["from_zero"];
        row["cost_ns"].as_f64().unwrap() / replayed["host"]["halts"].as_f64().unwrap()
    };
    let row = |n: usize| {
        tuned["played"]["rows"][n]["figures"]["cost_ns_per_halt"]
            .as_f64()
            .unwrap()
    };
    for (setting, policy) in [(2, 0), (0, 1)] {
        let share = row(setting) / cost(policy);
        assert!((share - 1.0).abs() < 0.01, "{setting}: {share}");
    }
}

#[test]
fn a_plan_says_what_the_page_says() {
    let dir = tempfile::tempdir().unwrap();
    for (name, ceiling, gaps, changes) in [
        ("better", "0", "fixed:20us", true),
        ("best", "0", "fixed:2ms", false),
    ] {
        record(&dir.path().join(name), ceiling, &[gaps]);
        let said = tuned(dir.path(), name, &["--plan", "plan.json"]);
        let plan = fs::read_to_string(dir.path().join("plan.json")).unwrap();
        let plan: Value = serde_json::from_str(&plan).unwrap();
        assert_eq!(said["changes"], Value::Bool(changes));
        assert_eq!(plan["reason"], said["reason"]);
        assert_eq!(plan["before"], said["in_force"]);
        if changes {
            assert_eq!(plan["settings"], said["recommended"]);
            let effect = &plan["expected"]["cost_ns_per_halt"];
            let change = effect["after"].as_f64().unwrap() - effect["before"].as_f64().unwrap();
            assert!(effect["change_low"].as_f64().unwrap() <= change);
            assert!(effect["change_high"].as_f64().unwrap() >= change);
        } else {
            assert_eq!(plan["settings"], serde_json::json!({}));
            assert_eq!(plan["expected"], Value::Null);
        }
    }
}
