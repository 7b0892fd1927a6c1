//! Every experiment of the lab, recorded by haltwise while it runs: both count the same.

use std::process::Command;

use serde_json::Value;

use crate::bench::{Bench, haltwise, told};

/// Counts that two cross-checks have of any experiment, however it halts.
const ALWAYS: [&str; 5] = [
    "halts that waited",
    "polls",
    "polls that succeeded",
    "ns polled with success",
    "ns of failed polls",
];

#[test]
#[ignore = "long: make test-long"]
fn haltwise_and_the_lab_count_every_experiment_alike() {
    let Some(_bench) = Bench::set_up() else {
        return;
    };
    let output = Command::new(haltwise().with_file_name("haltwise-experiments"))
        .args(["all", "--rounds", "1", "--budget", "1s", "--json"])
        .arg("--haltwise")
        .arg(haltwise())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", told(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let experiments = report["experiments"].as_array().unwrap();
    assert!(experiments.len() >= 5);
    for experiment in experiments {
        let name = experiment["name"].as_str().unwrap();
        let witness = &experiment["witness"];
        assert_eq!(witness["recorded"], "yes", "{name}: {witness}");
        assert_eq!(witness["lost"], 0, "{name}");
        let checks = witness["checks"].as_array().unwrap();
        for check in checks {
            assert_eq!(check["agrees"], true, "{name}: {check}");
        }
        let has = |what: &str| checks.iter().any(|check| check["what"] == what);
        assert!(ALWAYS.iter().all(|what| has(what)), "{name}: {witness}");
        let exits = |check: &&Value| {
            check["what"]
                .as_str()
                .unwrap()
                .starts_with("exits to the VMM")
        };
        let counted = checks
            .iter()
            .filter(exits)
            .map(|check| check["haltwise"].as_u64().unwrap());
        assert!(
            counted.sum::<u64>() > 0,
            "{name}: every guest ends by an exit"
        );
    }
}
