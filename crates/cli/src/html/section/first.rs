//! The first screen: what was found and what to do, in two or three sentences, the figures that matter,
//! the commands, and the numbers behind each word.

mod in_guest;
mod words;

use haltwise_core::replay::GoalName;
use haltwise_document::{Unit, html};

use self::words::{LinkedNumber, Words};
use super::table::{Table, cell};
use super::{command, details, note, p};
use crate::html::content::Content;
use crate::html::markup::{Element, Markup, el};
use crate::recommend::view::TuneResult;
use crate::recommend::{compare, say};
use crate::tune::text::goals_table;

pub(super) fn first(content: &Content) -> Element {
    let Words {
        title,
        sentences,
        told,
    } = words::words(content);
    let lead = sentences
        .into_iter()
        .fold(el("p").class("lead"), |lead, sentence| {
            lead.with(sentence).with(" ")
        });
    let mut section = el("section")
        .attr("id", "found")
        .attr("aria-labelledby", "found-title")
        .with(el("h1").attr("id", "found-title").with(title))
        .with(lead);
    if let Ok(advice) = &content.advice {
        section = section.with(to_do(advice));
        for text in &advice.notes {
            section = section.with(note(text));
        }
        section = section.with(other_goals(advice)).with(others(advice));
    }
    let section = section.with(content.in_guest.as_ref().map(in_guest::to_do));
    section.with(behind(&told))
}

/// The setting as commands, and how to take it back.
fn to_do(tuned: &TuneResult) -> Option<Markup> {
    let recommended = tuned.recommended?;
    let changes = recommended.beyond(&tuned.in_force);
    if changes.is_empty() {
        return None;
    }
    let back = tuned.in_force.beyond(&recommended);
    let by_hand = el("div")
        .class("two")
        .with(el("div").with(p("Set it:")).with(command(&tuned.commands)))
        .with(
            el("div")
                .with(p("Restore it:"))
                .with(command(&say::commands(&back))),
        );
    let mut out = Markup::none().and(
        el("div")
            .class("two do")
            .with(
                el("div")
                    .with(el("h2").with("Apply it"))
                    .with(command(&[say::apply(&changes)]))
                    .with(p("Journaled first; then running VMs are watched, and it is shown to which the change applies.")),
            )
            .with(
                el("div")
                    .with(el("h2").with("Undo it"))
                    .with(command(&["haltwise undo".to_owned()]))
                    .with(p("Works after a crash or a boot too. `haltwise prove` measures both in turn.")),
            ),
    );
    if let Some(text) = compare::snapshot(tuned) {
        out.push(note(text));
    }
    out.push(details("By hand, without haltwise on that host", by_hand));
    Some(out)
}

/// Best settings if CPU, or latency, counted for more.
fn other_goals(advice: &TuneResult) -> Option<Element> {
    let played = advice.played.as_ref()?;
    let table = html::table(&goals_table(&played.goals, &advice.goal));
    let weights = GoalName::ALL.map(|goal| {
        let ns = goal.weight_milli() as f64 / 1e3;
        format!("{ns} ns of CPU for {}", goal.as_str())
    });
    let weights = format!("A nanosecond of latency counts as {}.", weights.join(", "));
    let body = Markup::from(table).and(p(weights));
    Some(details("If CPU, or latency, matters more", body))
}

/// Comparisons of the recommendation: with the kernel's default, other rules, and a ceiling for each VM.
fn others(advice: &TuneResult) -> Option<Element> {
    let played = advice.played.as_ref()?;
    let texts = [
        Some(compare::in_force(advice, played)),
        compare::default(advice, played),
        compare::distance(played),
    ];
    let texts = texts.into_iter().flatten().map(p);
    let caps = compare::caps(played).map(|text| el("p").with(format!("{}: {text}", compare::CAPS)));
    let texts: Markup = texts.chain(caps).collect();
    Some(details(
        "Against the default, other rules and a ceiling for each VM",
        texts,
    ))
}

/// Every number of the sentences, with what it is and where it comes from.
fn behind(told: &[LinkedNumber]) -> Option<Element> {
    let mut table = Table::new(
        "The numbers behind these words",
        [
            (Unit::Word, "number"),
            (Unit::Word, "what it is"),
            (Unit::Word, "where it is from"),
        ],
    );
    for told in told {
        let link = el("a")
            .attr("href", format!("#{}", told.place))
            .with(told.whence.clone());
        table.named_row(
            format!("n-{}", told.id),
            vec![
                cell(told.value.clone()),
                cell(told.what.clone()),
                cell(link),
            ],
        );
    }
    let made = details("The numbers behind these words", table.finish());
    (!told.is_empty()).then(|| made.attr("id", "numbers"))
}
