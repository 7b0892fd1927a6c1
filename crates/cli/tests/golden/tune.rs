//! `haltwise tune` on every capture and on longer ones made here, against committed texts; its JSON
//! against its page, its plans against what wrote them.

use std::fs;
use std::path::Path;

use haltwise_core::event::{CeilingSource, Facts};
use haltwise_core::recording::{Mode, Rung};
use serde_json::Value;

use super::guest::Guest;
use super::schema::conforms;
use super::{
    START_NS, compare, fits, flat, haltwise, home, in_order, info, knobs, prints, ran, scenarios,
};
use crate::numbers::numbers;

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

pub(super) fn record(dir: &Path, ceiling: &str, gaps: &[&'static str]) {
    let guest = |(vm, gaps): (u32, &&'static str)| Guest {
        vm,
        gaps,
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
    info.roster = scenarios::all().remove(5).roster;
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

const COST: [&str; 4] = ["--switch-cpu", "10us", "--wake-latency", "20us"];

fn tune(home: &Path, capture: &str, options: &[&str]) -> (String, i32) {
    let mut arguments = vec!["tune", capture];
    arguments.extend(COST);
    arguments.extend(options);
    let (text, code) = haltwise(home, &arguments);
    (text, code.unwrap())
}

fn tuned(home: &Path, capture: &str, options: &[&str]) -> Value {
    let mut options = options.to_vec();
    options.push("--json");
    serde_json::from_str(&tune(home, capture, &options).0).unwrap()
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn html(home: &Path, capture: &str, options: &[&str]) -> String {
    let report = ["report", capture, "--html", "page.html"];
    let (code, _, said) = ran(home, &[&report, options].concat());
    assert_eq!(code, 0, "{said}");
    fs::read_to_string(home.join("page.html")).unwrap()
}

#[test]
fn recommendations_are_as_committed() {
    let mut wrong = String::new();
    let mut check = |file: String, (text, code): (String, i32)| {
        let text = text + &format!("(exit code {code})\n");
        wrong.extend(compare(&file, &text).err());
        wrong.extend(fits(&file, &text).err());
    };
    for name in ["fleet", "tracepoints", "kvm-stats"] {
        let capture = format!("captures/{name}");
        check(format!("{name}/tune.txt"), tune(&home(), &capture, &[]));
    }
    let dir = tempfile::tempdir().unwrap();
    for (name, ceiling, gaps) in LOADS {
        record(&dir.path().join(name), ceiling, gaps);
        check(format!("tune/{name}.txt"), tune(dir.path(), name, &[]));
    }
    let limited = tune(
        dir.path(),
        "in-vain",
        &["--max-poll-cpu", "2%", "--goal", "latency"],
    );
    check("tune/in-vain-limited.txt".to_owned(), limited);
    for (file, dir, capture) in [
        ("tune/two-vms.json", dir.path(), "two-vms"),
        ("counts/tune.json", &home(), "captures/counts"),
    ] {
        let json = tuned(dir, capture, &[]);
        conforms("tune", &json);
        wrong.extend(compare(file, &(flat(&json, 0) + "\n")).err());
    }
    assert!(wrong.is_empty(), "\n{wrong}");
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

/// Polling was nearly always met, so that the capture has too few sleeps of the length that off would make: said
/// in the JSON, on the screen and in the page, in the same words.
#[test]
fn sleeps_that_were_seen_a_few_times_are_a_doubt() {
    let dir = tempfile::tempdir().unwrap();
    record(&dir.path().join("cap"), "200000", &["fixed:150us"]);
    let basis = &tuned(dir.path(), "cap", &[])["basis"];
    let guessed = basis["latency_guessed"].as_u64().unwrap();
    assert_eq!(Some(guessed), basis["judged_halts"].as_u64());
    let says = "for which too few wake-ups were recorded";
    let (text, _) = tune(dir.path(), "cap", &[]);
    assert!(words(&text).contains(says), "{text}");
    let page = html(dir.path(), "cap", &[]);
    assert!(page.contains("one halt in 32 were recorded"), "so the page");
    let mut replay = vec!["tune", "cap", "--policy", "off"];
    replay.extend(COST);
    let (text, _) = haltwise(dir.path(), &replay);
    assert!(words(&text).contains(says), "{text}");
}

/// Without ceilings the host's parameters serve the goals of single VMs, and the result says whose.
#[test]
fn goals_of_single_vms_move_the_hosts_parameters() {
    let dir = tempfile::tempdir().unwrap();
    record(&dir.path().join("cap"), "0", &["fixed:40us", "fixed:40us"]);
    let ceiling = |goals: &[&str]| {
        let mut options = vec!["--ceilings", "none", "--goal", "density"];
        options.extend(goals.iter().flat_map(|goal| ["--goal", *goal]));
        let said = tuned(dir.path(), "cap", &options);
        assert!(said["played"]["caps"].is_null());
        let goals = said["vm_goals"].as_array().unwrap().iter().take(2);
        let goals = goals.map(|vm| format!("{}={}", vm["name"].as_str().unwrap(), vm["goal"]));
        let ns = said["recommended"]["halt_poll_ns"].as_u64().unwrap_or(0);
        (ns, goals.collect::<Vec<_>>().join(" ").replace('"', ""))
    };
    assert_eq!(ceiling(&[]), (0, String::new()));
    let (ns, goals) = ceiling(&["web-1=latency"]);
    assert!(ns >= 40_000 && goals == "web-1=latency", "{ns} {goals}");
    // Exact names override patterns; the first matching pattern wins.
    for (given, counts) in [
        (
            &["*=latency", "web-1=density"][..],
            "web-1=density db=latency",
        ),
        (&["*b*=latency", "*=balanced"], "web-1=latency db=latency"),
        (&["*=balanced", "*b*=latency"], "web-1=balanced db=balanced"),
    ] {
        assert_eq!(ceiling(given).1, counts, "{given:?}");
    }
    let options = ["--ceilings", "none", "--goal", "*b*=latency"];
    let (text, _) = tune(dir.path(), "cap", &options);
    let says =
        "Goals of single VMs: latency for web-1, db. The host's parameters are chosen by the sum";
    assert!(words(&text).contains(says), "{text}");
    let counts = haltwise(&home(), &["tune", "captures/counts", "--goal", "*=latency"]).0;
    assert!(words(&counts).contains("Goals of single VMs have no effect here"));
}

/// Every poll was met, so that what a sleep costs is the calibration's: 38 us, 75 us were it twice as late and
/// all of it a quarter more.
/// Polls of 50 us lie between and are left; those of 150 us are not, and it is said what that rests on.
#[test]
fn what_hangs_on_the_calibration_is_left_and_all_that_rests_on_it_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let calibration = r#"{"schema": 1, "switch_cpu_ns": {"median": 16000.0}, "classes": [
        {"gap_ns": 50000, "wake_latency_ns": {"median": 22000.0}},
        {"gap_ns": 150000, "wake_latency_ns": {"median": 22000.0}}]}"#;
    fs::write(dir.path().join("cal.json"), calibration).unwrap();
    let mut wrong = String::new();
    for (name, gaps, verdict, changes) in [
        ("unproven", "fixed:50us", "unproven", false),
        ("outlives", "fixed:150us", "change", true),
    ] {
        record(&dir.path().join(name), "200000", &[gaps]);
        let given = ["tune", name, "--calibration", "cal.json"];
        let words = |options: &[&'static str]| [&given, options].concat();
        let file = format!("tune/{name}.txt");
        wrong += &prints(dir.path(), &file, &words(&[]));
        let (said, _) = haltwise(dir.path(), &words(&["--json"]));
        let said: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(
            (&said["verdict"], &said["changes"]),
            (&verdict.into(), &changes.into())
        );
        if changes {
            let basis = &said["basis"];
            assert_eq!(basis["latency_calibrated"], basis["judged_halts"]);
            let share = &said["played"]["against_in_force"]["cost_share"];
            let high = share["high"].as_f64().unwrap();
            assert!((high + 0.5).abs() < 0.001, "75 of 150 us: {high}");
        } else {
            let page = html(dir.path(), name, &["--calibration", "cal.json"]);
            let words = "It depends on how late vCPUs wake";
            assert!(page.contains(words), "{name}: the page says so too");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// The shortest sleeps of the host woke after 5 ms, for want of a CPU: a block is not taken to need half of
/// that, it is said, and no figure of CPU exceeds the time of the two vCPUs.
#[test]
fn a_price_from_disturbed_sleeps_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
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
    record_guests(&dir.path().join("cap"), "0", &guests);
    for verb in [&["tune", "cap"][..], &["tune", "cap", "--policy", "kvm"]] {
        let (json, _) = haltwise(dir.path(), &[verb, &["--json"]].concat());
        let said: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(said["basis"]["switch_cpu_ns"], 100_000, "{verb:?}");
        assert_eq!(said["basis"]["switch_cpu_source"], "bounded");
        let figures = [numbers(&said["host"]), numbers(&said["played"])].concat();
        let figures = figures.iter().filter(|it| it.1.ends_with("cpu_percent"));
        let figures: Vec<f64> = figures.map(|it| it.2).collect();
        assert!(figures.len() > 3, "{verb:?}");
        let is_possible = figures.iter().all(|of| (0.0..=200.0).contains(of));
        assert!(is_possible, "{verb:?}: {figures:?}");
        let (text, _) = haltwise(dir.path(), verb);
        let says = "assumed, the upper bound for hardware";
        assert!(words(&text).contains(says), "{text}");
    }
}

#[test]
fn a_calibration_that_measured_nothing_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    record(&dir.path().join("cap"), "0", &["fixed:20us"]);
    let nothing = r#"{"schema": 1, "switch_cpu_ns": null, "classes": [
        {"gap_ns": 50000, "wake_latency_ns": null}]}"#;
    let no_price = r#"{"schema": 1, "switch_cpu_ns": {"median": -40.0}, "classes": [
        {"gap_ns": 50000, "wake_latency_ns": {"median": 22000.0}}]}"#;
    for (calibration, more, lacks) in [
        (nothing, &[][..], Some("it measured nothing")),
        (nothing, &COST[..2], Some("it measured nothing")),
        (
            no_price,
            &[],
            Some("it did not measure the CPU time of a sleep"),
        ),
        (no_price, &COST[..2], None),
    ] {
        fs::write(dir.path().join("cal.json"), calibration).unwrap();
        for policy in [&[][..], &["--policy", "usual"]] {
            let words = ["tune", "cap", "--calibration", "cal.json"];
            let (code, _, text) = ran(dir.path(), &[&words, more, policy].concat());
            assert_eq!(code, i32::from(lacks.is_some()));
            let says = lacks.is_none_or(|lacks| {
                text.contains(lacks) && text.contains("cal.json is not usable as a calibration")
            });
            assert!(says, "{policy:?}: {text}");
        }
    }
}

/// A VM with a ceiling of its own: that is what is tuned, and no plan for the host is written.
#[test]
fn a_ceiling_of_the_vms_own_is_not_planned_for_the_host() {
    let dir = tempfile::tempdir().unwrap();
    let guest = Guest {
        ceiling_ns: 3_000_000,
        source: CeilingSource::Cap,
        until_ns: START_NS + SPAN_NS,
        ..Guest::default()
    };
    record_guests(&dir.path().join("cap"), "200000", &[guest]);
    let said = tuned(dir.path(), "cap", &["--vm", "web-1"]);
    assert_eq!(said["follows"], false);
    assert_eq!(said["in_force"]["halt_poll_ns"], 3_000_000);
    let words = ["tune", "cap", "--vm", "web-1", "--plan", "plan.json"];
    let (code, _, error) = ran(dir.path(), &words);
    let is_refused = code == 1 && error.contains("no plan was written");
    assert!(is_refused, "{error}");
    assert!(!dir.path().join("plan.json").exists());
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
