//! The last lines: how it was recorded, what is missing, and what recording cost. Always there.

use haltwise_core::recording::Mode;

use crate::number::{count, nanos, percent, share, three_digits};
use crate::page::{Page, harmless};
use crate::report::view::{Report, UnknownView};

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
            "{}, rung {}, mode {}, {}{}",
            harmless(&recording.recorder),
            recording.rung,
            recording.mode,
            nanos(recording.duration_ns),
            started.unwrap_or_default(),
        ),
    );
    say("lost", &lost(report));
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

fn accuracy(mode: Mode) -> &'static str {
    match mode {
        Mode::Full => "percentiles to 12.5 %, largest values exact",
        Mode::Counts => "percentiles and largest values to 12.5 %",
        Mode::Stats => {
            "sums exact; KVM's histograms have a bucket for each power of two, so that percentiles and \
             largest values may be off by a factor of two; sleep and wake-up are one time, told as unknown"
        }
    }
}

fn lost(report: &Report) -> String {
    let recording = &report.recording;
    if recording.lost == 0 {
        return "nothing".to_owned();
    }
    let places = recording.lost_by_place.iter();
    let places: Vec<String> = places
        .map(|loss| format!("{} ({})", count(loss.count), harmless(&loss.place)))
        .collect();
    let seen = report.host.account.halts.saturating_add(recording.lost);
    let part = percent(recording.lost as f64, seen as f64);
    format!(
        "{} events, {part} of all: {}; shares and rates leave them out",
        count(recording.lost),
        places.join(", "),
    )
}

/// Fields that the recording holds, but not for every halt.
fn partly(unknown: &UnknownView) -> String {
    let fields = [
        ("window_ns", unknown.window_ns),
        ("ceiling_ns", unknown.ceiling_ns),
        ("poll_ns", unknown.poll_ns),
        ("wake_latency_ns", unknown.wake_latency_ns),
        ("wake", unknown.wake),
    ];
    let partly: Vec<String> = fields
        .iter()
        .filter(|(_, part)| *part > 0.0)
        .map(|(field, part)| format!("{field} of {} of halts", share(*part)))
        .collect();
    if partly.is_empty() {
        "no field".to_owned()
    } else {
        partly.join(", ")
    }
}

fn cost(report: &Report) -> String {
    let recording = &report.recording;
    let Some(cost) = recording.overhead else {
        return "not known".to_owned();
    };
    let of_a_cpu = |ns: u64| percent(ns as f64, recording.duration_ns as f64);
    let mut told = vec![format!("{} of a CPU", of_a_cpu(cost.recorder_cpu_ns))];
    told.extend(
        cost.bpf_cpu_ns
            .map(|ns| format!("{} more in BPF programs", of_a_cpu(ns))),
    );
    told.extend(
        cost.added_ns_per_halt
            .map(|ns| format!("{} ns added to each halt", three_digits(ns))),
    );
    told.extend(
        cost.added_ns_per_exit
            .map(|ns| format!("{} ns to each exit", three_digits(ns))),
    );
    let mib = cost.recorder_rss_bytes as f64 / f64::from(1 << 20);
    told.push(format!("{} MiB of memory", three_digits(mib)));
    told.join(", ")
}
