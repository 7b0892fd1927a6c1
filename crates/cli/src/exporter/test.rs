//! Output of the exporter for made-up VMs, as its readers see it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use haltwise_core::event::{Facts, HaltCounts, Knob, KnobScope, Lost, Observable, Vm};
use haltwise_core::ids::{VcpuId, VmIndex};
use haltwise_core::recording::{Missing, Roster};
use haltwise_core::vmm::Threads;
use haltwise_document::openmetrics::{Declared, Format, Kind, Metrics};

use crate::exporter::figures::{BuildNames, NAMES, all};
use crate::exporter::server::Address;
use crate::exporter::serving::Exposition;
use crate::exporter::watched::{KEPT_NS, Watched};
use crate::top::world;

fn watched() -> Watched {
    let text = str::to_owned;
    let build = BuildNames {
        version: text("0.1.0"),
        source: text("bpf"),
        mode: text("counts"),
        host: text("host \"1\""),
        kernel: text("6.1"),
    };
    let missing = vec![Missing::new(
        text("package_uj"),
        text("/sys: no such file\nor directory"),
    )];
    Watched::new(build, missing, None)
}

fn vm(index: u32, name: &str) -> Vm {
    let mut vm = world::vm(index, name);
    vm.identity.uuid = Some("6f1d2c3a-0b4e-4c5d-8e7f-a1b2c3d4e5f6".to_owned());
    vm
}

fn counts(vm: u32, halts: u64) -> HaltCounts {
    let mut counts = HaltCounts {
        time_ns: 2_000,
        interval_ns: 1_000,
        vm: Some(VmIndex(vm)),
        vcpu: Some(VcpuId(0)),
        halts,
        waited: halts,
        wakes: [0, 0, 0, 0, halts],
        poll_known: Some(halts),
        poll_cuts: Some(0),
        ..HaltCounts::default()
    };
    for at in 0..halts {
        counts.halt_ns.record(90_000);
        counts.poll_fail_ns.record(50_000);
        counts.wake_latency_ns.record(20_000 + at);
    }
    counts
}

fn fed() -> Watched {
    let mut watched = watched();
    let roster = Roster {
        vms: vec![
            vm(0, "web\\\"1\n# EOF"),
            vm(1, "alike"),
            vm(2, "alike"),
            Vm {
                observable: Observable::No("no irqchip".to_owned()),
                threads: Some(Threads {
                    over_ns: 2_000_000_000,
                    vcpu_cpu_ns: Some(1_000_000_000),
                    others_cpu_ns: Some(500_000_000),
                    ..Threads::default()
                }),
                ..vm(3, "hidden")
            },
        ],
        ..Roster::default()
    };
    let facts = Facts {
        counts: vec![counts(0, 10), counts(1, 3), counts(2, 4)],
        lost: vec![Lost {
            time_ns: 1,
            count: 5,
            place: "ring buffer full".to_owned(),
        }],
        ..Facts::default()
    };
    watched.facts(&facts, &roster, 3_000);
    watched.knobs(&[Knob {
        time_ns: 1,
        name: "halt_poll_ns".to_owned(),
        scope: KnobScope::Host,
        value: "200000".to_owned(),
    }]);
    watched
}

pub(super) fn exposition() -> Exposition {
    let watched = std::sync::Mutex::new(fed());
    Exposition::new(1_000, move |metrics| {
        watched.lock().unwrap().add_to(metrics);
    })
}

