//! Remarks of a report on itself, on every kind of page: losses, gaps, cost, accuracy.

use haltwise_core::recording::{MOST_WAITING_BYTES, Mode, Rung};
use haltwise_document::{Document, Prose, Untrusted, prose};

use crate::number::{count, nanos, percent, share, three_digits};
use crate::report::view::{Report, ReportedVm, UnknownFigures};
use crate::words::{capitalised, grouped, plural, some};

/// How exact figures are that do not count.
fn accuracy(mode: Mode, rung: Rung) -> &'static str {
    match mode {
        Mode::Full => "percentiles within 12.5 %, maxima exact",
        Mode::Counts => "percentiles and maxima within 12.5 %",
        Mode::Stats if rung == Rung::Cpuidle => {
            "entries into states and times there exact; cpuidle keeps no histograms, so that there are no percentiles; \
             sleep and wake-up latency are one figure, shown as unknown"
        }
        Mode::Stats => {
            "sums exact; KVM's histograms have power-of-two buckets, so percentiles and maxima may be \
             off by a factor of two; sleep and wake-up latency are one figure, shown as unknown"
        }
    }
}

const NAMES: usize = 4;

/// How a report came to be: what recorded it, what is missing, what recording cost. `most` lines of one kind.
pub(crate) fn recorded(report: &Report, most: usize) -> Document {
    let mut document = Document::new();
    let recording = &report.recording;
    let started = recording.started_utc.as_ref();
    let text = format!(
        ", source {}, mode {}, {}{}",
        recording.rung,
        recording.mode,
        nanos(recording.duration_ns),
        started.map_or_else(String::new, |utc| format!(" from {utc}")),
    );
    let recorder = prose![Untrusted::from(&recording.recorder), text];
    document.fact("recorder", recorder);
    document.fact("lost", lost(report, most));
    if recording.cut {
        let text = "the recording was not finished (killed, or still running); everything written so far is \
                    included";
        document.fact("cut", text);
    }
    for note in recording.notes.iter().take(most) {
        document.fact("note", Untrusted::from(note));
    }
    let blind = report.vms.iter();
    let blind = blind.filter_map(|vm| Some((vm.not_observable.as_deref()?, vm.name.clone())));
    let blind = grouped(blind);
    if blind.is_empty() {
        document.fact("not observable", "none");
    }
    for (reason, names) in blind.into_iter().take(most) {
        let names = Untrusted::from(some(&names, NAMES));
        let text = prose![names, ": ", Untrusted::from(reason)];
        document.fact("not observable", text);
    }
    if recording.missing.is_empty() {
        document.fact("missing", partly(&report.host.account.unknown));
    }
    for missing in recording.missing.iter().take(most) {
        let (field, reason) = (&missing.field, &missing.reason);
        let text = prose![Untrusted::from(field), ": ", Untrusted::from(reason)];
        document.fact("missing", text);
    }
    document.fact("recording cost", cost(report));
    document.fact("accuracy", accuracy(recording.mode, recording.rung));
    document
}

/// Losses, and the first of the places where they occurred.
fn lost(report: &Report, most: usize) -> Prose {
    let recording = &report.recording;
    if recording.lost == 0 {
        return "nothing".into();
    }
    let seen = report.host.account.halts.saturating_add(recording.lost);
    let part = percent(recording.lost as f64, seen as f64);
    let events = plural(recording.lost, "event");
    let mut text = prose![format!("{events}, {part} of all: ")];
    let places = recording.lost_by_place.iter().take(most).map(|loss| {
        let n = format!("{} (", count(loss.count));
        prose![n, Untrusted::from(&loss.place), ")"]
    });
    text.extend(Prose::joined(places));
    text.extend("; not included in shares and rates".into());
    text
}

/// Fields that the recording holds, but not for every halt.
fn partly(unknown: &UnknownFigures) -> String {
    let fields = [
        ("window_ns", unknown.window_ns),
        ("ceiling_ns", unknown.ceiling_ns),
        ("poll_ns", unknown.poll_ns),
        ("wake_latency_ns", unknown.wake_latency_ns),
        ("wake", unknown.wake),
    ];
    let partly = fields.into_iter().filter(|(_, part)| *part > 0.0);
    let partly = partly.map(|(field, part)| format!("{field} of {} of halts", share(part)));
    let partly: Vec<String> = partly.collect();
    if partly.is_empty() {
        return "none".to_owned();
    }
    partly.join(", ")
}

