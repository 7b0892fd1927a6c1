//! Answers of `haltwise --capture`, against committed texts; its figures against those of `tune` and `report`.

use serde_json::Value;

use super::schema::conforms;
use super::tune::{LOADS, record};
use super::{compare, fits, flat, haltwise, home};

fn check(file: &str, (text, code): (String, Option<i32>)) -> Vec<String> {
    // Commands are for pasting: they stay on their line.
    let is_command = |line: &&str| ["apply: ", "prove: "].iter().any(|it| line.starts_with(it));
    let sentences: Vec<&str> = text.lines().filter(|line| !is_command(line)).collect();
    let fits = fits(file, &sentences.join("\n"));
    let text = text + &format!("(exit code {})\n", code.unwrap());
    let wrong = [compare(file, &text), fits];
    wrong.into_iter().filter_map(Result::err).collect()
}

#[test]
fn answers_are_as_committed() {
    let mut wrong = String::new();
    for name in ["fleet", "over-committed", "no-halts"] {
        let said = haltwise(&home(), &["--capture", &format!("captures/{name}")]);
        wrong.extend(check(&format!("{name}/now.txt"), said));
    }
    let dir = tempfile::tempdir().unwrap();
    for (name, ceiling, gaps) in LOADS {
        record(&dir.path().join(name), ceiling, gaps);
        let said = haltwise(dir.path(), &["--capture", name]);
        // Twenty-four lines at 80 columns, ten of them in tables, are an answer; more is a report.
        assert!(said.0.lines().count() <= 24, "{}", said.0);
        wrong.extend(check(&format!("now/{name}.txt"), said));
        let (json, _) = haltwise(dir.path(), &["--capture", name, "--json"]);
        let json: Value = serde_json::from_str(&json).unwrap();
        conforms("now", &json);
        if name == "in-vain" {
            let json = flat(&json, 0) + "\n";
            wrong.extend(compare("now/in-vain.json", &json).err());
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

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

/// Each command that is offered is one that this program takes.
#[test]
fn commands_that_are_offered_are_understood() {
    let dir = tempfile::tempdir().unwrap();
    let mut offered = 0;
    for (name, ceiling, gaps) in LOADS {
        record(&dir.path().join(name), ceiling, gaps);
        let (text, _) = haltwise(dir.path(), &["--capture", name, "--json"]);
        let now: Value = serde_json::from_str(&text).unwrap();
        for which in ["apply", "prove"] {
            let Some(line) = now[which].as_str() else {
                continue;
            };
            offered += 1;
            let words = line.split(' ').skip(1).filter(|word| *word != "--yes");
            let output = std::process::Command::new(env!("CARGO_BIN_EXE_haltwise"))
                .args(words)
                .arg("--root=/nowhere")
                .output()
                .unwrap();
            // `prove` has no other root, and must not run here: what comes before that word is understood.
            let said = String::from_utf8_lossy(&output.stderr);
            let only_root = said.contains("unexpected argument '--root'");
            assert!(
                output.status.code() != Some(2) || only_root,
                "{line}: {said}"
            );
        }
    }
    assert!(offered >= 2, "no load here has a recommendation");
}
