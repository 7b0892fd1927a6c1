//! What if: polling against latency for the settings that matter, as core plays them on the halts in the
//! file. With script, the reader sets any other and sees at once where it stands.

use super::table::{Is, Table, cell, number};
use super::{details, note, p, sampled};
use crate::html::chart::front::{Place, front};
use crate::html::content::Content;
use crate::html::markup::{Element, Markup, el, short};
use crate::html::sample::playable::{Playable, Point, Which};
use crate::number::{nanos, nanos_f64, share, three_digits};
use crate::replay::costs::Source;
use crate::replay::words;
use crate::tune::say;
use crate::tune::view::settings;

/// The section.
pub(super) fn whatif(content: &Content) -> Option<Markup> {
    let Some((playable, halts)) = playable(content) else {
        return without_halts(content);
    };
    let text = format!(
        "What these halts would have cost under other settings, replayed by KVM's own rule on {halts}: \
         each keeps the time until its wake event, and the window decides anew how long to poll."
    );
    let beside = "The recommendation above was chosen on half of all halts and judged on the other half; \
                figures here are of the halts in this file.";
    let cost = &playable.cost;
    let weight = format!(
        "Cost of a halt: its polling, {} for each sleep (two task switches, {}), and its wake-up latency \
         with the weight of the goal, here {}.",
        nanos(cost.switch_cpu_ns),
        switch_source(content),
        three_digits(cost.latency_weight_milli as f64 / 1e3),
    );
    let places: Vec<Place> = playable
        .points
        .iter()
        .map(|point| place(content, playable, point))
        .collect();
    let figure = el("figure")
        .with(front(&places))
        .with(el("figcaption").with(
        "Further left costs less CPU, further down wakes sooner. The line is what no other setting \
             that was looked at beats in both.",
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
            .and(table(content, playable))
            .and(note(weight))
            .and(note(beside))
            .and(rejected(content)),
    )
}

/// What is replayed, and on how many halts.
fn playable(content: &Content) -> Option<(&Playable, String)> {
    let sampled_halts = sampled(content)?;
    let playable = content.sampled.as_ref()?.playable.as_ref()?;
    Some((playable, sampled_halts))
}

fn switch_source(content: &Content) -> &'static str {
    let advice = content.advice.as_ref();
    let source = advice.map_or(Source::Assumed, |advice| {
        advice.tuned.basis.switch_cpu_source
    });
    words::source(source)
}

/// What came out best is recommended, unless it is not better enough.
pub(super) fn choice_name(content: &Content) -> &'static str {
    match &content.advice {
        Ok(advice) if advice.tuned.changes => "recommended",
        _ => "best that was found",
    }
}

/// A point as the figure has it.
fn place(content: &Content, playable: &Playable, point: &Point) -> Place {
    let (class, name) = match point.which {
        Which::InForce => ("p-force", "in force"),
        Which::Default => ("p-default", "kernel's default"),
        Which::Choice => ("p-choice", choice_name(content)),
        Which::Off => ("p-off", "no polling"),
        Which::Clairvoyant => ("p-bound", "clairvoyant"),
        Which::Front => ("front", ""),
    };
    Place {
        class,
        name: name.to_owned(),
        poll_cpu_percent: playable.material.judged_wall.poll_cpu_percent(&point.sums),
        latency_ns: point.sums.latency_mean_ns(),
    }
}

fn table(content: &Content, playable: &Playable) -> Element {
    let mut table = Table::new(
        "Settings on the halts in this file",
        &[
            (Is::Text, "setting"),
            (Is::Text, "parameters"),
            (Is::Number, "polling, of a CPU"),
            (Is::Number, "sleeps/s"),
            (Is::Number, "late by, mean"),
            (Is::Number, "late by, p99"),
            (Is::Number, "cost of a halt"),
        ],
    );
    let wall = &playable.material.judged_wall;
    for point in playable
        .points
        .iter()
        .filter(|point| point.which != Which::Front)
    {
        let (class, title) = match point.which {
            Which::InForce => ("key p-force", "in force"),
            Which::Default => ("key p-default", "kernel's default"),
            Which::Choice => ("key p-choice", choice_name(content)),
            Which::Off => ("key p-off", "no polling"),
            _ => (
                "key p-bound",
                "clairvoyant: knows each gap beforehand; a bound, no setting",
            ),
        };
        let sign = el("svg")
            .class("sign")
            .attr("viewBox", "0 0 16 16")
            .attr("aria-hidden", "true")
            .with(
                el("circle")
                    .class(class)
                    .attr("cx", 8)
                    .attr("cy", 8)
                    .attr("r", 6),
            );
        let parameters = point.knobs.map_or_else(
            || "-".to_owned(),
            |knobs| say::setting(&settings(&knobs, playable.reach)),
        );
        let polls = wall.poll_cpu_percent(&point.sums);
        let sleeps = point.sums.blocks as f64 / (wall.under(&point.sums) / 1e9);
        let cost = point.sums.cost_per_halt_ns(&playable.cost);
        table.row(vec![
            cell(Markup::from(sign).and(title)),
            cell(parameters),
            number(polls, share(polls / 100.0)),
            number(sleeps, crate::number::scaled(sleeps)),
            number(
                point.sums.latency_mean_ns(),
                nanos_f64(point.sums.latency_mean_ns()),
            ),
            number(point.latency_p99_ns as f64, nanos(point.latency_p99_ns)),
            number(cost, nanos_f64(cost)),
        ]);
    }
    table.finish()
}

/// What looked better and was not taken.
fn rejected(content: &Content) -> Option<Element> {
    let played = content.advice.as_ref().ok()?.tuned.played.as_ref()?;
    if played.rejected.is_empty() {
        return None;
    }
    let items = played.rejected.iter().map(|rejected| {
        let text = format!("{}: {}", say::setting(&rejected.setting), rejected.text);
        el("li").with(text)
    });
    Some(details(
        "What looked better and was not taken",
        el("ul").with_all(items),
    ))
}

/// A capture of counts, or one that nobody can replay.
fn without_halts(content: &Content) -> Option<Markup> {
    let text = match &content.advice {
        Ok(advice) if advice.tuned.counted.is_some() => {
            "This capture holds histograms and no single halts (`record --mode` counts or stats): nothing can be \
             replayed here. The recommendation above rests on bounds."
                .to_owned()
        }
        Err(why) if content.report.host.account.halts > 0 => format!("Nothing can be replayed: {}.", short(why)),
        _ => return None,
    };
    Some(p(text).into())
}
