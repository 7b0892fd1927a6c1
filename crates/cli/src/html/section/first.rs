//! The first screen: the answer that `haltwise` without a verb gives, and what `tune` says besides; and the last one: how
//! far the page can be trusted.

use haltwise_document::{Document, Untrusted, html, prose};

use crate::html::content::Content;
use crate::html::markup::{Element, Markup, el};
use crate::html::section::sampled;
use crate::now::page;
use crate::recommend::basis::rests;
use crate::recommend::guest::view::GuestTuneResult;
use crate::recommend::view::TuneResult;
use crate::recommend::{Tuned, compare, say};
use crate::report::quality::recorded;
use crate::tune::guest::rows;

pub(super) fn first(content: &Content) -> Element {
    let title = if content.report.host.account.halts == 0 {
        "No halt was seen".to_owned()
    } else {
        content.report.recommendation.what()
    };
    let mut document = page::document(&content.answer);
    match &content.tuned {
        Ok(Tuned::Host(made)) => besides(&mut document, &made.view),
        Ok(Tuned::Guest(view)) => in_guest(&mut document, view),
        Err(_) => {}
    }
    el("section")
        .attr("id", "found")
        .attr("aria-labelledby", "found-title")
        .with(el("h1").attr("id", "found-title").with(title))
        .with(html::render(&document))
}

/// Notes of `tune`, the commands without haltwise, and the comparisons that `tune` prints.
fn besides(document: &mut Document, advice: &TuneResult) {
    let of = &advice.recommendation;
    let notes = of.notes.iter().cloned();
    let snapshot = compare::snapshot(advice).map(str::to_owned);
    notes.chain(snapshot).for_each(|note| document.note(note));
    let recommended = of.recommended.unwrap_or(of.in_force);
    if !recommended.beyond(&of.in_force).is_empty() {
        let mut by_hand = Document::new();
        let back = say::commands(&of.in_force.beyond(&recommended));
        for (what, commands) in [("set", &of.commands), ("restore", &back)] {
            for command in commands {
                by_hand.command(what, command);
            }
        }
        document.folded("By hand, without haltwise on that host", by_hand);
    }
    if let Some(played) = &advice.played {
        let mut against = Document::new();
        let texts = [
            Some(compare::in_force(advice, played)),
            compare::default(advice, played),
            compare::distance(played),
            compare::caps(played).map(|text| format!("{}: {text}", compare::CAPS)),
        ];
        let texts = texts.into_iter().flatten();
        texts.for_each(|text| against.prose(text));
        let title = "Against the default, other rules and a ceiling for each VM";
        document.folded(title, against);
    }
}

/// Advice for a guest that recorded itself: the commands, what must be known beside them, and the settings compared.
fn in_guest(document: &mut Document, tuned: &GuestTuneResult) {
    match (tuned.host_commands.split_last(), &tuned.apply) {
        (Some((on_host, in_guest)), _) => {
            for text in in_guest {
                document.command("in the guest", text);
            }
            document.command("then on its host", on_host);
        }
        (None, Some(apply)) => {
            document.command("apply, in the guest", apply);
            document.command("undo", "haltwise undo");
            let line = tuned.command_line.join(" ");
            document.command("or on the guest's kernel command line", line);
        }
        (None, None) => {}
    }
    let notes = tuned.recommendation.notes.iter();
    notes.for_each(|note| document.note(note.clone()));
    document.table(rows(tuned, usize::MAX));
}

/// Lines of one kind that are shown.
const MOST: usize = 20;

pub(super) fn quality(content: &Content) -> Markup {
    let mut document = Document::new();
    document.prose(
        "What could not be observed is shown as unknown, never as zero. An interval holds the true value in 95 of \
         100 such recordings.",
    );
    document.append(recorded(&content.report, MOST));
    let halts = sampled(content);
    let none = || "histograms; the capture has no single halts".to_owned();
    document.fact("in this file", halts.unwrap_or_else(none));
    let made = format!("haltwise {}, from the capture ", env!("CARGO_PKG_VERSION"));
    let made = prose![made, Untrusted::from(&content.dir)];
    document.fact("made by", made);
    // The basis of the recommendation and of the what-if, as `tune` states it.
    if let Some(advice) = content.advice() {
        document.heading("Basis of the recommendation");
        for (what, text) in rests(advice) {
            document.fact(what, text);
        }
    }
    html::render(&document)
}
