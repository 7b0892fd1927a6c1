//! Pages of what declarations say: the output of `--json` of each verb with its JSON Schema, columns, metrics and rules.

use haltwise_capture::table::{Column, Table};
use haltwise_core::explain::{RULES, Rule, in_guest};
use haltwise_document::{Figure, Figures, schema};
use serde_json::Value;

use crate::exporter::figures;
use crate::{
    calibrate, costs, diff, doctor, exits, explain, fleet, integrity, ledger, now, pilot_state,
    profile, proof, recommend, replay, report, top, verify,
};

/// The result of a verb, as it is published.
#[derive(Debug)]
pub(crate) struct Published {
    /// Name of the result, and of its files.
    pub(crate) name: &'static str,
    /// Verb and options that print it with `--json`.
    command: &'static str,
    /// Text of the page before its tables.
    about: &'static [&'static str],
    figures: &'static [Figure],
}

type About = &'static [&'static str];

const fn of<R: Figures>(name: &'static str, command: &'static str, about: About) -> Published {
    Published {
        name,
        command,
        about,
        figures: R::FIGURES,
    }
}

pub(crate) const ALL: [Published; 20] = {
    use calibrate::page::{ABOUT, CALIBRATION};
    use integrity::{CHECK, CheckedCapture, REPAIR, RepairedCapture};
    use recommend::{guest, view as tune};
    [
        of::<now::view::Answer>("now", "--capture DIR", now::view::ABOUT),
        of::<report::view::Report>("report", "report", report::view::ABOUT),
        of::<doctor::view::Diagnosis>("doctor", "status --check", doctor::view::ABOUT),
        of::<exits::view::ExitsResult>("exits", "report --exits", exits::view::ABOUT),
        of::<profile::view::ProfileResult>("profile", "report --profile", profile::view::ABOUT),
        of::<explain::view::Explanation>("explain", "report --findings", explain::view::ABOUT),
        of::<diff::view::Differences>("diff", "diff", diff::view::ABOUT),
        of::<verify::view::Verified>("verify", "verify", verify::view::ABOUT),
        of::<replay::view::Replay>("replay", "tune --policy", replay::view::ABOUT),
        of::<tune::TuneResult>("tune", "tune", tune::ABOUT),
        of::<guest::view::GuestTuneResult>("tune-guest", "tune", guest::view::ABOUT),
        of::<costs::view::CostsResult>("costs", "fleet add", costs::view::ABOUT),
        of::<fleet::view::FleetResult>("fleet", "fleet show", fleet::view::ABOUT),
        Published {
            name: "calibrate",
            command: "calibrate",
            about: ABOUT,
            figures: CALIBRATION,
        },
        of::<proof::Proof>("prove", "prove", proof::ABOUT),
        of::<ledger::Ledger>("ledger", "prove --history", ledger::ABOUT),
        of::<pilot_state::PilotStatus>("pilot", "pilot", pilot_state::ABOUT),
        of::<top::view::Interval>("top", "top", top::view::ABOUT),
        of::<CheckedCapture>("check", "check", CHECK),
        of::<RepairedCapture>("repair", "check --repair", REPAIR),
    ]
};

impl Published {
    pub(crate) fn page(&self) -> String {
        let Self { name, command, .. } = self;
        let opening = format!(
            "`haltwise {command} --json` prints one object. This page and [the JSON Schema]({name}.schema.json) are made \
             from the program's declarations. A field may be added without a new number; a field that changes its \
             meaning or goes away gets the next number in `schema`."
        );
        let title = &format!("JSON of `haltwise {command}`");
        schema::page(title, &opening, self.about, self.figures)
    }

    pub(crate) fn schema(&self) -> Value {
        schema::json_schema(self.command, self.figures)
    }
}

/// Names of the files, and their texts.
pub(super) fn formats() -> [(&'static str, String); 4] {
    let tables = Table::ALL.map(|table| columns(table.as_str(), table.columns()));
    let capture =
        "# Columns of a capture\n\n[The capture](capture-format.md) says what a row is.\n";
    let sums =
        "# Columns of a costs table\n\n[Costs tables](costs-format.md) says what a row is.\n";
    let list = "# List of rules\n\n[Rules](rules.md) says how a finding is judged.\n";
    let rules = rules("Hosts", RULES) + &rules("Guests", in_guest::RULES);
    [
        ("capture-columns.md", capture.to_owned() + &tables.concat()),
        (
            "costs-columns.md",
            sums.to_owned() + &columns("Columns", haltwise_capture::costs::COLUMNS),
        ),
        ("metrics-list.md", figures::page()),
        ("rules-list.md", list.to_owned() + &rules),
    ]
}

fn columns(title: &str, columns: &[Column]) -> String {
    let rows = columns.iter().map(|column| {
        let null = column.null.unwrap_or("never");
        let (name, kind, meaning) = (column.name, column.kind.as_str(), column.meaning);
        format!("| `{name}` | {kind} | {null} | {meaning} |\n")
    });
    let head = "| column | type | NULL | meaning |\n| --- | --- | --- | --- |";
    format!("\n## {title}\n\n{head}\n{}", rows.collect::<String>())
}

fn rules(title: &str, rules: &[Rule]) -> String {
    let rows = rules.iter().map(|rule| {
        let Rule {
            id, title, source, ..
        } = rule;
        format!("| `{id}` | {title} | {source} |\n")
    });
    let head = "| rule | finds | source |\n| --- | --- | --- |";
    format!("\n## {title}\n\n{head}\n{}", rows.collect::<String>())
}
