//! docs/metrics.md against the declarations, and what contrib/ asks for against docs/metrics.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use haltwise_document::Figures as _;
use haltwise_document::figure::{Figure, leaves};
use haltwise_document::openmetrics::{Declared, Format, Kind, declared};

use super::figures::{
    BuildNames, CostState, CostTotals, CpuTotals, ExitTotals, HaltTotals, HostState, HostTotals,
    LostTotals, MissingNames, Parameter, ScrapeState, ScrapeTotals, VmLabels, VmNames, VmState,
    WakeTotals,
};
use super::test::exposition;

const NAMES: &[(&str, &[Figure])] = &[
    ("Labels of VMs", VmLabels::FIGURES),
    ("haltwise_vm_info", VmNames::FIGURES),
    (
        "haltwise_pilot_vm_info",
        crate::pilot_state::metrics::PilotVmNames::FIGURES,
    ),
    ("haltwise_build_info", BuildNames::FIGURES),
    ("haltwise_missing_info", MissingNames::FIGURES),
];

const OPENING: &str = "# Metrics

`haltwise metrics` serves these on `http://127.0.0.1:9477/metrics` (`--listen`), as OpenMetrics 1.0 or in Prometheus' text
format, whichever the client accepts; `--textfile FILE` writes them for the textfile collector of node_exporter; `--once`
prints them. `haltwise pilot --listen` serves those of [the pilot](#the-pilot), and no others. This page is made from the
program's declarations.

* Counters count from the start of haltwise, or from when a VM was first seen; those of the host's CPUs from its boot.
* What is not known has no sample: without a source of wake-up latencies (`--mode stats`) there is no
  `haltwise_vm_wake_latency_seconds`, and of a VM whose halts cannot be observed there is `haltwise_vm_observable` 0 and no count.
* A VM that has ended is shown for two minutes more, so that the last of its counts is scraped.
* Bounds of histograms are powers of two of nanoseconds, where KVM's own buckets end, too; a time that equals a bound to
  the nanosecond is counted above it.
* Beyond `--max-series` whole VMs are left out, the last seen first, and counted in
  `haltwise_exporter_left_out_series_total`; the totals of the host have all VMs.
* `pid` is there only where another VM has the same name and UUID. What may change of a VM (`vmm_pid`, `goal`) is a
  label of `_info` alone, so that series go on. The host's name is `instance`, from Prometheus.
* Only loopback and unix sockets are listened on: there is no authentication, and the names of VMs are no secret to who
  may connect. Requests are limited to 8 KiB, 5 s and 16 connections at a time; a `Host` header that is not this host is
  refused, so that no page in a browser can read them.

[contrib/prometheus/haltwise.rules.yml](../contrib/prometheus/haltwise.rules.yml) has recording and alert rules,
[contrib/grafana/haltwise.json](../contrib/grafana/haltwise.json) a dashboard,
[contrib/haltwise-metrics.service](../contrib/haltwise-metrics.service) the unit of systemd.
";

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// All metrics with their section and their labels, in the order of the page.
fn all() -> Vec<(&'static str, &'static str, Declared)> {
    use Kind::{Counter, Gauge};
    let mut all = Vec::new();
    let mut add = |section, prefix, labels, kind, figures| {
        let metrics = leaves(figures).into_iter();
        let metrics = metrics.filter_map(|leaf| declared(kind, prefix, &leaf));
        all.extend(metrics.map(|it| (section, labels, it)));
    };
    let (section, prefix, of_vms) = ("VMs", "haltwise_vm", "vm, uuid, pid");
    let of_wakes = "vm, uuid, pid, source";
    let of_exits = "vm, uuid, pid, reason";
    add(section, prefix, of_vms, Counter, HaltTotals::FIGURES);
    add(section, prefix, of_vms, Counter, CpuTotals::FIGURES);
    add(section, prefix, of_wakes, Counter, WakeTotals::FIGURES);
    add(section, prefix, of_exits, Counter, ExitTotals::FIGURES);
    add(section, prefix, of_vms, Gauge, VmState::FIGURES);
    let (section, prefix) = ("The host", "haltwise_host");
    add(section, prefix, "", Counter, HaltTotals::FIGURES);
    add(section, prefix, "source", Counter, WakeTotals::FIGURES);
    add(section, prefix, "", Counter, HostTotals::FIGURES);
    add(section, prefix, "", Gauge, HostState::FIGURES);
    add(
        section,
        "haltwise_kvm",
        "parameter",
        Gauge,
        Parameter::FIGURES,
    );
    let (section, prefix) = ("haltwise itself", "haltwise_exporter");
    add(section, "haltwise", "place", Counter, LostTotals::FIGURES);
    add(section, prefix, "", Counter, CostTotals::FIGURES);
    add(section, prefix, "", Gauge, CostState::FIGURES);
    add(section, prefix, "", Counter, ScrapeTotals::FIGURES);
    add(section, prefix, "", Gauge, ScrapeState::FIGURES);
    for (labels, prefix, kind, figures) in crate::pilot_state::metrics::LISTED {
        add("The pilot", prefix, labels, kind, figures);
    }
    all
}

fn page() -> String {
    let mut page = OPENING.to_owned();
    let mut last = "";
    for (section, labels, metric) in all() {
        if section != last {
            let _ = write!(
                page,
                "\n## {section}\n\n| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n"
            );
            last = section;
        }
        let (name, kind) = (metric.sample(), metric.kind.as_str());
        let _ = writeln!(
            page,
            "| `{name}` | {kind} | {labels} | {} |",
            cell(metric.help)
        );
    }
    for (name, figures) in NAMES {
        let title = name
            .strip_suffix("_info")
            .map_or((*name).to_owned(), |_| format!("`{name}`"));
        let _ = write!(page, "\n## {title}\n\n| label | meaning |\n| --- | --- |\n");
        for leaf in leaves(figures) {
            let _ = writeln!(
                page,
                "| `{}` | {} |",
                leaf.figure.name,
                cell(leaf.figure.meaning())
            );
        }
    }
    page
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// `UPDATE_GOLDEN=1 cargo test -p haltwise --lib published` makes the page.
#[test]
fn the_page_of_metrics_is_as_declared() {
    let path = repository().join("docs/metrics.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, page()).unwrap();
    }
    let published = fs::read_to_string(&path).unwrap_or_default();
    assert!(published == page(), "docs/metrics.md is not as declared");
}

#[test]
fn what_is_served_is_on_the_page() {
    let listed: BTreeMap<String, Declared> = all()
        .into_iter()
        .map(|(_, _, metric)| (metric.name.clone(), metric))
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
    for (_, _, metric) in all() {
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
