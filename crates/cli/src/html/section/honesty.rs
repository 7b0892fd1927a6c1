//! How far the page can be trusted: rung, losses, what cannot be seen, what was assumed, what recording
//! cost, and who made it. Always there, in the same place.

use super::{p, sampled};
use crate::html::content::Content;
use crate::html::markup::{Markup, el, name, prose, short};
use crate::number::nanos;
use crate::recommend::rests::rests;
use crate::report::honest::{accuracy, cost, lost, partly};
use crate::report::view::Report;

/// Lines of one kind that are shown.
const MOST: usize = 20;

/// The section.
pub(super) fn honesty(content: &Content) -> Markup {
    let report = &content.report;
    let mut rows = Markup::none();
    let mut say = |what: &str, said: Markup| {
        rows.push(el("dt").with(what));
        rows.push(el("dd").with(said));
    };
    say("recorded by", recorder(report));
    say("lost", lost(report, MOST, &short).into());
    if report.recording.cut {
        let text = "the recording was not finished (killed, or still running); everything written so \
                    far is included";
        say("cut", text.into());
    }
    for note in report.recording.notes.iter().take(MOST) {
        say("note", short(note).into());
    }
    say("not observable", not_observable(report));
    say("missing", missing(report));
    say("in this file", in_this_file(content).into());
    say("recording cost", cost(report).into());
    let text = format!(
        "{}; an interval holds the true value in 95 of 100 such recordings",
        accuracy(report.recording.mode)
    );
    say("accuracy", text.into());
    let made = format!("haltwise {}, from the capture ", env!("CARGO_PKG_VERSION"));
    say("made by", Markup::text(&made).and(name(&content.dir)));
    let text = "What could not be observed is shown as unknown, never as zero.";
    Markup::none()
        .and(p(text))
        .and(el("dl").class("honest").with(rows))
        .and(rests_on(content))
}

fn recorder(report: &Report) -> Markup {
    let recording = &report.recording;
    let text = format!(
        ", source {}, mode {}, {}",
        recording.rung,
        recording.mode,
        nanos(recording.duration_ns),
    );
    let mut out = name(&recording.recorder).and(text);
    if let Some(utc) = &recording.started_utc {
        out.push(" from ");
        out.push(super::time(utc));
    }
    out
}

fn not_observable(report: &Report) -> Markup {
    let blind = report
        .vms
        .iter()
        .filter_map(|vm| Some((vm, vm.not_observable.as_ref()?)));
    let mut blind = blind.peekable();
    if blind.peek().is_none() {
        return "none".into();
    }
    let items = blind.take(MOST).map(|(vm, reason)| {
        el("li")
            .with(name(&vm.name))
            .with(format!(": {}", short(reason)))
    });
    el("ul").with_all(items).into()
}

fn missing(report: &Report) -> Markup {
    let missing = &report.recording.missing;
    if missing.is_empty() {
        return partly(&report.host.account.unknown).into();
    }
    let items = missing.iter().take(MOST).map(|missing| {
        el("li").with(format!(
            "{}: {}",
            short(&missing.field),
            short(&missing.reason)
        ))
    });
    el("ul").with_all(items).into()
}

/// What the recommendation and the what-if rest on, as `tune` says it.
fn rests_on(content: &Content) -> Markup {
    let Ok(advice) = &content.advice else {
        return Markup::none();
    };
    let rows = rests(&advice.tuned).into_iter().map(|(what, text)| {
        let what = el("dt").with(what);
        Markup::from(what).and(el("dd").with(prose(&text)))
    });
    let title = el("h3").with("Basis of the recommendation");
    Markup::from(title).and(el("dl").class("honest").with_all(rows))
}

fn in_this_file(content: &Content) -> String {
    let Some(sampled) = &content.sampled else {
        return "histograms; the capture has no single halts".to_owned();
    };
    let halts = sampled_text(content);
    if sampled.is_whole() {
        return halts;
    }
    format!(
        "{halts}, whole stretches of time spread evenly over the recording; accounts, distributions, \
         the recommendation and the settings beside it are of all halts"
    )
}

fn sampled_text(content: &Content) -> String {
    sampled(content).unwrap_or_default()
}
