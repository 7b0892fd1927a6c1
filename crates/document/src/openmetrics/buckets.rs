//! A histogram of times.

use serde::{Deserialize, Serialize};

use super::family::{line, shifted};

/// How many times lie below which bound.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Buckets {
    /// Rising bounds in nanoseconds, each with how many times are at most this.
    pub below: Vec<(u64, u64)>,
    pub count: u64,
    /// Their sum in nanoseconds.
    pub sum_ns: u64,
}

impl Buckets {
    /// A line for each bound, one without bound, sum and count.
    pub(super) fn lines(&self) -> usize {
        self.below.len() + 3
    }

    pub(super) fn render(&self, name: &str, labels: &str, text: &mut String) {
        let mut bucket = |bound: &str, count: u64| {
            let comma = if labels.is_empty() { "" } else { "," };
            let labels = format!("{labels}{comma}le=\"{bound}\"");
            line(text, &format!("{name}_bucket"), &labels, &count.to_string());
        };
        for (bound_ns, count) in &self.below {
            bucket(&bound(*bound_ns), *count);
        }
        bucket("+Inf", self.count);
        line(
            text,
            &format!("{name}_sum"),
            labels,
            &shifted(self.sum_ns, 9),
        );
        line(
            text,
            &format!("{name}_count"),
            labels,
            &self.count.to_string(),
        );
    }
}

/// A bound in seconds as OpenMetrics writes it: the shortest text of the number, with an exponent of two digits
/// below 0.0001.
fn bound(ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    if ns == 0 || seconds >= 1e-4 {
        return format!("{seconds:?}");
    }
    let text = format!("{seconds:e}");
    match text.split_once("e-") {
        Some((digits, exponent)) => format!("{digits}e-{exponent:0>2}"),
        None => text,
    }
}
