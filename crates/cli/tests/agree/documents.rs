//! All JSON documents of one capture, and the data in its page, compared: a figure with one meaning has one
//! value, no share exceeds its whole, no part its sum. `cargo xtask kernels --linux-guest` includes this file
//! too.
//!
//! Each verb has a function that says what its document tells of whom; figures of the same name and owner
//! must be equal wherever they are told. The laws below hold within each document.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Documents about a capture, and the commands that print them; `exits` where it holds some.
pub(crate) const DOCUMENTS: [(&str, &[&str]); 6] = [
    ("report", &["report"]),
    ("top", &["top", "--once"]),
    ("explain", &["report", "--findings"]),
    ("exits", &["report", "--exits"]),
    ("replay", &["tune", "--policy", "usual"]),
    ("tune", &["tune"]),
];

/// Two sums of floating-point numbers in another order differ by less than this part.
const NEAR: f64 = 1e-9;

#[derive(Debug, Default)]
struct Documents {
    by_verb: BTreeMap<&'static str, Value>,
    /// Subject and name of a figure: where it was printed, and its value.
    told: BTreeMap<(String, String), Vec<(String, f64)>>,
    wrong: Vec<String>,
}

type Error = Box<dyn std::error::Error>;

/// Output of a verb; `None` if the verb cannot process the capture, which it reports on stderr.
fn said(command: &mut Command) -> Result<Option<Vec<u8>>, Error> {
    let output = command.output()?;
    // 5: told with losses, or damaged beyond reading.
    let told = matches!(output.status.code(), Some(0 | 5));
    Ok(told.then_some(output.stdout))
}

/// The data of the capture's page, which its script works on.
pub(crate) fn page(haltwise: &Path, capture: &Path) -> Result<Option<Value>, Error> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("page.html");
    let mut command = Command::new(haltwise);
    command.args(["report", "--html"]).arg(&file).arg(capture);
    if said(&mut command)?.is_none() || !file.exists() {
        return Ok(None);
    }
    let html = std::fs::read_to_string(&file)?;
    let data = html.split_once("id=\"data\">").map(|(_, data)| data);
    let data = data.and_then(|data| data.split_once("</script>"));
    let (data, _) = data.ok_or("no data in it")?;
    Ok(Some(serde_json::from_str(data)?))
}

pub(crate) fn contradictions(haltwise: &Path, capture: &Path) -> Vec<String> {
    Documents::of(haltwise, capture).judge()
}

impl Documents {
    fn of(haltwise: &Path, capture: &Path) -> Self {
        let mut documents = Self::default();
        for (name, words) in DOCUMENTS {
            let mut command = Command::new(haltwise);
            command.args(words).arg("--json").arg(capture);
            let said = said(&mut command).and_then(|said| match said {
                Some(text) if !text.is_empty() => Ok(Some(serde_json::from_slice(&text)?)),
                _ => Ok(None),
            });
            documents.keep(name, said);
        }
        documents.keep("page", page(haltwise, capture));
        documents
    }

    fn keep(&mut self, verb: &'static str, said: Result<Option<Value>, Error>) {
        match said {
            Ok(document) => self
                .by_verb
                .extend(document.map(|document| (verb, document))),
            Err(error) => self.wrong.push(format!("{verb}: {error}")),
        }
    }

