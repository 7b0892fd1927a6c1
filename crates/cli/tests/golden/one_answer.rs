//! One answer, and one figure for one setting: `tune`, `explain`, `report` and its page say the same of the
//! parameters of a capture.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::tune::{LOADS, record};
use super::{home, ran, scenarios};

/// What a verb says of a capture, if it says anything.
fn said(home: &Path, verb: &[&str], capture: &str) -> Option<Value> {
    let (_, out, _) = ran(home, &[verb, &[capture, "--json"]].concat());
    serde_json::from_str(&out).ok()
}

fn recommended(of: &Value) -> Value {
    let fields = [
        "goal",
        "verdict",
        "changes",
        "follows",
        "reason",
        "in_force",
        "recommended",
    ];
    fields.iter().map(|name| of[name].clone()).collect()
}

/// The figures of a setting, as they are written.
type Figures = [Value; 3];

fn figures(of: &Value) -> Figures {
    ["poll_cpu_percent", "latency_mean_ns", "cost_ns_per_halt"].map(|name| {
        assert!(of[name].is_number(), "{name}: {of}");
        of[name].clone()
    })
}

/// Every setting that is told anywhere, with who says what of it.
#[derive(Default)]
struct Known(BTreeMap<String, Vec<(String, Figures)>>);

impl Known {
    fn add(&mut self, who: &str, setting: &Value, of: &Value) {
        if !setting.is_null() {
            let told = self.0.entry(setting.to_string()).or_default();
            told.push((who.to_owned(), figures(of)));
        }
    }

    fn points(&mut self, who: &str, points: &Value) {
        for point in points.as_array().into_iter().flatten() {
            self.add(who, &point["setting"], point);
        }
    }

    fn tune(&mut self, tuned: &Value) {
        let played = &tuned["played"];
        for row in played["rows"].as_array().into_iter().flatten() {
            let setting = match row["row"].as_str().unwrap() {
                "in-force" => &tuned["in_force"],
                "choice" => &played["choice"],
                _ => continue,
            };
            self.add("tune, rows", setting, &row["figures"]);
        }
        self.points("tune, front", &played["front"]);
    }

    /// What is not the same everywhere.
    fn wrong(&self) -> Vec<String> {
        let differ = self.0.iter().filter(|(_, told)| {
            let (_, first) = &told[0];
            told.iter().any(|(_, other)| other != first)
        });
        differ
            .map(|(setting, told)| format!("{setting}: {told:?}"))
            .collect()
    }
}

/// The data of a capture's page, which its script works on.
fn page(home: &Path, capture: &str) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("page.html");
    let words = ["report", capture, "--html", file.to_str().unwrap()];
    let (code, _, said) = ran(home, &words);
    assert!(matches!(code, 0 | 5), "{said}");
    let html = std::fs::read_to_string(&file).unwrap();
    let (_, data) = html.split_once("id=\"data\">").unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    serde_json::from_str(data).unwrap()
}

fn check(home: &Path, capture: &str) -> Vec<String> {
    let Some(tuned) = said(home, &["tune"], capture) else {
        let explained = said(home, &["explain"], capture).unwrap();
        let reported = said(home, &["report"], capture).unwrap();
        assert!(explained["recommendation"]["why_not"].is_string());
        assert_eq!(explained["recommendation"], reported["recommendation"]);
        return Vec::new();
    };
    let mut known = Known::default();
    known.tune(&tuned);
    for verb in ["explain", "report"] {
        let other = &said(home, &[verb], capture).unwrap()["recommendation"];
        assert_eq!(recommended(other), recommended(&tuned), "{capture}: {verb}");
        let against = &tuned["played"]["against_in_force"];
        let share = against.get("cost_share").cloned().unwrap_or(json!(null));
        assert_eq!(other["cost_share"], share, "{capture}: {verb}");
        known.points(verb, &other["figures"]);
    }
    let page = page(home, capture);
    assert_eq!(
        recommended(&page["recommendation"]),
        recommended(&tuned),
        "{capture}: page"
    );
    known.points("page", &page["recommendation"]["figures"]);
    known.points("page, grid", &page["whatif"]["cells"]);
    let in_force = &page["whatif"]["inForce"];
    known.points("page, in force", &json!([in_force]));
    let wrong = known.wrong().into_iter();
    wrong.map(|text| format!("{capture}: {text}")).collect()
}

#[test]
fn every_verb_gives_one_answer_and_one_figure_for_a_setting() {
    let mut wrong = Vec::new();
    for scenario in scenarios::all() {
        wrong.extend(check(&home(), &format!("captures/{}", scenario.name)));
    }
    let dir = tempfile::tempdir().unwrap();
    for (name, ceiling, gaps) in LOADS {
        record(&dir.path().join(name), ceiling, gaps);
        wrong.extend(check(dir.path(), name));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Of a guest `explain`, `report` and the page have fields of what `tune` says, and no others.
#[test]
fn of_a_guest_every_verb_gives_the_answer_of_tune() {
    let home = home();
    let capture = "recorded/inside";
    let tuned = said(&home, &["tune"], capture).unwrap();
    let reported = said(&home, &["report"], capture).unwrap();
    let short = reported["recommendation"].as_object().unwrap();
    let names: Vec<&str> = short.keys().map(String::as_str).collect();
    for name in ["side", "place", "verdict", "in_force", "recommended"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(!tuned["recommended"].is_null(), "{tuned:#}");
    for (name, value) in short {
        assert_eq!(*value, tuned[name], "{name}");
    }
    let explained = said(&home, &["explain"], capture).unwrap();
    assert_eq!(explained["recommendation"], reported["recommendation"]);
    let page = page(&home, capture);
    assert_eq!(page["recommendation"], reported["recommendation"]);
}
