//! The first screen: the answer that `haltwise` without a verb gives, and what `tune` says besides.

use haltwise_document::{Document, html};

use crate::html::content::Content;
use crate::html::markup::{Element, el};
use crate::now::page;
use crate::recommend::guest::view::GuestTuneResult;
use crate::recommend::view::TuneResult;
use crate::recommend::{Tuned, compare, say};
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