    #[cfg(test)]
    fn from(documents: Vec<(&'static str, Value)>) -> Self {
        Self {
            by_verb: documents.into_iter().collect(),
            ..Self::default()
        }
    }

    fn judge(mut self) -> Vec<String> {
        for verb in ["report", "top"] {
            if !self.by_verb.contains_key(verb) {
                self.wrong.push(format!("{verb} has no document"));
            }
        }
        let documents = std::mem::take(&mut self.by_verb);
        for (verb, document) in &documents {
            match *verb {
                "report" => self.report(document),
                "top" => self.top(document),
                "explain" => self.explain(document),
                "exits" => self.exits(document),
                "replay" => self.replay(document, &documents),
                "tune" => self.tune(document),
                "page" => self.page(document),
                _ => {}
            }
            self.recommended(verb, document);
            self.recommended(verb, &document["recommendation"]);
            self.settings(verb, &document["recommendation"]["figures"]);
        }
        for ((who, figure), told) in &self.told {
            let (first, value) = &told[0];
            for (other, another) in &told[1..] {
                // A setting is evaluated by one function: its figures are the same to the last digit.
                let is_same = if who.starts_with("setting ") {
                    value.to_bits() == another.to_bits()
                } else {
                    is_near(*value, *another)
                };
                if !is_same {
                    let text = format!("{who} {figure}: {first} {value}, {other} {another}");
                    self.wrong.push(text);
                }
            }
        }
        self.wrong
    }

    /// A figure that may be told elsewhere; nothing where it is null.
    fn tell(&mut self, verb: &str, who: &str, figure: &str, value: &Value) {
        if let Some(value) = value.as_f64() {
            let key = (who.to_owned(), figure.to_owned());
            self.told
                .entry(key)
                .or_default()
                .push((verb.to_owned(), value));
        }
    }

    /// Figures of a record, each by its name.
    fn tell_each(&mut self, verb: &str, who: &str, record: &Value, figures: &[&str]) {
        for figure in figures {
            self.tell(verb, who, figure, &record[*figure]);
        }
    }

    /// Figures of the records within one that an account and a line of `top` have.
    fn tell_groups(&mut self, verb: &str, who: &str, record: &Value) {
        for group in ["parts", "wakes", "wake_latency_ns"] {
            for (name, value) in fields(&record[group]) {
                self.tell(verb, who, &format!("{group}.{name}"), value);
            }
        }
    }

    /// A module parameter, as its file has it.
    fn tell_ceiling(&mut self, verb: &str, text: Option<&str>) {
        if let Some(value) = text.and_then(|text| text.trim().parse::<u64>().ok()) {
            self.tell(verb, "host", "halt_poll_ns", &value.into());
        }
    }

    fn at_most(&mut self, what: &str, part: f64, whole: f64) {
        if part > whole && !is_near(part, whole) {
            self.wrong.push(format!("{what}: {part} of {whole}"));
        }
    }

    fn equal(&mut self, what: &str, one: f64, other: f64) {
        if !is_near(one, other) {
            self.wrong.push(format!("{what}: {one} and {other}"));
        }
    }

    fn report(&mut self, document: &Value) {
        let recording = &document["recording"];
        self.tell_each("report", "recording", recording, &["duration_ns", "lost"]);
        self.tell_each("report", "host", &document["host"], &OF_HOST);
        let host = &document["host"]["account"];
        self.account("host", host);
        let mut sums = BTreeMap::<&str, f64>::new();
        for vm in items(&document["vms"]) {
            let who = format!("vm {}", vm["index"]);
            self.account(&who, &vm["account"]);
            if vm["not_observable"].is_null() {
                self.tell("report", &who, "listed", &1.into());
            }
            for vcpu in items(&vm["vcpus"]) {
                self.account(&format!("{who} vcpu {}", vcpu["id"]), &vcpu["account"]);
            }
            let accounts = items(&vm["vcpus"]).map(|vcpu| &vcpu["account"]);
            let of_vcpus: f64 = accounts.map(|account| number(&account["halts"])).sum();
            let [halts, span_ns] = ["halts", "span_ns"].map(|it| number(&vm["account"][it]));
            for (what, part, whole) in [
                ("halts of vCPUs", of_vcpus, halts),
                ("presence", span_ns, number(&recording["duration_ns"])),
                ("paused", number(&vm["paused_ns"]), span_ns),
            ] {
                self.at_most(&format!("{who}: {what}"), part, whole);
            }
            for figure in SUMS {
                *sums.entry(figure).or_default() += number(&vm["account"][figure]);
            }
        }
        for (figure, of_vms) in sums {
            let all = of_vms + number(&document["unplaced"][figure]);
            let what = format!("{figure} of all VMs and of the host");
            self.equal(&what, all, number(&host[figure]));
        }
        let knobs = items(&document["host"]["knobs"]);
        for knob in knobs.filter(|it| it["name"] == "halt_poll_ns" && it["scope"] == "host") {
            self.tell_ceiling("report", knob["value"].as_str());
        }
    }

    fn account(&mut self, who: &str, account: &Value) {
        let figures = ["halts", "halts_per_s", "waits", "span_ns"];
        self.tell_each("report", who, account, &figures);
        let poll = &account["poll"];
        if !poll["ns"].is_null() {
            for (figure, value) in [
                ("polled", &poll["polled"]),
                ("successful_polls", &poll["successful"]),
                ("useful_cpu_percent", &poll["useful_cpu_percent"]),
                ("wasted_cpu_percent", &poll["wasted_cpu_percent"]),
                ("poll_ns", &poll["ns"]),
            ] {
                self.tell("report", who, figure, value);
            }
        }
        self.tell_groups("report", who, account);
        self.account_laws(who, account);
    }

    fn account_laws(&mut self, who: &str, account: &Value) {
        let of = |name: &str| number(&account[name]);
        let (halts, halted_ns) = (of("halts"), of("halted_ns"));
        let sum = |group: &Value| fields(group).map(|(_, value)| number(value)).sum::<f64>();
        let poll = &account["poll"];
        let polled = |name: &str| number(&poll[name]);
        let available_percent = 100.0 * of("vcpus").max(1.0);
        for (what, part, whole) in [
            ("halted share", of("halted_share"), 1.0),
            ("waits", of("waits"), halts),
            ("known polls", polled("known"), halts),
            ("polled", polled("polled"), polled("known")),
            ("successful", polled("successful"), polled("polled")),
            ("cut", polled("cut"), polled("polled")),
            ("polled time", polled("ns"), halted_ns),
            ("polled of a CPU", polled("cpu_percent"), available_percent),
        ] {
            self.at_most(&format!("{who}: {what}"), part, whole);
        }
        self.equal(&format!("{who}: parts"), sum(&account["parts"]), halted_ns);
        self.equal(&format!("{who}: wakes"), sum(&account["wakes"]), halts);
        let parts = polled("useful_cpu_percent") + polled("wasted_cpu_percent");
        let what = format!("{who}: polls in two parts");
        if poll["wasted_cpu_percent"].is_null() {
            self.at_most(&what, parts, polled("cpu_percent"));
        } else {
            self.equal(&what, parts, polled("cpu_percent"));
        }
        let seconds = of("span_ns") / 1e9;
        self.equal(
            &format!("{who}: rate"),
            of("halts_per_s") * seconds,
            halts * f64::from(seconds > 0.0),
        );
        for (name, share) in fields(&account["unknown"]) {
            self.at_most(&format!("{who}: unknown {name}"), number(share), 1.0);
        }
        for name in ["gap_histogram", "wake_latency_histogram"] {
            let count = items(&account[name]).map(|row| number(&row["count"])).sum();
            self.at_most(&format!("{who}: {name}"), count, halts);
        }
    }

    fn top(&mut self, document: &Value) {
        self.tell("top", "recording", "duration_ns", &document["span_ns"]);
        self.tell("top", "recording", "lost", &document["lost_in_all"]);
        self.tell_each("top", "host", &document["host"], &OF_HOST);
        self.tell_ceiling("top", document["knobs"]["halt_poll_ns"].as_str());
        self.figures("host", &document["total"]);
        for vm in items(&document["vms"]) {
            let who = format!("vm {}", vm["index"]);
            self.figures(&who, vm);
            if vm["not_observable"].is_null() {
                self.tell("top", &who, "listed", &1.into());
            }
            for vcpu in items(&vm["vcpus"]) {
                self.figures(&format!("{who} vcpu {}", vcpu["id"]), vcpu);
            }
        }
        let exits = &document["total"]["exits"];
        let counted = match exits["counts"].as_str() {
            Some("exits") => "exits",
            _ => "emulations",
        };
        self.tell("top", "exits", counted, &exits["count"]);
        self.tell("top", "exits", &format!("{counted}_per_s"), &exits["per_s"]);
    }

    fn figures(&mut self, who: &str, figures: &Value) {
        self.tell_each("top", who, figures, &OF_HALTS);
        self.tell_groups("top", who, figures);
    }

    fn explain(&mut self, document: &Value) {
        let recording = &document["recording"];
        self.tell_each("explain", "recording", recording, &["duration_ns", "lost"]);
        let halts = number(&recording["halts"]) + number(&recording["unplaced"]);
        self.tell("explain", "host", "halts", &halts.into());
    }

    fn exits(&mut self, document: &Value) {
        let recording = &document["recording"];
        self.tell_each("exits", "recording", recording, &["duration_ns", "lost"]);
        let total = &document["total"];
        let seconds = number(&recording["counted_ns"]) / 1e9;
        let exits = number(&total["exits"]) + number(&total["other"]);
        let counted = if exits > 0.0 {
            exits
        } else {
            number(&total["emulations"])
        };
        let name = if exits > 0.0 { "exits" } else { "emulations" };
        self.tell("exits", "exits", name, &counted.into());
        if seconds > 0.0 {
            let per_s = counted / seconds;
            self.tell("exits", "exits", &format!("{name}_per_s"), &per_s.into());
        }
        let rows = || items(&document["reasons"]);
        let of_halts = rows().filter(|row| row["is_halt"] == true);
        let time_ns = of_halts.map(|row| number(&row["time_ns"])).sum();
        let halted: f64 = fields(&document["halted"]).map(|(_, ns)| number(ns)).sum();
        self.at_most("exits: halted time of exits on HLT", halted, time_ns);
        let shares = rows().map(|row| number(&row["share"])).sum();
        self.at_most("exits: shares of all reasons", shares, 1.0);
        for row in rows().chain(items(&document["userspace"])) {
            let what = format!("exits: {}", row["name"]);
            let of = |name: &str| number(&row[name]);
            let (time_ns, parts_ns) = (of("time_ns"), of("kernel_ns") + of("user_ns"));
            self.at_most(&format!("{what}: host's time"), of("host_ns"), time_ns);
            self.equal(&format!("{what}: time"), parts_ns, time_ns);
            let counted = of("per_second") * seconds;
            self.equal(&format!("{what}: rate"), counted, of("count"));
        }
    }

    /// Replay plays halts that are in order and whose guests did not switch polling off.
    fn replay(&mut self, document: &Value, all: &BTreeMap<&'static str, Value>) {
        let host = &document["host"];
        let basis = &document["basis"];
        let groups = items(&document["vms"]).map(|group| ("a VM", group));
        for (who, group) in groups.chain([("the host", host)]) {
            self.row(
                &format!("replay: {who}, recorded"),
                group,
                &group["recorded"],
            );
            for played in items(&group["played"]) {
                let name = format!("replay: {who}, {}", played["policy"]);
                self.row(&name, group, &played["from_zero"]);
                self.row(&name, group, &played["from_ceiling"]);
            }
        }
        let untouched = ["out_of_order", "vetoed_vcpus"];
        if untouched.iter().any(|name| number(&basis[*name]) > 0.0) {
            return;
        }
        self.played("host", host);
        self.tell("replay", "host", "poll_ns", &host["recorded"]["poll_ns"]);
        let Some(report) = all.get("report") else {
            return;
        };
        for group in items(&document["vms"]) {
            let vms = items(&report["vms"]);
            let mut same =
                vms.filter(|vm| vm["pid"] == group["pid"] && vm["name"] == group["name"]);
            if let (Some(vm), None, true) = (same.next(), same.next(), group["vcpu"].is_null()) {
                self.played(&format!("vm {}", vm["index"]), group);
            }
        }
    }

    fn played(&mut self, who: &str, group: &Value) {
        self.tell("replay", who, "halts", &group["halts"]);
        self.tell("replay", who, "waits", &group["recorded"]["blocks"]);
    }

    fn row(&mut self, who: &str, group: &Value, row: &Value) {
        let of = |name: &str| number(&row[name]);
        for (what, part, whole) in [
            ("polls", of("polls"), number(&group["halts"])),
            ("successful polls", of("successful_polls"), of("polls")),
            ("blocks", of("blocks"), number(&group["halts"])),
            ("failed polls", of("poll_fail_ns"), of("poll_ns")),
            ("awake", of("awake_percent"), 100.0),
            ("unknown polls", of("poll_unknown"), number(&group["halts"])),
        ] {
            self.at_most(&format!("{who}: {what}"), part, whole);
        }
    }

    fn tune(&mut self, document: &Value) {
        let played = &document["played"];
        for row in items(&played["rows"]) {
            let setting = match row["row"].as_str() {
                Some("in-force") => &document["in_force"],
                Some("choice") => &played["choice"],
                _ => continue,
            };
            self.setting("tune", setting, &row["figures"]);
        }
        self.settings("tune", &played["front"]);
    }

    /// The data of the page: how long it was, of how many halts, and the grid of settings.
    fn page(&mut self, document: &Value) {
        self.tell("page", "recording", "duration_ns", &document["span"]);
        let sample = &document["sample"];
        self.tell("page", "host", "halts", &sample["of"]);
        let kept = number(&sample["halts"]);
        self.at_most("page: halts in the file", kept, number(&sample["of"]));
        let of_seats = items(&sample["seats"]).map(|seat| number(&seat["count"]));
        let of_seats = of_seats.sum();
        self.equal("page: halts in the file, of all vCPUs", of_seats, kept);
        let grid = &document["whatif"];
        self.settings("page", &grid["cells"]);
        self.setting("page", &grid["inForce"]["setting"], &grid["inForce"]);
    }

    fn settings(&mut self, verb: &str, rows: &Value) {
        for row in items(rows) {
            self.setting(verb, &row["setting"], row);
        }
    }

    fn setting(&mut self, verb: &str, setting: &Value, figures: &Value) {
        if setting.is_null() {
            return;
        }
        let names = ["poll_cpu_percent", "latency_mean_ns", "cost_ns_per_halt"];
        if names.iter().any(|name| !figures[*name].is_number()) {
            self.wrong
                .push(format!("{verb}: setting {setting} lacks a figure"));
        }
        self.tell_each(verb, &format!("setting {setting}"), figures, &names);
    }

    fn recommended(&mut self, verb: &str, document: &Value) {
        for field in ["recommended", "in_force"] {
            if let Some(ceiling) = document[field].get("halt_poll_ns") {
                self.tell(verb, "host", &format!("{field} ceiling"), ceiling);
            }
        }
    }
}

/// Figures of a host that `report` and `top` have.
const OF_HOST: [&str; 3] = ["cpus", "busy_cpus", "cpu_pressure"];

/// Figures of halts that a line of `top` has.
const OF_HALTS: [&str; 7] = [
    "halts",
    "halts_per_s",
    "waits",
    "polled",
    "successful_polls",
    "useful_cpu_percent",
    "wasted_cpu_percent",
];

/// Figures of VMs that add up to the host's.
const SUMS: [&str; 3] = ["halts", "waits", "halted_ns"];

/// A number; 0 where it is null or not there.
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() <= NEAR * one.abs().max(other.abs()).max(1.0)
}

