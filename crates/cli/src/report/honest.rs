//! What a report says of itself, on every kind of page: losses, gaps, cost, accuracy.

use haltwise_core::recording::{Mode, Rung};

use crate::number::{count, nanos, percent, share, three_digits};
use crate::report::view::{Report, UnknownView, VmView};
use crate::words::{capitalised, plural};

/// How exact figures are that do not count.
pub(crate) fn accuracy(mode: Mode) -> &'static str {
    match mode {
        Mode::Full => "percentiles within 12.5 %, maxima exact",
        Mode::Counts => "percentiles and maxima within 12.5 %",
        Mode::Stats => {
            "sums exact; KVM's histograms have power-of-two buckets, so percentiles and maxima may be \
             off by a factor of two; sleep and wake-up latency are one figure, shown as unknown"
        }
    }
}

/// What was lost, and where, the first places of them; `safe` makes a capture's text fit to be shown.
pub(crate) fn lost(report: &Report, most: usize, safe: &impl Fn(&str) -> String) -> String {
    let recording = &report.recording;
    if recording.lost == 0 {
        return "nothing".to_owned();
    }
    let places = recording.lost_by_place.iter().take(most);
    let places: Vec<String> = places
        .map(|loss| format!("{} ({})", count(loss.count), safe(&loss.place)))
        .collect();
    let seen = report.host.account.halts.saturating_add(recording.lost);
    let part = percent(recording.lost as f64, seen as f64);
    format!(
        "{}, {part} of all: {}; not included in shares and rates",
        plural(recording.lost, "event"),
        places.join(", "),
    )
}

/// Fields that the recording holds, but not for every halt.
pub(crate) fn partly(unknown: &UnknownView) -> String {
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
        "none".to_owned()
    } else {
        partly.join(", ")
    }
}

/// That a VM was not there all the time, where it was not, and how long it was observed.
pub(crate) fn presence(vm: &VmView, report: &Report) -> Option<String> {
    let what = capitalised(came_or_went(vm, report)?);
    Some(format!(
        "{what}; observed for {}.",
        nanos(vm.account.span_ns)
    ))
}

/// That a VM was not there all the time, where it was not.
pub(crate) fn came_or_went(vm: &VmView, report: &Report) -> Option<&'static str> {
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
pub(crate) fn is_paused(vm: &VmView) -> bool {
    let span_ns = vm.account.span_ns;
    let all = |paused_ns: u64| paused_ns > 0 && paused_ns >= span_ns / 100 * 99;
    vm.account.halts == 0 && vm.paused_ns.is_some_and(all)
}

/// That a VM was paused, where it was.
pub(crate) fn paused(vm: &VmView, report: &Report) -> Option<String> {
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
        Rung::Tracepoints | Rung::Import => ", or its VMM handles HLT itself",
    };
    Some(format!(
        "It {how_long}: none of its vCPUs was in KVM_RUN (paused, not started, or stopped after an \
         error{or_its_vmm}). This does not mean idle."
    ))
}

/// What recording cost.
pub(crate) fn cost(report: &Report) -> String {
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

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn what_is_partly_known_is_said() {
        let none = UnknownView {
            window_ns: 0.0,
            ceiling_ns: 0.0,
            poll_ns: 0.25,
            wake_latency_ns: 0.0,
            wake: 0.0,
        };
        assert_eq!(partly(&none), "poll_ns of 25.0 % of halts");
    }
}
