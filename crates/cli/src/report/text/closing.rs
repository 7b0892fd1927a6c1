//! The last lines: how it was recorded, what is missing, and what recording cost. Always there.

use crate::number::nanos;
use crate::page::{Page, harmless};
use crate::report::honest::{accuracy, cost, lost, partly};
use crate::report::view::Report;

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
            "the recording did not end by itself; everything written until then is here",
        );
    }
    for note in &recording.notes {
        say("note", &harmless(note));
    }
    let blind = report.vms.iter().filter_map(|vm| {
        let reason = vm.not_observable.as_ref()?;
        Some(format!("{}: {}", harmless(&vm.name), harmless(reason)))
    });
    let blind: Vec<String> = blind.collect();
    if blind.is_empty() {
        say("not observable", "none of the VMs that were found");
    }
    for vm in blind {
        say("not observable", &vm);
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