#[test]
fn vms_alike_in_name_and_uuid_are_told_apart_and_hidden_ones_have_no_zeros() {
    let text = exposition().render(Format::Prometheus);
    let uuid = "uuid=\"6f1d2c3a-0b4e-4c5d-8e7f-a1b2c3d4e5f6\"";
    for line in [
        format!("haltwise_vm_halts_total{{vm=\"web\\\\\\\"1\\n# EOF\",{uuid}}} 10\n"),
        format!("haltwise_vm_halts_total{{vm=\"alike\",{uuid}}} 3\n"),
        format!("haltwise_vm_halts_total{{vm=\"alike\",{uuid},pid=\"1002\"}} 4\n"),
        format!("haltwise_vm_poll_fail_seconds_total{{vm=\"alike\",{uuid}}} 0.00015\n"),
        format!("haltwise_vm_observable{{vm=\"hidden\",{uuid}}} 0\n"),
        format!("haltwise_vm_cpu_seconds_total{{vm=\"hidden\",{uuid}}} 1.5\n"),
        format!("haltwise_vm_vmm_cpu_seconds_total{{vm=\"hidden\",{uuid}}} 0.5\n"),
        format!(
            "haltwise_vm_wake_latency_seconds_bucket{{vm=\"alike\",{uuid},le=\"1.6384e-05\"}} 0\n"
        ),
        format!(
            "haltwise_vm_wake_latency_seconds_bucket{{vm=\"alike\",{uuid},le=\"3.2768e-05\"}} 3\n"
        ),
        "haltwise_host_halts_total 17\n".to_owned(),
        "haltwise_kvm_parameter{parameter=\"halt_poll_ns\"} 200000\n".to_owned(),
        "haltwise_lost_events_total{place=\"ring buffer full\"} 5\n".to_owned(),
    ] {
        assert!(text.contains(&line), "{line}\n{text}");
    }
    assert!(!text.contains("haltwise_vm_halts_total{vm=\"hidden\""));
    assert!(!text.contains("haltwise_vm_cpu_seconds_total{vm=\"alike\""));
}

#[test]
fn a_vm_that_ended_is_shown_a_while_and_stays_in_the_totals() {
    let mut watched = fed();
    let mut ended = Roster {
        vms: vec![Vm {
            to_ns: Some(4_000),
            ..vm(1, "alike")
        }],
        ..Roster::default()
    };
    let text = |watched: &Watched| {
        let mut metrics = Metrics::new(1_000);
        watched.add_to(&mut metrics);
        metrics.render(Format::Prometheus)
    };
    watched.facts(&Facts::default(), &ended, 5_000);
    let shown = text(&watched);
    assert!(shown.contains("haltwise_vm_halts_total{vm=\"alike\""));
    assert!(
        !shown.contains("haltwise_vm_observable{"),
        "it is not there now"
    );
    ended.vms[0].to_ns = Some(4_000);
    watched.facts(&Facts::default(), &ended, 4_000 + KEPT_NS);
    let gone = text(&watched);
    assert!(!gone.contains("haltwise_vm_halts_total{"));
    assert!(gone.contains("haltwise_host_halts_total 17\n"));
}

#[test]
fn what_does_not_fit_is_counted() {
    let watched = std::sync::Mutex::new(fed());
    let small = Exposition::new(90, move |metrics| watched.lock().unwrap().add_to(metrics));
    let text = small.render(Format::Prometheus);
    let series = text.lines().filter(|it| !it.starts_with('#')).count();
    assert!(series < 100, "{series}");
    assert!(!text.contains("left_out_series_total 0\n"), "{text}");
    assert!(text.contains("haltwise_host_halts_total 17\n"));
}

#[test]
fn only_this_machine_is_listened_to() {
    for good in "127.0.0.1:9477 [::1]:0 localhost:80 unix:/run/x 127.3.2.1:1".split(' ') {
        assert!(good.parse::<Address>().is_ok(), "{good}");
    }
    let elsewhere = "0.0.0.0:9477 [::]:1 10.0.0.1:80 example.com:80 unix:x unix:/ 9477";
    for bad in elsewhere.split(' ').chain([""]) {
        assert!(bad.parse::<Address>().is_err(), "{bad}");
    }
    let why = "0.0.0.0:9477".parse::<Address>().unwrap_err();
    assert!(why.contains("without authentication"), "{why}");
}

