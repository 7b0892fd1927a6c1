//! Plans come back as they were written, and what is not a plan is refused by name.

use haltwise_core::kvm::guest::Params;
use haltwise_core::parameter::Parameter;

use super::*;
use serde_json::{Value, json};

fn plan() -> Plan {
    let effect = |before, after, change_low, change_high| Effect {
        before,
        after,
        change_low,
        change_high,
    };
    Plan {
        schema: SCHEMA.to_owned(),
        version: VERSION,
        tool: Tool {
            name: "haltwise".to_owned(),
            version: "0.1.0".to_owned(),
        },
        capture: Basis {
            hostname: Some("alder".to_owned()),
            kernel_release: "6.12.8".to_owned(),
            arch: "x86_64".to_owned(),
            started_unix_ns: 1_763_740_800_000_000_000,
            ended_unix_ns: None,
            halts: 1_204_331,
        },
        goal: TuneGoal {
            name: "balanced".to_owned(),
            lambda: 1.0,
            max_poll_cpu_percent: None,
        },
        scope: Scope::Host,
        before: of([200_000, 2, 10_000, 2]),
        settings: of([35_000, 1, 35_000, 1]),
        ceilings: Vec::new(),
        expected: Some(Expected {
            interval: Interval::Confidence95,
            halts: 401_000,
            cost_ns_per_halt: effect(31_000.0, 20_500.0, -11_000.0, -9_800.0),
            poll_cpu_percent: effect(11.8, 9.3, -2.9, -2.1),
            wake_latency_mean_ns: effect(8_400.0, 1_200.5, -7_500.0, -6_900.0),
        }),
        reason: "most gaps lie below 30 us, and a block costs 29 us".to_owned(),
    }
}

fn of(values: [u32; 4]) -> Values {
    Parameter::HOST.into_iter().zip(values).collect()
}

fn with_ceilings() -> Plan {
    Plan {
        scope: Scope::HostAndVms,
        ceilings: vec![PlannedCeiling {
            vm: "web-1".to_owned(),
            halt_poll_ns: 50_000,
            goal: "latency".to_owned(),
            lambda: 10.0,
        }],
        ..plan()
    }
}

fn of_guest() -> Plan {
    let in_force = Params::default();
    Plan {
        version: VERSION_OF_GUEST,
        scope: Scope::Guest,
        before: in_force.into(),
        settings: Values::from(in_force)
            .with(Parameter::GuestHaltPollNs, 750_000)
            .with(Parameter::GuestAllowShrink, 0),
        ..plan()
    }
}

fn text(plan: &Plan) -> Value {
    serde_json::to_value(plan).unwrap()
}

fn refused(value: &Value) -> String {
    let error = Plan::parse(value.to_string().as_bytes()).unwrap_err();
    format!("{error:#}")
}

/// A plan with a field (`/a/b`) set to a value, or taken out.
fn with(plan: &Plan, path: &str, value: Option<Value>) -> Value {
    let mut whole = text(plan);
    let (parent, name) = path.rsplit_once('/').unwrap();
    let fields = whole.pointer_mut(parent).unwrap();
    let fields = fields.as_object_mut().unwrap();
    match value {
        Some(value) => drop(fields.insert(name.to_owned(), value)),
        None => drop(fields.remove(name).unwrap()),
    }
    whole
}

#[test]
fn a_plan_comes_back_as_it_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("plan.json");
    let leave = Plan {
        settings: Values::default(),
        expected: None,
        reason: "nothing better is significant".to_owned(),
        ..plan()
    };
    for wanted in [plan(), leave, with_ceilings(), of_guest()] {
        wanted.write(&path).unwrap();
        let read = Plan::read(&path).unwrap();
        assert_eq!(read, wanted);
        assert_eq!(read.leaves_it(), wanted.expected.is_none());
    }
    let names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "nothing but the plan is left: {names:?}");
}

