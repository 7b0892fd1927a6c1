//! Basis of the figures of a replay, in words: one home for `replay`, `tune`, `prove` and the page.

use super::Source;
use crate::number::{count, nanos, three_digits};

pub(crate) fn source(of: Source) -> &'static str {
    match of {
        Source::Calibrated => "as calibrated",
        Source::Given => "as given",
        Source::Joined => "by the two captures: a stay in HLT less its halt",
        Source::Assumed => {
            "assumed: half the wake-up latency of the shortest sleeps; measure it with \
             `haltwise calibrate`"
        }
        Source::Bounded => {
            "assumed, the upper bound for hardware: half the wake-up latency of the shortest sleeps is \
             more, so they waited for a CPU; measure it with `haltwise calibrate`"
        }
    }
}

pub(crate) fn sleep(switch_cpu_ns: u64, of: Source) -> String {
    let (cost, source) = (nanos(switch_cpu_ns), source(of));
    format!("a sleep costs {cost} of CPU time ({source})")
}

pub(crate) fn cost(switch_cpu_ns: u64, of: Source, latency_weight: f64) -> String {
    let (sleep, weight) = (sleep(switch_cpu_ns, of), three_digits(latency_weight));
    format!("{sleep}; 1 ns of latency counts as {weight} of CPU time")
}

/// Whether waking earlier makes the next gap longer.
pub(crate) const ARRIVALS: &str = "by-source: for each vCPU and wake source, as recorded";

/// How many halts figures rest on, and how many settings were tried on them.
pub(crate) fn evaluated(halts: u64, judged: u64, judged_ns: u64, settings: usize) -> String {
    let [halts, judged] = [halts, judged].map(count);
    let judged_time = nanos(judged_ns);
    format!(
        "{halts}, of them {judged} in the validation half, {judged_time}; {settings} settings evaluated"
    )
}

pub(crate) const PARTIAL: &str = "rows are missing or damaged; see `haltwise report`";