/// Gives a program a text; what it prints, or `None` where it is not installed.
fn checked(program: &str, arguments: &[&str], text: &str) -> Option<(bool, String)> {
    let command = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = command.ok()?;
    // One without its module ends before it reads.
    drop(child.stdin.take().unwrap().write_all(text.as_bytes()));
    let done = child.wait_with_output().unwrap();
    let said = [done.stdout, done.stderr].concat();
    Some((
        done.status.success(),
        String::from_utf8_lossy(&said).into_owned(),
    ))
}

#[test]
#[expect(clippy::print_stdout, reason = "a test that cannot run here says why")]
fn promtool_and_the_reference_parser_of_openmetrics_read_it() {
    const READ: &str = "import sys\n\
        from prometheus_client.openmetrics.parser import text_string_to_metric_families as read\n\
        print(sum(len(f.samples) for f in read(sys.stdin.read())))\n";
    let open = exposition().render(Format::OpenMetrics);
    let samples = open.lines().filter(|it| !it.starts_with('#')).count();
    let classic = exposition().render(Format::Prometheus);
    for (program, arguments, text, says) in [
        ("promtool", ["check", "metrics"], classic, String::new()),
        ("python3", ["-c", READ], open, format!("{samples}\n")),
    ] {
        match checked(program, &arguments, &text) {
            Some((_, said)) if said.contains("ModuleNotFoundError") => {
                println!("skipped: python's prometheus_client is not installed");
            }
            Some((good, said)) => assert!(good && said == says, "{said}{text}"),
            None => println!("skipped: {program} is not installed"),
        }
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn what_is_served_is_listed() {
    let listed: BTreeMap<String, Declared> = all()
        .map(|(_, metric)| (metric.name.clone(), metric))
        .collect();
    let text = exposition().render(Format::OpenMetrics);
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let mut served = 0;
    for (name, kind) in types.map(|line| line.split_once(' ').unwrap()) {
        if kind == "info" {
            let known = NAMES.iter().any(|(it, _)| *it == format!("{name}_info"));
            assert!(known, "{name}");
            continue;
        }
        let metric = listed.get(name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(metric.kind.as_str(), kind, "{name}");
        served += 1;
    }
    assert!(served > 30, "{served}");
}

fn mentioned(text: &str) -> BTreeSet<String> {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let words = text.split(|c| !is_of_word(c));
    let ours = words.filter(|word| word.starts_with("haltwise_"));
    ours.map(str::to_owned).collect()
}

const POLLS: [(&str, &str); 4] = [
    ("host", "fail"),
    ("host", "success"),
    ("vm", "fail"),
    ("vm", "success"),
];

/// Rules and panels ask for nothing that is not served.
#[test]
fn contrib_asks_for_metrics_that_there_are() {
    let mut there: BTreeSet<String> = NAMES.iter().map(|(name, _)| (*name).to_owned()).collect();
    for (_, metric) in all() {
        let name = metric.sample();
        if metric.kind == Kind::Histogram {
            there.extend(["bucket", "sum", "count"].map(|end| format!("{name}_{end}")));
        }
        there.insert(name);
    }
    for file in ["prometheus/haltwise.rules.yml", "grafana/haltwise.json"] {
        let text = fs::read_to_string(repository().join("contrib").join(file)).unwrap();
        let asked = mentioned(&text);
        assert!(asked.len() > 8, "{file}");
        let strange: Vec<_> = asked.difference(&there).collect();
        assert!(strange.is_empty(), "{file}: {strange:?}");
        // Polls cost CPU time whether they succeed or fail, which both are shown.
        for (of, result) in POLLS {
            let metric = format!("haltwise_{of}_poll_{result}_seconds_total");
            assert!(asked.contains(&metric), "{file}: {metric}");
            let alert = format!("expr: haltwise:{of}_poll_{result}:cpus > ");
            assert!(!file.ends_with("yml") || text.contains(&alert), "{alert}");
        }
    }
}
