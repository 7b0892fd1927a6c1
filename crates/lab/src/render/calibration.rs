//! The text of `haltwise-lab calibrate`.

use std::fmt::Write as _;

use haltwise_core::replay::calibration::written::{GapClass, Written};
use haltwise_core::stats::Estimate;
use haltwise_core::units::Nanos;

pub fn calibration(found: &Written) -> String {
    let mut text = format!(
        "vCPU on CPU {}, host on CPU {}, {} repetitions in {}\n\
         medians, with the interval that holds the true one in 95 of 100 cases\n\n\
         {:>8}  {:<24}{:>10}{:>10}  {}\n\
         {:>8}  {:<24}{:>10}{:>10}  {}\n",
        found.vcpu_cpu,
        found.host_cpu,
        found.repetitions,
        Nanos(found.elapsed_ns),
        "",
        "",
        "signal to",
        "guest",
        "CPU of a wait",
        "gap",
        "wake-up latency",
        "blocked",
        "polled",
        "(switch_cpu)",
    );
    for class in &found.classes {
        text.push_str(&row(class));
    }
    let _ = writeln!(text);
    for (name, estimate, meaning) in [
        (
            "switch_cpu",
            found.switch_cpu_ns,
            "CPU of one block and wake, vCPU's thread",
        ),
        (
            "waker_cpu",
            found.waker_cpu_ns,
            "the same, thread that wakes it",
        ),
        (
            "exit_cpu",
            found.exit_cpu_ns,
            "CPU of an exit, as KVM handles CPUID",
        ),
        (
            "HLT round trip",
            found.polled_round_trip_ns,
            "signal to answer, polled",
        ),
    ] {
        let _ = writeln!(text, "{name:<15}{:<24} {meaning}", interval(estimate));
    }
    for note in &found.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn row(class: &GapClass) -> String {
    let middle =
        |estimate: Option<Estimate>| estimate.map_or("-".to_owned(), |e| us(e.median) + " us");
    let line = format!(
        "{:>8}  {:<24}{:>10}{:>10}  {}",
        Nanos(class.gap_ns).to_exact(),
        interval(class.wake_latency_ns),
        middle(class.signal_to_guest_blocked_ns),
        middle(class.signal_to_guest_polled_ns),
        interval(class.switch_cpu_ns),
    );
    line.trim_end().to_owned() + "\n"
}

/// `6.12 us (5.98 .. 6.30)`, or a dash.
fn interval(estimate: Option<Estimate>) -> String {
    let Some(Estimate {
        median, low, high, ..
    }) = estimate
    else {
        return "-".to_owned();
    };
    format!("{} us ({} .. {})", us(median), us(low), us(high))
}

fn us(ns: f64) -> String {
    let us = ns / 1e3;
    let decimals = match us.abs() {
        size if size < 9.995 => 2,
        size if size < 99.95 => 1,
        _ => 0,
    };
    format!("{us:.decimals$}")
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn every_line_fits_in_eighty_columns_and_what_is_missing_is_a_dash() {
        let estimate = Some(Estimate {
            median: -12_345.0,
            low: -98_765.0,
            high: 234_567.0,
            samples: 9,
        });
        let class = |switch_cpu_ns| GapClass {
            gap_ns: 20_000_000,
            wake_latency_ns: estimate,
            wake_latency_quantiles_ns: Vec::new(),
            signal_to_guest_blocked_ns: estimate,
            signal_to_guest_polled_ns: None,
            switch_cpu_ns,
            waker_cpu_ns: None,
        };
        let text = calibration(&Written {
            schema: 1,
            sleeper: haltwise_core::replay::calibration::written::Sleeper::Vcpu,
            vcpu_cpu: 1,
            host_cpu: 0,
            repetitions: 15,
            elapsed_ns: 40_000_000_000,
            classes: vec![class(estimate), class(None)],
            switch_cpu_ns: estimate,
            exit_cpu_ns: estimate,
            polled_round_trip_ns: estimate,
            notes: vec!["short".to_owned()],
            ..Written::default()
        });
        let longest = text.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(80), "{longest:?}\n{text}");
        let missing = text.lines().find(|line| line.ends_with(" -"));
        assert!(missing.is_some(), "{text}");
    }
}
