//! Output of `--json` of each verb: a page of its fields and a JSON Schema, from the declarations of its result.

use haltwise_document::{Figure, Figures, markdown, schema};
use serde_json::Value;

use crate::{
    calibrate, costs, diff, doctor, exits, explain, fleet, integrity, ledger, now, pilot_state,
    profile, proof, recommend, replay, report, top, verify,
};

/// The result of a verb, as it is published.
#[derive(Debug)]
pub(crate) struct Published {
    /// The verb; `tune-guest` for `tune` of a guest's capture.
    pub(crate) name: &'static str,
    title: &'static str,
    /// Text of the page before its tables.
    about: &'static [&'static str],
    figures: &'static [Figure],
}

type About = &'static [&'static str];

const fn of<R: Figures>(name: &'static str, title: &'static str, about: About) -> Published {
    Published {
        name,
        title,
        about,
        figures: R::FIGURES,
    }
}

pub(crate) const ALL: [Published; 20] = {
    use calibrate::figures::{ABOUT, CALIBRATION};
    use integrity::view::{CHECK, CheckedCapture, REPAIR, RepairedCapture};
    use recommend::{guest, view as tune};
    [
        of::<now::view::Answer>("now", "The answer as JSON", now::view::ABOUT),
        of::<report::view::Report>("report", "The report as JSON", report::view::ABOUT),
        of::<doctor::view::Diagnosis>("doctor", "The diagnosis as JSON", doctor::view::ABOUT),
        of::<exits::view::ExitsResult>("exits", "Exits as JSON", exits::view::ABOUT),
        of::<profile::view::ProfileResult>("profile", "Hot spots as JSON", profile::view::ABOUT),
        of::<explain::view::Explanation>("explain", "Findings as JSON", explain::view::ABOUT),
        of::<diff::view::Differences>("diff", "Differences as JSON", diff::view::ABOUT),
        of::<verify::view::Verified>(
            "verify",
            "The result of verify as JSON",
            verify::view::ABOUT,
        ),
        of::<replay::view::Replay>("replay", "The replay as JSON", replay::view::ABOUT),
        of::<tune::TuneResult>("tune", "The recommendation as JSON", tune::ABOUT),
        of::<guest::view::GuestTuneResult>(
            "tune-guest",
            "The recommendation for a guest as JSON",
            guest::view::ABOUT,
        ),
        of::<costs::view::CostsResult>("costs", "Costs as JSON", costs::view::ABOUT),
        of::<fleet::view::FleetResult>("fleet", "A fleet as JSON", fleet::view::ABOUT),
        Published {
            name: "calibrate",
            title: "A calibration as JSON",
            about: ABOUT,
            figures: CALIBRATION,
        },
        of::<proof::Proof>("prove", "A comparison as JSON", proof::ABOUT),
        of::<ledger::Ledger>("ledger", "The ledger as JSON", ledger::ABOUT),
        of::<pilot_state::PilotStatus>("pilot", "The pilot's state as JSON", pilot_state::ABOUT),
        of::<top::view::Interval>("top", "Intervals as JSON", top::view::ABOUT),
        of::<CheckedCapture>("check", "A checked capture as JSON", CHECK),
        of::<RepairedCapture>("repair", "A repaired capture as JSON", REPAIR),
    ]
};

impl Published {
    pub(crate) fn page(&self) -> String {
        let Self { name, title, .. } = self;
        let opening = format!(
            "`haltwise {name} --json` prints one object. This page and [the JSON Schema]({name}.schema.json) are made \
             from the program's declarations. A field may be added without a new number; a field that changes its \
             meaning or goes away gets the next number in `schema`."
        );
        markdown::page(title, &opening, self.about, self.figures)
    }

    pub(crate) fn schema(&self) -> Value {
        schema::json_schema(self.title, self.figures)
    }
}
