//! The list of metrics against what is served, and what contrib/ asks for against the list.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use haltwise_document::openmetrics::{Declared, Format, Kind};

use super::figures::{NAMES, all};
use super::test::exposition;

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
