//! How far a replay depends on wake-ups that were not recorded.

use haltwise_document::{Document, Rows, Unit};

use super::view::{HaltGroup, OtherWakes, PlayedPolicy};

/// Shares of the halts that differ by less are not shown.
const LEAST_SHARE: f64 = 0.01;
/// Latencies that are longer by this share at most are not shown.
const LEAST_LONGER: f64 = 0.1;

const HARDLY_POLLED: &str = "This recording hardly polled. With polling, wake-ups may be shorter, \
                             also those of the waker, since CPUs stay in C0. KVM compares gap plus \
                             wake-up latency with the ceiling, so windows would grow more often. \
                             The table shows wake-ups that are a fifth shorter.";
const HARDLY_SLEPT: &str = "Too few halts slept for as long as the gaps of this load to show how late \
                            such sleeps wake. The table shows these wake-ups as early and as late as \
                            they may be.";

pub(super) fn show(document: &mut Document, group: &HaltGroup) {
    let halts = group.halts.max(1) as f64;
    let share = |polls: Option<u64>| Some(polls? as f64 / halts);
    let [of_early, of_known, of_late] = [
        |it: &PlayedPolicy| Some(it.early_wakes.as_ref()?.successful_polls),
        |it: &PlayedPolicy| it.from_zero.successful_polls,
        |it: &PlayedPolicy| Some(it.late_wakes.as_ref()?.successful_polls),
    ];
    let is_other = |it: &&PlayedPolicy| {
        let known = share(of_known(it));
        let apart = |other| Some((share(other)? - known?).abs() >= LEAST_SHARE);
        let is_late = |late: &OtherWakes| {
            late.latency_ns as f64 > (1.0 + LEAST_LONGER) * it.from_zero.latency_ns as f64
        };
        let polls = [of_early(it), of_late(it)].into_iter().filter_map(apart);
        polls
            .chain(it.late_wakes.as_ref().map(is_late))
            .any(|other| other)
    };
    let others: Vec<&PlayedPolicy> = group.played.iter().filter(is_other).collect();
    if others.is_empty() {
        return;
    }
    let hardly_slept = group.played.iter().any(|it| it.late_wakes.is_some());
    document.note(if hardly_slept {
        HARDLY_SLEPT
    } else {
        HARDLY_POLLED
    });
    let table = Rows::new("Wake-ups", &others, usize::MAX)
        .with("other wake-ups", Unit::Name, |it| &*it.policy)
        .with("success", Unit::Share, |it| share(of_known(it)))
        .with("if early", Unit::Share, |it| share(of_early(it)))
        .with("if late", Unit::Share, |it| share(of_late(it)))
        .show(&["from_zero.latency_mean_ns"])
        .titled("from_zero.latency_mean_ns", "latency")
        .with("if early", Unit::MeanNanos, |it| {
            Some(it.early_wakes.as_ref()?.latency_ns as f64 / halts)
        })
        .with("if late", Unit::MeanNanos, |it| {
            Some(it.late_wakes.as_ref()?.latency_ns as f64 / halts)
        })
        .finish();
    document.table(table);
}
