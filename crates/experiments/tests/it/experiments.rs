//! The program, and its page in docs.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use haltwise_experiments::experiment::found::Report;
use haltwise_experiments::experiment::judge::SameDirection;
use haltwise_experiments::experiment::registry::EXPERIMENTS;
use haltwise_experiments::experiment::witness::Witness;
use haltwise_experiments::experiment::{Table, verdicts};
use haltwise_experiments::render;
use serde_json::Value;

use crate::program::{kvm, program};

fn quoted(text: &str) -> BTreeSet<String> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.map(str::to_owned).collect()
}

fn keys(json: &Value, found: &mut BTreeSet<String>) {
    match json {
        Value::Array(items) => items.iter().for_each(|item| keys(item, found)),
        Value::Object(fields) => {
            for (key, value) in fields {
                found.insert(key.clone());
                keys(value, found);
            }
        }
        _ => {}
    }
}

/// One round of an experiment, longer where a busy host left a block too short for its own checks.
fn one_round(name: &str) -> (Value, Report) {
    let is_decided = |(_, report): &(Value, Report)| {
        let checks = report.experiments[0].integrity.split_last();
        checks.is_some_and(|(_, own)| own.iter().all(|it| it.holds.as_str() != "not shown"))
    };
    let first = one_round_of(name, "1s");
    ["4s", "16s"].into_iter().fold(first, |round, budget| {
        if is_decided(&round) {
            round
        } else {
            one_round_of(name, budget)
        }
    })
}

fn one_round_of(name: &str, budget: &str) -> (Value, Report) {
    let output = program(&format!(
        "{name} --rounds 1 --budget {budget} --no-haltwise --json"
    ));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {error}");
    let json = serde_json::from_slice(&output.stdout).expect("JSON");
    let report = serde_json::from_slice(&output.stdout).expect("a report");
    (json, report)
}

#[test]
fn every_experiment_runs_and_the_page_describes_what_it_prints() {
    let Some(()) = kvm() else { return };
    let page = include_str!("../../../../docs/lab-experiments-json.md");
    let described = quoted(page);
    for experiment in EXPERIMENTS {
        let (json, report) = one_round(experiment.name);
        let found = &report.experiments[0];
        assert_eq!((found.name.as_str(), found.rounds), (experiment.name, 1));
        assert_eq!(found.variants.len(), (experiment.variants)().len());
        let mut printed = BTreeSet::new();
        keys(&json, &mut printed);
        let missing: Vec<_> = printed.difference(&described).collect();
        assert!(
            missing.is_empty(),
            "{}: not described: {missing:?}",
            found.name
        );
        for effect in &found.effects {
            assert_eq!(effect.same_direction.as_str(), "not shown", "of one round");
        }
        // A value that has to be so has to be so in the first round, too; there is no recording.
        let (counted, own) = found.integrity.split_last().expect("at least one");
        assert_eq!(counted.holds.as_str(), "not shown");
        for check in own {
            assert_eq!(check.holds.as_str(), "yes", "{}: {check:?}", found.name);
        }
    }
}

#[test]
fn every_field_of_the_page_exists() {
    let page = include_str!("../../../../docs/lab-experiments-json.md");
    let source = include_str!("../../src/experiment/found.rs").to_owned()
        + include_str!("../../src/experiment/witness.rs")
        + include_str!("../../src/experiment/results.rs")
        + include_str!("../../src/experiment.rs");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    for name in rows
        .filter_map(|line| line.split('|').nth(1))
        .flat_map(quoted)
    {
        let field = format!(" {name}: ");
        let tag = format!("tag = \"{name}\"");
        assert!(
            source.contains(&field) || source.contains(&tag),
            "`{name}` is nowhere"
        );
    }
}

#[test]
fn the_list_names_every_experiment_and_the_help_gives_examples() {
    let list = String::from_utf8(program("").stdout).unwrap();
    let names = list.lines().filter_map(|line| line.split(' ').next());
    assert!(names.eq(EXPERIMENTS.iter().map(|it| it.name)), "{list}");
    let all = String::from_utf8(program("--verbose").stdout).unwrap();
    assert!(
        EXPERIMENTS
            .iter()
            .all(|it| all.contains(it.source.document)),
        "{all}"
    );
    let help = String::from_utf8(program("--help").stdout).unwrap();
    assert_eq!(help, include_str!("../golden/help.txt"));
}

#[test]
fn what_is_no_experiment_is_a_usage_error() {
    for args in ["linux", "all --read x", "all --verbose"] {
        assert_eq!(program(args).status.code(), Some(2), "{args}");
    }
    let missing = program("--read /nonexistent/run.json");
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("`/nonexistent/run.json`"));
}