#[test]
fn every_field_must_be_there() {
    let paths = "tool tool/name tool/version capture capture/hostname capture/kernel_release capture/arch \
                 capture/started_unix_ns capture/ended_unix_ns capture/halts goal goal/name goal/lambda \
                 goal/max_poll_cpu_percent scope before settings expected expected/interval expected/halts \
                 expected/cost_ns_per_halt expected/poll_cpu_percent/change_low reason";
    for path in paths.split(' ') {
        let error = refused(&with(&plan(), &format!("/{path}"), None));
        let name = path.rsplit('/').next().unwrap();
        assert!(error.contains(&format!("`{name}`")), "{path}: {error}");
    }
    for name in ["schema", "version"] {
        let error = refused(&with(&plan(), &format!("/{name}"), None));
        assert!(error.starts_with("it is not a plan: "), "{error}");
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn a_field_too_many_is_refused() {
    let paths = "more tool/more capture/more goal/more before/more settings/halt_poll_ns_growth expected/more \
                 expected/cost_ns_per_halt/more";
    for path in paths.split(' ') {
        let error = refused(&with(&plan(), &format!("/{path}"), Some(json!(1))));
        assert!(error.contains("unknown field"), "{path}: {error}");
    }
}

#[test]
fn values_that_no_setting_can_have_are_refused() {
    let ceiling = text(&with_ceilings())["ceilings"][0].to_string();
    let [one, two] = [1, 2].map(|count| format!("[{}]", vec![&*ceiling; count].join(",")));
    for row in [
        r#"/schema | "haltwise-report" | haltwise-report"#,
        "/version | 3 | version 3",
        "/version | 2 | is of version 1",
        r#"/scope | "guest" | is of version 2"#,
        "/settings/guest_halt_poll_ns | 1 | settings: it has a guest's parameters",
        "/before/guest_halt_poll_allow_shrink | true | before: it has a guest's parameters",
        "/version | 0 | version 0",
        r#"/version | "1" | it is not a plan"#,
        r#"/scope | "vm" | unknown variant `vm`"#,
        "/settings/halt_poll_ns | -1 | -1",
        "/settings/halt_poll_ns | 4294967296 | 4294967296",
        "/settings/halt_poll_ns | 4294967295 | settings: halt_poll_ns is 4294967295; a plan may hold 0 to 1000000000",
        "/settings/halt_poll_ns_grow | 4294967295 | halt_poll_ns_grow",
        "/settings/halt_poll_ns | 0.5 | 0.5",
        r#"/settings/halt_poll_ns | "80us" | 80us"#,
        "/goal/lambda | -1.0 | lambda is -1",
        "/goal/lambda | 1e7 | lambda is 10000000",
        "/goal/max_poll_cpu_percent | -2.0 | max_poll_cpu_percent is below 0",
        r#"/reason | " " | reason: it is empty"#,
        "/settings | {} | expected: it must be null",
        "/expected/poll_cpu_percent/change_low | 7.0 | ends (-2.1) before it begins (7)",
        "/expected/cost_ns_per_halt/after | -1.0 | cost_ns_per_halt is below 0",
        "guest/settings/halt_poll_ns | 0 | settings: it has KVM's parameters",
        "guest/settings/guest_halt_poll_grow_start | 4294967295 | guest_halt_poll_grow_start is 4294967295",
        "guest/ceilings | ONE | host-and-vms",
        r#"vms/ceilings/0/vm | " " | is no name"#,
        "vms/ceilings/0/halt_poll_ns | 4294967295 | a plan may hold 0 to 1000000000",
        "vms/ceilings/0/halt_poll_ns | 4294967296 | expected u32",
        "vms/ceilings/0/lambda | -1.0 | lambda is -1",
        "vms/ceilings | TWO | comes twice",
        r#"vms/scope | "host" | host-and-vms"#,
    ] {
        let [place, value, says] = row.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{row}");
        };
        let (whose, _) = place.split_once('/').unwrap();
        let plan = match whose {
            "guest" => of_guest(),
            "vms" => with_ceilings(),
            _ => plan(),
        };
        let value = value.replace("ONE", &one).replace("TWO", &two);
        let value = serde_json::from_str(&value).unwrap();
        let error = refused(&with(&plan, &place[whose.len()..], Some(value)));
        assert!(error.contains(says), "{row}: {error}");
    }
}

#[test]
fn what_is_no_plan_at_all_is_refused_with_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    let whole = text(&plan()).to_string();
    let deep = "[".repeat(100_000);
    let spaces = " ".repeat(300 << 10);
    let twice = whole.replacen("\"version\"", "\"version\":1,\"version\"", 1);
    for bytes in [
        b"".as_slice(),
        b"{}",
        b"[]",
        b"\xff\xfe",
        b"null",
        &whole.as_bytes()[..whole.len() - 1],
        whole.replace("31000.0", "1e999").as_bytes(),
        whole.replace("31000.0", "NaN").as_bytes(),
        format!("{whole}x").as_bytes(),
        format!("{whole}{spaces}").as_bytes(),
        deep.as_bytes(),
        twice.as_bytes(),
    ] {
        let path = dir.path().join("plan.json");
        std::fs::write(&path, bytes).unwrap();
        let failure = Plan::read(&path).unwrap_err();
        let shown = format!("{:#}", failure.error);
        assert!(shown.starts_with("read the plan "), "{shown}");
        assert!(shown.len() < 1_000, "{} bytes", shown.len());
        assert!(failure.hint.is_some());
    }
    let failure = Plan::read(&dir.path().join("none.json")).unwrap_err();
    assert!(format!("{:#}", failure.error).contains("No such file"));
}

/// The page names every field that a plan has, and none that it has not.
#[test]
fn the_page_describes_every_field() {
    let page = include_str!("../../../../docs/plan-json.md");
    let mut keys = Vec::new();
    collect(&text(&with_ceilings()), &mut keys);
    collect(&text(&of_guest()), &mut keys);
    for key in &keys {
        assert!(page.contains(&format!("`{key}`")), "not described: {key}");
    }
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    for row in rows {
        for name in row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2) {
            assert!(keys.iter().any(|key| key == name), "no such field: {name}");
        }
    }
}

fn collect(json: &Value, keys: &mut Vec<String>) {
    if let Value::Object(fields) = json {
        for (key, value) in fields {
            keys.push(key.clone());
            collect(value, keys);
        }
    }
    for item in json.as_array().into_iter().flatten() {
        collect(item, keys);
    }
}

/// A plan with a few bytes changed is refused, or read as what it says and kept so.
#[test]
fn a_damaged_plan_is_refused_or_means_what_it_says() {
    let whole = serde_json::to_vec_pretty(&text(&plan())).unwrap();
    let mut random = haltwise_core::workload::SplitMix64(0x4a17);
    let mut below = |end: usize| usize::try_from(random.below(end as u64)).unwrap();
    let (mut read, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let mut bytes = whole.clone();
        for _ in 0..=below(3) {
            let at = below(bytes.len());
            match below(4) {
                0 => bytes[at] ^= 1 << below(8),
                1 => bytes[at] = b"0123456789-.eE\"{}[],:"[below(21)],
                2 => drop(bytes.remove(at)),
                _ => bytes.insert(at, b"0123456789"[below(10)]),
            }
        }
        let Ok(damaged) = Plan::parse(&bytes) else {
            refused += 1;
            continue;
        };
        read += 1;
        let again = Plan::parse(text(&damaged).to_string().as_bytes()).unwrap();
        assert_eq!(again, damaged);
    }
    assert!(
        read > 1_000 && refused > 1_000,
        "{read} read, {refused} refused"
    );
}
