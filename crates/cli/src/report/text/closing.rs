//! The last lines: how it was recorded, what is missing, and what recording cost. Always there.

use crate::number::nanos;
use crate::page::{Page, harmless};
use crate::report::honest::{accuracy, cost, lost, partly};
use crate::report::view::Report;
use crate::words::some;

/// Names of VMs for one reason; more are counted.
const NAMES: usize = 4;

/// Why VMs could not be observed, and which.
fn not_observable(report: &Report) -> Vec<(String, Vec<String>)> {
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for vm in &report.vms {
        let Some(reason) = vm.not_observable.as_deref().map(harmless) else {
            continue;
        };
        let name = harmless(&vm.name);
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(name),
            None => reasons.push((reason, vec![name])),
        }
    }
    reasons
}

/// Shows how the report came to be.
pub(super) fn closing(page: &mut Page, report: &Report) {
    page.heading("How this was recorded");
    let recording = &report.recording;
    let started = recording.started_utc.as_ref();
    let started = started.map(|utc| format!(" from {utc}"));
    let mut say = |what: &str, text: &str| {
        page.wrapped(&format!("  {what:<15} "), text, 18);
    };
    say(
        "recorder",
        &format!(
            "{}, source {}, mode {}, {}{}",
            harmless(&recording.recorder),
            recording.rung,
            recording.mode,
            nanos(recording.duration_ns),
            started.unwrap_or_default(),
        ),
    );
    say("lost", &lost(report, usize::MAX, &harmless));
    if recording.cut {
        say(
            "cut",
            "the recording was not finished (killed, or still running); everything written so far is \
             included",
        );
    }
    for note in &recording.notes {
        say("note", &harmless(note));
    }
    let blind = not_observable(report);
    if blind.is_empty() {
        say("not observable", "none");
    }
    for (reason, names) in blind {
        say(
            "not observable",
            &format!("{}: {reason}", some(&names, NAMES)),
        );
    }
    if recording.missing.is_empty() {
        say("missing", &partly(&report.host.account.unknown));
    }
    for missing in &recording.missing {
        let text = format!(
            "{}: {}",
            harmless(&missing.field),
            harmless(&missing.reason)
        );
        say("missing", &text);
    }
    say("own cost", &cost(report));
    say("accuracy", accuracy(recording.mode));
}