#[test]
fn what_was_printed_is_read_back_in_every_form() {
    let Some(()) = kvm() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json");
    let first = EXPERIMENTS[0].name;
    let (json, report) = one_round(first);
    std::fs::write(&file, json.to_string()).unwrap();
    let read = |more: &str| program(&format!("--read {} {more}", file.display()));
    let page = render::markdown(&report);
    let again: Report = serde_json::from_slice(&read("--json").stdout).unwrap();
    assert_eq!(render::markdown(&again), page);
    assert_eq!(String::from_utf8(read("").stdout).unwrap(), page);
    let newer = json.to_string().replacen("\"schema\":1", "\"schema\":2", 1);
    std::fs::write(&file, newer).unwrap();
    let refused = read("--json");
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("schema 2"));
}

/// The newest run of all experiments that was kept, if there is one, as it was printed.
fn newest_run(root: &Path) -> Option<Vec<u8>> {
    let folders = std::fs::read_dir(root.join("measurements")).ok()?.flatten();
    let paths = folders.map(|folder| folder.path().join("run.json.gz"));
    let kept = paths.filter(|path| path.is_file());
    // On one day, the second run is called -2, the tenth -10.
    let newest = kept.max_by_key(|path| {
        let name = path.parent().and_then(Path::file_name).unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        let day: String = name.chars().take(10).collect();
        (day, name.len(), name)
    });
    let unpacked = Command::new("gzip").arg("-dc").arg(newest?).output().ok()?;
    unpacked.status.success().then_some(unpacked.stdout)
}

/// The newest kept run, judged by this version.
fn kept_run() -> Option<Report> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let report = serde_json::from_slice(&newest_run(&root)?).expect("a run");
    Some(verdicts::judge(report))
}

/// Cases that no kept run has: an experiment that failed, one that was not recorded, a check that broke, a claim that
/// could not be measured, an effect on a figure that falls to 0, and text that would break a table.
#[test]
fn a_page_says_what_failed_what_broke_and_what_is_missing() {
    let mut report = kept_run().expect("the repository keeps a run");
    let [first, second, ..] = &mut report.experiments[..] else {
        panic!("a kept run has all experiments");
    };
    first.failed = Some("make a tap: <none> here".to_owned());
    second.witness = Witness::No {
        reason: "not wanted".to_owned(),
    };
    let counted = second.integrity.last_mut().expect("haltwise counted");
    (counted.checked, counted.broken) = (3, 1);
    second.effects[0].from_median = None;
    second.effects[2].same_direction = SameDirection::NotShown;
    second.tables = vec![Table {
        title: "Best".to_owned(),
        columns: vec!["load".to_owned(), "best|of all".to_owned()],
        rows: vec![vec!["load".to_owned(), "on".to_owned()]],
    }];
    let in_percent = render::markdown(&report);
    let ratio = report.experiments[1].effects[1].ratio.take();
    let percent = format!(
        "{:+.0} % (",
        100.0 * (ratio.expect("measured").estimate - 1.0)
    );
    let page = render::markdown(&report);
    let json = serde_json::to_string(&report).expect("JSON");
    let again: Report = serde_json::from_str(&json).expect("a report");
    assert_eq!(render::markdown(&again), page);
    for text in [
        "It could not be done: make a tap: <none> here.",
        "not recorded by haltwise: not wanted",
        "broken in 1 of 3",
        "could not be measured",
        "| load | best\\|of all |",
        " % would be |",
    ] {
        assert!(page.contains(text), "{text}");
    }
    // No change in % of a figure that falls to 0: in its unit.
    let lines = in_percent.lines().zip(page.lines());
    let changed: Vec<_> = lines.filter(|(before, after)| before != after).collect();
    let is_gone =
        |(before, after): &(&str, &str)| before.contains(&percent) && !after.contains(&percent);
    assert!(
        !changed.is_empty() && changed.iter().all(is_gone),
        "{changed:?}"
    );
    let mut columns = None;
    for line in page.lines() {
        let cells = line.replace("\\|", "").matches('|').count();
        columns = line.starts_with('|').then(|| columns.unwrap_or(cells));
        assert!(columns.is_none_or(|columns| columns == cells), "{line}");
    }
}

#[test]
fn the_readme_counts_as_the_page_does() {
    let Some(report) = kept_run() else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let readme = words(&std::fs::read_to_string(root.join("README.md")).expect("README.md"));
    for line in render::counts(&report) {
        assert!(readme.contains(&line), "README.md does not say: {line}");
    }
}

#[test]
fn the_page_of_findings_is_made_of_the_newest_run_that_was_kept() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/experiments.md"));
    let run = newest_run(&root).expect("the repository keeps a run");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json");
    std::fs::write(&file, run).unwrap();
    let made = program(&format!("--read {}", file.display()));
    assert!(made.status.success());
    let made = String::from_utf8(made.stdout).unwrap();
    assert!(
        page.is_ok_and(|page| page == made),
        "docs/experiments.md is not what the newest run makes: write it by `haltwise-experiments --read`"
    );
}
