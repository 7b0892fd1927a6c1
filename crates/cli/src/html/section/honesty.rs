//! How far the page can be trusted: rung, losses, what cannot be seen, what was assumed, what recording
//! cost, and who made it. Always there, in the same place.

use super::{p, sampled};
use crate::html::content::Content;
use crate::html::markup::{Markup, el, name, prose, short};
use crate::number::{nanos, percent};
use crate::report::honest::{accuracy, cost, lost, partly};
use crate::report::view::Report;
use crate::tune::view::Basis;
use crate::words::plural;

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
        let text = "the recording did not end by itself; everything written until then is here";
        say("cut", text.into());
    }
    for note in report.recording.notes.iter().take(MOST) {
        say("note", short(note).into());
    }
    say("not observable", not_observable(report));
    say("missing", missing(report));
    for text in assumed(content) {
        say("assumed", prose(&text));
    }
    say("in this file", in_this_file(content).into());
    say("recording cost", cost(report).into());
    let text = format!(
        "{}; an interval holds the true value in 95 of 100 such recordings",
        accuracy(report.recording.mode)
    );
    say("accuracy", text.into());
    let made = format!("haltwise {}, from the capture ", env!("CARGO_PKG_VERSION"));
    say("made by", Markup::text(&made).and(name(&content.dir)));
    let text = "What could not be seen is said to be unknown; no figure counts it as nothing.";
    Markup::none()
        .and(p(text))
        .and(el("dl").class("honest").with(rows))
}

fn recorder(report: &Report) -> Markup {
    let recording = &report.recording;
    let text = format!(
        ", rung {}, mode {}, {}",
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
        return "none of the VMs that were found".into();
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

/// What a recommendation and the what-if rest on that the capture does not tell.
fn assumed(content: &Content) -> Vec<String> {
    let Ok(advice) = &content.advice else {
        return Vec::new();
    };
    let basis = &advice.tuned.basis;
    let mut said = Vec::new();
    if !basis.knobs_assumed.is_empty() {
        said.push(format!(
            "{}: not told by the capture, taken as Linux {} has them by itself",
            basis.knobs_assumed.join(", "),
            basis.kernel
        ));
    }
    if basis.switch_cpu_source == crate::replay::costs::Source::Assumed {
        said.push(format!(
            "a sleep costs {} of CPU: half of what the shortest sleeps take to wake; `haltwise-lab \
             calibrate` measures it",
            nanos(basis.switch_cpu_ns)
        ));
    }
    said.extend(doubts(basis));
    said
}

fn doubts(basis: &Basis) -> Vec<String> {
    let doubts = &basis.doubts;
    let of = |n: u64, text: &str| {
        let part = percent(n as f64, basis.judged_halts as f64);
        (n > 0).then(|| format!("{part} of the halts that judge: {text}"))
    };
    let all = [
        of(
            doubts.poll_cut,
            "a poll was cut for another task, and is cut at the same length under every setting",
        ),
        of(doubts.wake_unknown, "what ended them is not known"),
        of(
            doubts.arrival_assumed,
            "nothing shows whether waking earlier makes the next gap longer",
        ),
        of(
            doubts.gap_guessed,
            "their gaps are guessed, for the wake-up latency was not recorded",
        ),
        of(
            basis.latency_guessed,
            "under the best setting found they sleep for lengths of which no wake-up was recorded",
        ),
        (basis.vetoed_vcpus > 0).then(|| {
            let vcpus = plural(basis.vetoed_vcpus, "vCPU");
            format!("{vcpus} left out of the recommendation: the guest switched host polling off")
        }),
    ];
    all.into_iter().flatten().collect()
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
        "{halts}, whole stretches of time spread evenly over the recording; accounts, distributions and \
         the recommendation are of all halts"
    )
}

fn sampled_text(content: &Content) -> String {
    sampled(content).unwrap_or_default()
}