#[cfg(test)]
mod test {
    use serde_json::json;

    use super::*;

    fn account(halts: u64, halted_ns: u64, share: f64) -> Value {
        json!({
            "span_ns": 1_000_000_000, "vcpus": 1, "halts": halts, "halts_per_s": halts, "waits": 0,
            "halted_ns": halted_ns, "halted_share": share, "parts": { "sleep_ns": halted_ns },
            "poll": { "known": halts, "polled": 0, "successful": 0, "ns": 0 },
            "wakes": { "timer": halts },
        })
    }

    fn judged(of_report: &Value, halts_of_top: u64) -> Vec<String> {
        let report = json!({
            "recording": { "duration_ns": 1_000_000_000, "lost": 0 },
            "host": { "account": of_report },
            "vms": [{ "index": 0, "account": of_report, "vcpus": [] }],
        });
        let top = json!({
            "span_ns": 1_000_000_000, "lost_in_all": 0, "total": { "halts": halts_of_top },
            "vms": [{ "index": 0 }],
        });
        Documents::from(vec![("report", report), ("top", top)]).judge()
    }

    #[test]
    fn what_contradicts_is_found_and_nothing_else() {
        let none: [&str; 0] = [];
        assert_eq!(judged(&account(5, 100, 0.5), 5), none);
        let other = judged(&account(5, 100, 0.5), 6);
        assert_eq!(other, ["host halts: report 5, top 6"]);
        let share = judged(&account(5, 100, 1.17), 5);
        assert!(share[0].contains("halted share: 1.17 of 1"), "{share:?}");
        let absent = Documents::from(Vec::new()).judge();
        assert_eq!(absent, ["report has no document", "top has no document"]);
    }

    #[test]
    fn another_figure_of_a_setting_is_found() {
        let of = |ns: f64| {
            let setting = json!({ "halt_poll_ns": 50_000 });
            json!([{
                "setting": setting, "poll_cpu_percent": 1, "latency_mean_ns": 1, "cost_ns_per_halt": ns
            }])
        };
        let mut documents = Documents::from(vec![
            ("page", json!({ "whatif": { "cells": of(2.0) } })),
            (
                "report",
                json!({ "recommendation": { "figures": of(3.0) } }),
            ),
            ("top", json!({})),
        ]);
        documents
            .by_verb
            .insert("tune", json!({ "played": { "front": of(2.0) } }));
        let wrong = documents.judge();
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].contains("50000"), "{wrong:?}");
        assert!(wrong[0].contains("page 2, report 3"), "{wrong:?}");
    }
}
