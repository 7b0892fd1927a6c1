//! The what-if: polling against latency for the settings that matter, and a grid of others, all played by core on
//! all halts of the second half of the time. With script, the reader goes through the grid.

use haltwise_core::parameter::{Parameter, Values};
use haltwise_core::tune::candidates::Reach;
use haltwise_core::tune::figures::LEADER;
use haltwise_document::Unit;

use super::table::{Table, cell, number};
use super::{details, note, p};
use crate::html::chart::front::{Place, front};
use crate::html::content::Content;
use crate::html::markup::{Element, Markup, el, short};
use crate::number::{count, nanos, nanos_f64, share, three_digits};
use crate::prices::words;
use crate::recommend::candidates::SettingRow;
use crate::recommend::say;
use crate::recommend::view::{BestPolicy, HaltFigures, PlayedSettings, TuneResult, settings};
use crate::recommend::whatif::WhatIf;

pub(super) fn whatif(content: &Content) -> Option<Markup> {
    let Some((advice, played, grid)) = played(content) else {
        return without_halts(content);
    };
    let basis = &advice.basis;
    let text = format!(
        "What halts would have cost under other settings, replayed with KVM's algorithm on all {} \
         halts of the second half of the time: the time until the wake event stays the same, and the \
         window decides how long to poll. The recommendation was evaluated on the same halts.",
        count(basis.judged_halts)
    );
    let weight = format!(
        "Cost of a halt: its polling, {} for each sleep (two task switches, {}), and its wake-up latency \
         with the weight of the goal, here {}.",
        nanos(basis.model.switch_cpu_ns),
        words::source(basis.model.switch_cpu_source),
        three_digits(advice.goal.lambda),
    );
    let beside = format!(
        "With script, every stop of the sliders is one of {} settings that were replayed when this page was \
         made; nothing between them is estimated.",
        grid.grid.cells.len()
    );
    let rows = rows(content, advice, played, grid);
    let between = played.front.iter().map(|point| Place {
        class: "front",
        name: "",
        poll_cpu_percent: point.poll_cpu_percent,
        latency_ns: point.latency_mean_ns,
    });
    let places = rows.iter().map(|row| row.place).chain(between);
    let places: Vec<Place> = places.collect();
    let figure = el("figure")
        .with(front(&places))
        .with(el("figcaption").with(
            "Further left costs less CPU, further down wakes sooner. The line connects the \
             Pareto-optimal settings.",
        ));
    Some(
        Markup::none()
            .and(p(text))
            .and(
                el("div")
                    .class("lab")
                    .with(figure)
                    .with(el("div").attr("id", "controls").flag("hidden")),
            )
            .and(table(&rows))
            .and(note(weight))
            .and(note(beside))
            .and(rejected(content)),
    )
}

fn played(content: &Content) -> Option<(&TuneResult, &PlayedSettings, &WhatIf)> {
    let advice = content.advice.as_ref().ok()?;
    let played = advice.played.as_ref()?;
    Some((advice, played, content.whatif.as_ref()?))
}

/// Name of the best setting found: "recommended" only if the advice is to change the setting.
pub(super) fn choice_name(content: &Content) -> &'static str {
    match &content.advice {
        Ok(advice) if advice.changes => "recommended",
        _ => "best setting found",
    }
}

/// A setting or the bound, as figure and table have it.
struct Shown {
    place: Place,
    title: &'static str,
    parameters: String,
    figures: HaltFigures,
}

/// In force, the default, the choice, no polling, the bound, the rule that learns.
fn rows(
    content: &Content,
    advice: &TuneResult,
    played: &PlayedSettings,
    grid: &WhatIf,
) -> Vec<Shown> {
    let reach: Reach = grid.reach;
    let choice = choice_name(content);
    let said = |setting: &Values| say::setting(setting);
    let mut rows: Vec<Shown> = Vec::new();
    for row in &played.rows {
        let (class, name, title, parameters) = match row.row {
            SettingRow::InForce => ("p-force", "in force", "in force", said(&advice.in_force)),
            SettingRow::Default => (
                "p-default",
                "kernel's default",
                "kernel's default",
                said(&settings(&grid.default, reach)),
            ),
            SettingRow::Choice => {
                let setting = played.choice.as_ref().map_or_else(String::new, said);
                ("p-choice", choice, choice, setting)
            }
            SettingRow::Off => {
                let off = Values::default().with(Parameter::HaltPollNs, 0);
                let off = say::played(&off, row.figures.poll_cpu_percent);
                ("p-off", "no polling", "no polling", off)
            }
            SettingRow::Clairvoyant => (
                "p-bound",
                "oracle",
                "oracle: knows each gap in advance; a lower bound, not a setting",
                "-".to_owned(),
            ),
        };
        rows.push(Shown {
            place: Place {
                class,
                name,
                poll_cpu_percent: row.figures.poll_cpu_percent,
                latency_ns: row.figures.latency_mean_ns,
            },
            title,
            parameters,
            figures: row.figures.clone(),
        });
    }
    rows.extend(played.best_policy.as_ref().map(leader));
    rows
}

fn leader(best: &BestPolicy) -> Shown {
    Shown {
        place: Place {
            class: "p-policy",
            name: LEADER,
            poll_cpu_percent: best.figures.poll_cpu_percent,
            latency_ns: best.figures.latency_mean_ns,
        },
        title: "leader: a rule that learns, which no kernel has; not a setting",
        parameters: "-".to_owned(),
        figures: best.figures.clone(),
    }
}

fn table(rows: &[Shown]) -> Element {
    let mut table = Table::new(
        "Settings on the second half of the time",
        [
            (Unit::Word, "setting"),
            (Unit::Word, "parameters"),
            (Unit::Number, "polling, of a CPU"),
            (Unit::Number, "sleeps/s"),
            (Unit::Number, "late by, mean"),
            (Unit::Number, "late by, p99"),
            (Unit::Number, "cost of a halt"),
        ],
    );
    for row in rows {
        let sign = el("svg")
            .class("sign")
            .attr("viewBox", "0 0 16 16")
            .attr("aria-hidden", "true")
            .with(
                el("circle")
                    .attr("class", format!("key {}", row.place.class))
                    .attr("cx", 8)
                    .attr("cy", 8)
                    .attr("r", 6),
            );
        let of = &row.figures;
        table.row(vec![
            cell(Markup::from(sign).and(row.title)),
            cell(row.parameters.clone()),
            number(of.poll_cpu_percent, share(of.poll_cpu_percent / 100.0)),
            number(of.blocks_per_s, crate::number::scaled(of.blocks_per_s)),
            number(of.latency_mean_ns, nanos_f64(of.latency_mean_ns)),
            number(of.latency_p99_ns as f64, nanos(of.latency_p99_ns)),
            number(of.cost_ns_per_halt, nanos_f64(of.cost_ns_per_halt)),
        ]);
    }
    table.finish()
}

fn rejected(content: &Content) -> Option<Element> {
    let played = content.advice.as_ref().ok()?.played.as_ref()?;
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
    let text = match &content.advice {
        Ok(advice) if advice.counted.is_some() => {
            "This capture contains histograms, not single halts (`record --mode` counts or stats): \
             nothing can be replayed here. The recommendation above rests on bounds."
                .to_owned()
        }
        Err(why) if content.report.host.account.halts > 0 && content.in_guest.is_none() => {
            format!("Replay is not possible: {}.", short(why))
        }
        _ => return None,
    };
    Some(p(text).into())
}
