//! A made-up report as Markdown.

use std::borrow::Cow;

use haltwise_core::prove::rank::Interval;
use haltwise_core::stats::median_estimate;

use super::*;
use crate::experiment::found::{FoundSource, Host, SCHEMA};
use crate::experiment::judge::demand;
use crate::experiment::witness::Check;
use crate::experiment::{Chart, Effect, Variant};

const SAMPLES: [f64; 8] = [100.0, 101.0, 102.0, 103.0, 104.0, 105.0, 106.0, 107.0];

/// A report that has everything that a report can have.
fn report() -> Report {
    let first = found();
    let second = Found {
        name: "second".to_owned(),
        witness: Witness::No {
            reason: "not wanted".to_owned(),
        },
        ..first.clone()
    };
    let third = Found {
        name: "third".to_owned(),
        failed: Some("make a tap: <none> here".to_owned()),
        ..first.clone()
    };
    Report {
        schema: SCHEMA,
        program: "haltwise-experiments 0.1.0".to_owned(),
        host: Host {
            kernel: "6.18".to_owned(),
            cpus: 2,
        },
        seed: 1,
        elapsed_ns: 120_000_000_000,
        experiments: vec![first, second, third],
    }
}

fn found() -> Found {
    let figure = |name, unit, better| Figure {
        name: Cow::Borrowed(name),
        unit: Cow::Borrowed(unit),
        better,
        what: Cow::Borrowed("what it is"),
    };
    Found {
        name: "made-up".to_owned(),
        title: "a title".to_owned(),
        source: FoundSource {
            document: "A document & its <year>".to_owned(),
            reports: vec!["it is -35 %".to_owned()],
        },
        failed: None,
        rounds: 8,
        block_ns: 250_000_000,
        elapsed_ns: 60_000_000_000,
        figures: vec![
            figure("latency", "us", Better::Less),
            figure("c0", "%", Better::Neither),
        ],
        variants: vec![
            variant("load", "off"),
            variant("load", "on"),
            variant("idle", "off"),
        ],
        effects: effects_of_both_kinds(),
        integrity: vec![check("load", 16, 0), check("", 3, 1), check("idle", 0, 0)],
        limits: vec!["the load is <another>".to_owned()],
        differs: "the machine is another".to_owned(),
        tables: vec![Table {
            title: "Best".to_owned(),
            columns: vec!["load".to_owned(), "best|of all".to_owned()],
            rows: vec![vec!["load".to_owned(), "on".to_owned()]],
        }],
        charts: vec![Chart {
            title: "Poll time against count".to_owned(),
            labels_are: "us polled".to_owned(),
            labels: vec!["0".to_owned(), "10".to_owned()],
            series: vec![
                ("off".to_owned(), vec![7.0, 0.0]),
                ("on".to_owned(), vec![1.0, 14.0]),
            ],
        }],
        notes: vec!["a note".to_owned()],
        witness: Witness::Yes {
            checks: vec![Check {
                what: "halts".to_owned(),
                lab: (7, 9),
                haltwise: 8,
                agrees: true,
            }],
            vcpus: 3,
            lost: 0,
            missing: vec!["exits from the guest: none".to_owned()],
        },
    }
}

fn variant(group: &str, name: &str) -> FoundVariant {
    FoundVariant {
        variant: Variant::new(group, name, "what <it> is"),
        figures: vec![median_estimate(&SAMPLES), None],
        samples: vec![SAMPLES.map(Some).to_vec(), vec![None; 8]],
    }
}

fn check(group: &str, checked: usize, broken: usize) -> FoundIntegrity {
    FoundIntegrity {
        what: "it is whole".to_owned(),
        group: group.to_owned(),
        demanded: "correct = 1".to_owned(),
        checked,
        broken,
        holds: demand(checked, broken),
    }
}

/// Claims, one that was measured and one that could not be; and a construction, whose figure falls to 0.
fn effects_of_both_kinds() -> Vec<FoundEffect> {
    let claim = effects! {
        Claim "a figure with a name that needs more than one line of a narrow column", "latency", "load", ["off", "on"], Less,
            "up to -35 %";
    };
    let effect = FoundEffect {
        effect: claim[0].clone(),
        from_median: Some(103.5),
        to_median: Some(60.0),
        difference: Interval::of(&[-43.0, -44.0, -42.0, -43.5, -42.5, -43.2]),
        ratio: Interval::of(&[0.58, 0.57, 0.6, 0.58, 0.581, 0.579]),
        same_direction: SameDirection::Yes,
    };
    let missing = FoundEffect {
        from_median: None,
        to_median: None,
        difference: None,
        ratio: None,
        same_direction: SameDirection::NotShown,
        ..effect.clone()
    };
    let built = FoundEffect {
        effect: Effect {
            kind: Kind::Construction,
            what: "exits".to_owned(),
            ..claim[0].clone()
        },
        to_median: Some(0.0),
        difference: Interval::of(&[-103.0, -104.0, -102.0, -103.5, -102.5, -103.2]),
        ratio: None,
        ..effect.clone()
    };
    vec![effect, missing, built]
}

#[test]
fn the_markdown_has_whole_tables() {
    let text = markdown(&report());
    let mut columns = None;
    for line in text.lines() {
        if !line.starts_with('|') {
            columns = None;
            continue;
        }
        let cells = line.replace("\\|", "").matches('|').count();
        assert_eq!(*columns.get_or_insert(cells), cells, "{line}");
    }
    assert!(text.contains("| load | best\\|of all |"));
}

#[test]
fn numbers_have_three_digits_or_so() {
    for (value, text) in [
        (12_345.6, "12346"),
        (12.345, "12.3"),
        (1.234, "1.23"),
        (-0.1234, "-0.123"),
        (0.0, "0"),
        (0.0001, "0"),
    ] {
        assert_eq!(number(value), text);
    }
}

#[test]
fn a_report_comes_back_from_its_json() {
    let report = report();
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
}

#[test]
fn the_page_is_as_it_was() {
    let made = markdown(&report());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/findings.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &made).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), made);
}
