//! Figures of `haltwise --capture` against those of `tune` and `report`.

use serde_json::Value;

use super::haltwise;
use super::tune::{LOADS, record};

#[test]
fn an_answer_has_the_figures_of_tune_and_report() {
    let dir = tempfile::tempdir().unwrap();
    for (name, ceiling, gaps) in LOADS {
        record(&dir.path().join(name), ceiling, gaps);
        let said = |verb| -> Value {
            let (text, _) = haltwise(dir.path(), &[verb, name, "--json"]);
            serde_json::from_str(&text).unwrap()
        };
        let (now, tuned, reported) = (said("--capture"), said("tune"), said("report"));
        assert_eq!(now["verdict"], tuned["verdict"], "{name}");
        assert_eq!(
            now["apply"].is_null(),
            tuned["commands"] == Value::Array(vec![])
        );
        assert_eq!(
            now["poll_cpu_percent"],
            reported["host"]["account"]["poll"]["cpu_percent"]
        );
        let rows = tuned["played"]["rows"].as_array().unwrap();
        let settings = now["settings"].as_array().unwrap();
        assert!(!settings.is_empty(), "{name}");
        for setting in settings {
            let is_off = setting["setting"] == "off";
            let row = match setting["which"].as_str().unwrap() {
                "current" => "in-force",
                _ if is_off => "off",
                _ => "choice",
            };
            let figures = rows.iter().find(|it| it["row"] == row).unwrap();
            let figures = &figures["figures"];
            assert_eq!(
                setting["poll_cpu_percent"], figures["poll_cpu_percent"],
                "{name}, {row}"
            );
            assert_eq!(
                setting["latency_p99_ns"], figures["latency_p99_ns"],
                "{name}, {row}"
            );
            let mean = figures["latency_mean_ns"].as_f64().unwrap();
            let ours = setting["latency_mean_ns"].as_f64().unwrap();
            assert!(
                (mean - ours).abs() <= 0.5,
                "{name}, {row}: {mean} and {ours}"
            );
            let ends =
                ["latency_mean_low_ns", "latency_mean_high_ns"].map(|end| setting[end].as_f64());
            if let [Some(low), Some(high)] = ends {
                assert!(
                    low <= ours + 1.0 && ours <= high + 1.0,
                    "{name}, {row}: {ends:?}"
                );
            }
        }
    }
}
