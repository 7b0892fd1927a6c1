//! What figures of a replay rest on, in words: one home for `replay`, `tune`, `prove` and the page.

use haltwise_core::replay::Arrivals;

use super::costs::Source;
use crate::number::{nanos, three_digits};

/// Where the CPU time of a block comes from.
pub(crate) fn source(of: Source) -> &'static str {
    match of {
        Source::Calibrated => "as calibrated",
        Source::Given => "as given",
        Source::Assumed => {
            "assumed: half of what the shortest sleeps take to wake; measure it with \
             `haltwise-lab calibrate`"
        }
    }
}

/// What a block costs, and a nanosecond of latency.
pub(crate) fn cost(switch_cpu_ns: u64, of: Source, latency_weight: f64) -> String {
    format!(
        "a block takes {} of CPU ({}); a nanosecond of latency counts as {} of CPU",
        nanos(switch_cpu_ns),
        source(of),
        three_digits(latency_weight),
    )
}

/// Whether waking earlier makes the next gap longer.
pub(crate) fn arrivals(of: Arrivals) -> String {
    let text = match of {
        Arrivals::BySource => {
            "by vCPU and wake source as far as the recording shows how gaps follow wake-ups"
        }
        Arrivals::FixedGap => "every wake comes as long after its halt began as it did",
        Arrivals::FixedTime => "every wake comes when it came",
    };
    format!("{}: {text}", of.as_str())
}
