//! The what-if: polling against latency for the settings that matter, and a grid of others, all played by core on
//! all halts of the second half of the time. With script, the reader goes through the grid.

use haltwise_core::tune::figures::LEADER;
use haltwise_document::html;

use super::{details, note, p};
use crate::html::chart::{Place, bars, front};
use crate::html::content::Content;
use crate::html::markup::{Element, Markup, el, short};
use crate::recommend::candidates::SettingRow;
use crate::recommend::recommendation::why_not;
use crate::recommend::view::{HaltFigures, PlayedSettings, TuneResult};
use crate::recommend::whatif::WhatIf;
use crate::recommend::{Tuned, say};
use crate::tune::text::{lines, settings_table};

pub(super) fn whatif(content: &Content) -> Option<Markup> {
    let Some((advice, played, grid)) = played(content) else {
        return without_halts(content);
    };
    let text = "What halts would have cost under other settings, replayed with KVM's algorithm on the halts of the \
                second half of the time; the recommendation was evaluated on the same halts. The basis of these \
                figures is under data quality.";
    let beside = format!(
        "With script, every stop of the sliders is one of {} settings that were replayed when this page was \
         made; nothing between them is estimated.",
        grid.grid.cells.len()
    );
    let named = named(content, played);
    let keys = named.iter().map(|place| (place.class, place.name));
    let keys = bars::legend(keys);
    let between = played.front.iter().map(|point| Place {
        class: "front",
        name: "",
        poll_cpu_percent: point.poll_cpu_percent,
        latency_ns: point.latency_mean_ns,
    });
    let places: Vec<Place> = named.into_iter().chain(between).collect();
    let figure = el("figure")
        .with(front(&places))
        .with(el("figcaption").with(
            "Further left costs less CPU, further down wakes sooner. The line connects the \
             Pareto-optimal settings.",
        ))
        .with(keys);
    Some(
        Markup::none()
            .and(p(text))
            .and(
                el("div")
                    .class("lab")
                    .with(figure)
                    .with(el("div").attr("id", "controls").flag("hidden")),
            )
            .and(html::table(&settings_table(&lines(advice), usize::MAX)))
            .and(note(beside))
            .and(rejected(content)),
    )
}

fn played(content: &Content) -> Option<(&TuneResult, &PlayedSettings, &WhatIf)> {
    let advice = content.advice()?;
    let played = advice.played.as_ref()?;
    Some((advice, played, content.whatif.as_ref()?))
}

/// Name of the best setting found: "recommended" only if the advice is to change the setting.
pub(super) fn choice_name(content: &Content) -> &'static str {
    match content.advice() {
        Some(advice) if advice.recommendation.changes => "recommended",
        _ => "best setting found",
    }
}

/// In force, the default, the choice, no polling, the bound, and the rule that learns, which no kernel has.
fn named(content: &Content, played: &PlayedSettings) -> Vec<Place> {
    let choice = choice_name(content);
    let rows = played.rows.iter().map(|row| {
        let (class, name) = match row.row {
            SettingRow::InForce => ("p-force", "in force"),
            SettingRow::Default => ("p-default", "kernel's default"),
            SettingRow::Choice => ("p-choice", choice),
            SettingRow::Off => ("p-off", "no polling"),
            SettingRow::Clairvoyant => ("p-bound", "oracle"),
        };
        place(class, name, &row.figures)
    });
    let best = played.best_policy.iter();
    rows.chain(best.map(|best| place("p-policy", LEADER, &best.figures)))
        .collect()
}

fn place(class: &'static str, name: &'static str, figures: &HaltFigures) -> Place {
    Place {
        class,
        name,
        poll_cpu_percent: figures.poll_cpu_percent,
        latency_ns: figures.latency_mean_ns,
    }
}

fn rejected(content: &Content) -> Option<Element> {
    let played = content.advice()?.played.as_ref()?;
    if played.rejected.is_empty() {
        return None;
    }
    let items = played.rejected.iter().map(|rejected| {
        let text = format!("{}: {}", say::setting(&rejected.setting), rejected.text);
        el("li").with(text)
    });
    Some(details("Rejected candidates", el("ul").with_all(items)))
}

/// A capture of counts, or one that cannot be replayed.
fn without_halts(content: &Content) -> Option<Markup> {
    let text = match &content.tuned {
        Ok(Tuned::Host(made)) if made.view.counted.is_some() => {
            "This capture contains histograms, not single halts (`record --mode` counts or stats): \
             nothing can be replayed here. The recommendation above rests on bounds."
                .to_owned()
        }
        Err(failure) if content.report.host.account.halts > 0 => {
            format!("Replay is not possible: {}.", short(&why_not(failure)))
        }
        _ => return None,
    };
    Some(p(text).into())
}
