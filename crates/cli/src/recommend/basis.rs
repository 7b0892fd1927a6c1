//! Basis of a recommendation: `tune` ends with it, and the page of `report --html` says the same.

use haltwise_core::replay::Doubts;

use super::view::{TuneBasis, TuneResult};
use crate::number::{nanos, percent, share};
use crate::prices::doubts::of_halts;
use crate::prices::words;
use crate::words::plural;

/// A word, and what is said of it; what is in backquotes is code.
pub(crate) type Line = (&'static str, String);

/// All of it, in the order in which it is read.
pub(crate) fn rests(view: &TuneResult) -> Vec<Line> {
    let basis = &view.basis;
    let mut cost = words::cost(
        basis.model.switch_cpu_ns,
        basis.model.switch_cpu_source,
        view.goal.lambda,
    );
    if let Some([low_ns, high_ns]) = basis.switch_cpu_ends_ns.filter(|[low, high]| low < high) {
        let ends = [nanos(low_ns), nanos(high_ns)].join(" to ");
        cost.push_str("; confidence intervals cover a sleep of ");
        cost.push_str(&ends);
        cost.push_str(", as far as that may be off");
    }
    let mut said = vec![("cost", cost)];
    if let Some(played) = &view.played {
        let (halts, judged) = (basis.halts, basis.judged_halts);
        let halts = words::evaluated(halts, judged, basis.judged_ns, played.looked_at);
        said.push(("halts", halts));
        said.push(("replay", replay(basis)));
        said.push(("arrivals", words::ARRIVALS.to_owned()));
        said.extend(basis.model.overrun().map(|overrun| ("overrun", overrun)));
        if let Some(idle) = basis.idle_cpu_percent {
            let text = format!(
                "the host had {} of a CPU idle; settings that poll more than that were not considered",
                share(idle / 100.0)
            );
            said.push(("spare", text));
        }
    }
    said.push(("algorithm", basis.model.algorithm()));
    said.extend(doubts(view));
    said
}

/// How the replay of the setting in force compares with what was recorded.
fn replay(basis: &TuneBasis) -> String {
    let of = |blocks: u64| percent(blocks as f64, basis.halts as f64);
    format!(
        "with the current setting {} of the halts sleep in the replay, {} in the recording",
        of(basis.blocks_replayed),
        of(basis.blocks_recorded),
    )
}

/// On how many halts and vCPUs an assumption rests, and what is not there at all.
fn doubts(view: &TuneResult) -> Vec<Line> {
    let basis = &view.basis;
    let mut said = assumed(view);
    said.extend(left_out(basis));
    if basis.partial {
        said.push(("partial", words::PARTIAL.to_owned()));
    }
    said
}

/// Assumptions about the validated halts. Sleeps are those of the best setting found, because its figures depend
/// on them.
fn assumed(view: &TuneResult) -> Vec<Line> {
    let basis = &view.basis;
    let doubts = Doubts {
        latency_guessed: basis.latency_guessed,
        latency_thin: basis.latency_thin,
        latency_calibrated: basis.latency_calibrated,
        ..basis.doubts
    };
    let under = ["the best setting found"; 3];
    of_halts(&doubts, basis.judged_halts, "the validated halts", under)
}

/// Data on which the recommendation is not based.
fn left_out(basis: &TuneBasis) -> Vec<Line> {
    let others = [
        (
            "veto",
            basis.vetoed_vcpus,
            "vCPU",
            "left out: the guest disabled host polling (MSR_KVM_POLL_CONTROL), no setting applies to it",
        ),
        (
            "own ceiling",
            basis.own_ceiling_vcpus,
            "vCPU",
            "of VMs with their own ceiling, to which halt_poll_ns does not apply",
        ),
        (
            "skipped",
            basis.skipped,
            "halt",
            "left out in whole time ranges, because there are too many",
        ),
        (
            "out of order",
            basis.out_of_order,
            "halt",
            "left out because their timestamps go backwards",
        ),
        (
            "lost",
            basis.lost,
            "event",
            "lost while recording; their halts are missing",
        ),
    ];
    let others = others.into_iter().filter(|(_, n, ..)| *n > 0);
    let said = others.map(|(what, n, one, text)| (what, format!("{} {text}", plural(n, one))));
    said.collect()
}