/// Limits of what is known of a VM: it was not there all the time, its halts cannot be seen, it was paused.
pub(crate) fn limits(vm: &ReportedVm, report: &Report) -> Document {
    let mut document = Document::new();
    if let Some(what) = came_or_went(vm, report) {
        let (what, observed) = (capitalised(what), nanos(vm.account.span_ns));
        document.prose(format!("{what}; observed for {observed}."));
    }
    if let Some(reason) = &vm.not_observable {
        let words = "Not observable (this does not mean idle): ";
        document.prose(prose![words, Untrusted::from(reason), "."]);
        if vm.account.halts == 0 {
            return document;
        }
    }
    if let Some(text) = paused(vm, report) {
        document.prose(text);
    }
    document
}

/// Said of a VM that was seen all the time and did not halt.
pub(crate) const NO_HALT: &str =
    "No halt ended during the recording: each vCPU was running, or asleep, all the time.";

/// That a VM was not there all the time, where it was not.
pub(crate) fn came_or_went(vm: &ReportedVm, report: &Report) -> Option<&'static str> {
    let recorded_ns = report.recording.duration_ns;
    let what = match (vm.from_ns, vm.to_ns) {
        (Some(_), Some(_)) => "started and ended during the recording",
        (Some(_), None) => "started during the recording",
        (None, Some(_)) => "ended during the recording",
        (None, None) => return None,
    };
    let short = vm.account.span_ns < recorded_ns / 100 * 99;
    short.then_some(what)
}

/// Whether a VM was paused for as good as all of the time in which it was there, and did not halt.
pub(crate) fn is_paused(vm: &ReportedVm) -> bool {
    let span_ns = vm.account.span_ns;
    let all = |paused_ns: u64| paused_ns > 0 && paused_ns >= span_ns / 100 * 99;
    vm.account.halts == 0 && vm.paused_ns.is_some_and(all)
}

fn paused(vm: &ReportedVm, report: &Report) -> Option<String> {
    let paused_ns = vm.paused_ns.filter(|ns| *ns > 0)?;
    let how_long = if is_paused(vm) {
        "was not running".to_owned()
    } else {
        let part = share(paused_ns as f64 / vm.account.span_ns.max(1) as f64);
        format!("was not running for {} ({part})", nanos(paused_ns))
    };
    // Where KVM cannot be asked for it.
    let or_its_vmm = match report.recording.rung {
        Rung::Bpf => "",
        Rung::Tracepoints | Rung::Cpuidle | Rung::Import => ", or its VMM handles HLT itself",
    };
    Some(format!(
        "It {how_long}: none of its vCPUs was in KVM_RUN (paused, not started, or stopped after an \
         error{or_its_vmm}). This does not mean idle."
    ))
}

fn cost(report: &Report) -> String {
    let recording = &report.recording;
    let Some(cost) = recording.overhead else {
        return "not known".to_owned();
    };
    let of_a_cpu = |ns: u64| percent(ns as f64, recording.duration_ns as f64);
    let programs = |ns| format!("{} more in BPF programs", of_a_cpu(ns));
    let of_halt = |ns| format!("{} ns added to each halt", three_digits(ns));
    let of_exit = |ns| format!("{} ns to each exit", three_digits(ns));
    let mib = |bytes: u64| three_digits(bytes as f64 / f64::from(1 << 20));
    let waiting = |bytes| {
        let [most, of] = [bytes, MOST_WAITING_BYTES].map(mib);
        format!("at most {most} of {of} MiB of records waiting")
    };
    let mut told = vec![format!("{} of a CPU", of_a_cpu(cost.recorder_cpu_ns))];
    told.extend(cost.bpf_cpu_ns.map(programs));
    told.extend(cost.added_ns_per_halt.map(of_halt));
    told.extend(cost.added_ns_per_exit.map(of_exit));
    told.push(format!("{} MiB of memory", mib(cost.recorder_rss_bytes)));
    told.extend(cost.most_waiting_bytes.map(waiting));
    told.join(", ")
}
