//! What replay had predicted beside what was measured: a proof, and how good predictions have been.

use haltwise_core::prove::figure::Unit;
use haltwise_core::prove::predict::Prediction;
use haltwise_document::{Document, html};
use serde_json::json;

use super::table::{Is, Table, cell};
use super::{note, p};
use crate::html::chart::bars::interval;
use crate::html::content::Content;
use crate::html::markup::{Markup, el, name, short};
use crate::ledger::page::accuracy;
use crate::ledger::summary::Summary;
use crate::proof::{Proof, figure};
use crate::prove::text::{not_judged, verdict};
use crate::words::plural;

/// The section. `None` without proof and ledger.
pub(super) fn prediction(content: &Content) -> Option<Markup> {
    let proof = content.proof.as_ref().map(proof);
    let ledger = content
        .ledger
        .as_ref()
        .filter(|ledger| ledger.predictions + ledger.inconclusive.predictions > 0)
        .map(ledger);
    if proof.is_none() && ledger.is_none() {
        return None;
    }
    Some(Markup::none().and(proof).and(ledger))
}

fn proof(view: &Proof) -> Markup {
    let which = Markup::text("A is ")
        .and(name(&view.a.spec))
        .and(", B is ")
        .and(name(&view.b.spec))
        .and(format!(
            "; measured in {} of three blocks in random order, with a second A as the control.",
            plural(view.design.rounds, "round")
        ));
    let mut out = Markup::none()
        .and(p(verdict(view)).class("lead"))
        .and(el("p").with(which));
    let mut table = Table::new(
        "Measured",
        &[
            (Is::Text, "figure"),
            (Is::Number, "A"),
            (Is::Number, "B"),
            (Is::Number, "B - A"),
            (Is::Number, "interval"),
            (Is::Bar, "about zero"),
            (Is::Text, "more than the noise"),
        ],
    );
    for one in &view.figures {
        let it = &one.comparison;
        let reach = it
            .effect
            .low
            .abs()
            .max(it.effect.high.abs())
            .max(it.noise.reach());
        table.row(vec![
            cell(figure::name(it.figure)),
            cell(figure::value(one.unit, it.a)),
            cell(figure::value(one.unit, it.b)),
            cell(figure::difference(one.unit, it.effect.estimate)),
            cell(figure::span(one.unit, it.effect.low, it.effect.high)),
            cell(interval(&json!([
                it.effect.estimate,
                it.effect.low,
                it.effect.high,
                reach
            ]))),
            cell(if one.differs { "yes" } else { "no" }),
        ]);
    }
    out.push(table.finish());
    out.push(predicted(view));
    for text in &view.predictions.notes {
        out.push(note(short(text)));
    }
    out
}

fn predicted(view: &Proof) -> Markup {
    let told = &view.predictions;
    let all: Vec<(&str, &Prediction)> = (told.of_b.iter().map(|one| ("B from A", one)))
        .chain(told.of_a.iter().map(|one| ("A from B", one)))
        .collect();
    if all.is_empty() {
        return p("No prediction was made.").into();
    }
    let mut table = Table::new(
        "Prediction by replay",
        &[
            (Is::Text, "figure"),
            (Is::Text, "which"),
            (Is::Number, "predicted"),
            (Is::Number, "measured"),
            (Is::Number, "off by"),
            (Is::Text, "within its interval"),
        ],
    );
    for (which, one) in &all {
        let unit: Unit = one.figure.unit();
        table.row(vec![
            cell(figure::name(one.figure)),
            cell(*which),
            cell(figure::value(unit, one.predicted)),
            cell(figure::value(unit, one.measured)),
            cell(figure::difference(unit, one.predicted - one.measured)),
            cell(if one.within { "yes" } else { "no" }),
        ]);
    }
    let within = all.iter().filter(|(_, one)| one.within).count();
    let text = format!(
        "{within} of {} measured differences fell within the predicted interval, widened by the noise.",
        all.len()
    );
    let apart = not_judged(view).map(p);
    Markup::none().and(table.finish()).and(p(text)).and(apart)
}

fn ledger(summary: &Summary) -> Markup {
    let mut document = Document::new();
    document.heading("The ledger");
    accuracy(&mut document, summary);
    html::render(&document)
}
