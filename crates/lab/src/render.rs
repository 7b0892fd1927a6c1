//! Outcomes, calibrations and guests as text, at most 80 columns wide.

use std::fmt::Write as _;

use haltwise_core::hist::KvmHist;
use haltwise_core::replay::calibration::written::{GapClass, Written};
use haltwise_core::stats::Estimate;
use haltwise_core::units::Nanos;
use iced_x86::IcedError;

use crate::guest::{Guest, listing};
use crate::outcome::{EndedBy, Outcome, Quantiles, VcpuOutcome, VmOutcome};

const BAR_COLUMNS: usize = 24;
/// Failed polls shorter than this on average were cut: no window is that short.
const CUT_SHORT_NS: u64 = 1_000;

pub fn outcome(outcome: &Outcome) -> String {
    let mut text = headline(outcome);
    for vm in &outcome.vms {
        text.push('\n');
        text.push_str(&vm_text(outcome, vm));
    }
    text.push_str(&notes(outcome));
    text
}

fn headline(outcome: &Outcome) -> String {
    let vcpus = outcome.vcpus().count();
    let ended = match outcome.ended_by {
        EndedBy::Rounds => "all rounds played",
        EndedBy::Duration => "time up",
        EndedBy::Signal => "ended by a signal",
    };
    let plural = |n: usize| if n == 1 { "" } else { "s" };
    let mut text = format!(
        "{} on {} VM{} ({} vCPU{}), {}: {ended}\n",
        outcome.guest,
        outcome.vms.len(),
        plural(outcome.vms.len()),
        vcpus,
        plural(vcpus),
        Nanos(outcome.elapsed_ns),
    );
    let has_gap = outcome.guest != Guest::Ipi.name();
    if has_gap {
        let _ = write!(text, "gaps {} seed {}", outcome.gap, outcome.seed);
    }
    if let Some(how) = &outcome.host_wait {
        let does = match how.as_str() {
            "device" => "waits as a device".to_owned(),
            how => format!("{how}s"),
        };
        let _ = write!(text, ", host {does}");
    }
    if let Some(policy) = &outcome.halt_loop {
        let _ = write!(text, ", halts handled by the VMM as `{policy}` says");
    }
    if has_gap {
        text.push('\n');
    }
    text
}

fn vm_text(outcome: &Outcome, vm: &VmOutcome) -> String {
    let cap = match vm.vm_max_halt_poll_ns {
        Some(cap) => format!("polls at most {} (its own cap)", Nanos(cap.into())),
        None => "polls as the module parameter says".to_owned(),
    };
    let mut text = format!("vm {} (pid {}) {cap}\n", vm.name, vm.pid);
    text.push_str(&table(
        &[
            "vcpu", "halts", "irqs", "waits", "polls ok", "CPU", "vol. sw", "invol.",
        ],
        vm.vcpus.iter().map(counts).collect(),
    ));
    for (name, times) in [
        ("round trip", vm.round_trip_ns),
        ("gap", vm.gap_ns),
        ("wake-up", vm.wake_latency_ns),
    ] {
        text.extend(times.map(|times| quantiles(name, times)));
    }
    text.push_str(&poll_table(vm));
    if outcome.guest == Guest::Exits.name() {
        for vcpu in &vm.vcpus {
            let _ = writeln!(text, "  exits of vcpu {}", vcpu.id);
            for (name, count) in &vcpu.exits {
                let _ = writeln!(text, "    {name:<24}{count:>9}");
            }
        }
    }
    for name in [
        "halt_poll_success_hist",
        "halt_poll_fail_hist",
        "halt_wait_hist",
    ] {
        text.push_str(&hist(name, vm));
    }
    text
}

fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}

fn counts(vcpu: &VcpuOutcome) -> Vec<String> {
    let (waits, polls) = match vcpu.user_halts {
        Some(halts) => (Some(halts.waits), Some(halts.halt_successful_poll)),
        None => (vcpu.waits(), vcpu.stat("halt_successful_poll")),
    };
    vec![
        vcpu.id.to_string(),
        vcpu.halts.to_string(),
        vcpu.interrupts.to_string(),
        or_dash(waits),
        or_dash(polls),
        Nanos(vcpu.cpu_ns).to_string(),
        or_dash(vcpu.voluntary_switches),
        or_dash(vcpu.involuntary_switches),
    ]
}

/// The halt statistics of KVM; a dash where the kernel keeps none.
fn poll_table(vm: &VmOutcome) -> String {
    let rows = vm.vcpus.iter().map(|vcpu| {
        let count = |name: &str| or_dash(vcpu.stat(name));
        let time = |name: &str| or_dash(vcpu.stat(name).map(Nanos));
        vec![
            vcpu.id.to_string(),
            count("halt_exits"),
            count("halt_wakeup"),
            count("halt_attempted_poll"),
            count("halt_poll_invalid"),
            time("halt_poll_success_ns"),
            time("halt_poll_fail_ns"),
            time("halt_wait_ns"),
        ]
    });
    let heads = [
        "vcpu",
        "HLT exits",
        "wake-ups",
        "attempts",
        "invalid",
        "poll ok",
        "poll fail",
        "waited",
    ];
    table(&heads, rows.collect())
}

fn table(heads: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut text = String::new();
    let heads = heads.iter().map(|head| (*head).to_owned()).collect();
    for row in std::iter::once(heads).chain(rows) {
        for (column, cell) in row.iter().enumerate() {
            let width = if column == 0 { 6 } else { 10 };
            let _ = write!(text, "{cell:>width$}");
        }
        text.push('\n');
    }
    text
}

fn quantiles(name: &str, times: Quantiles) -> String {
    format!(
        "  {name:<11} mean {:>8}  p50 {:>8}  p95 {:>8}  p99 {:>8}  max {:>8}\n",
        Nanos(times.mean).to_string(),
        Nanos(times.p50).to_string(),
        Nanos(times.p95).to_string(),
        Nanos(times.p99).to_string(),
        Nanos(times.max).to_string(),
    )
}

/// One of KVM's histograms, summed over the vCPUs of a VM; nothing if it is empty.
fn hist(name: &str, vm: &VmOutcome) -> String {
    let mut sum = KvmHist::default();
    for hist in vm.vcpus.iter().filter_map(|vcpu| vcpu.hist.get(name)) {
        for (bucket, count) in hist.0.iter().enumerate() {
            sum.0[bucket] += count;
        }
    }
    let used = || sum.0.iter().enumerate().filter(|(_, count)| **count > 0);
    let (Some(first), Some(last)) = (used().next(), used().next_back()) else {
        return String::new();
    };
    let most = sum.0.iter().max().copied().unwrap_or(0).max(1);
    let mut text = format!("  {name} ({} in all)\n", sum.count());
    for (bucket, count) in sum.0.iter().enumerate().take(last.0 + 1).skip(first.0) {
        let low = if bucket == 0 {
            0
        } else {
            1_u64 << (bucket - 1)
        };
        let share = u128::from(*count) * BAR_COLUMNS as u128;
        let bar = usize::try_from(share.div_ceil(most.into())).unwrap_or(0);
        let line = format!(
            "{:>10} .. {count:>9}  {}",
            Nanos(low).to_string(),
            "#".repeat(bar)
        );
        let _ = writeln!(text, "  {}", line.trim_end());
    }
    text
}

/// HLTs that were neither waits nor successful polls; `None` if this kernel cannot tell, or had no part
/// in them.
fn instant_halts(vcpu: &VcpuOutcome) -> Option<u64> {
    if vcpu.user_halts.is_some() {
        return None;
    }
    let polls = vcpu.stat("halt_successful_poll")?;
    Some(vcpu.halts.saturating_sub(vcpu.waits()? + polls))
}

fn notes(outcome: &Outcome) -> String {
    let mut text = String::new();
    let vcpus = || outcome.vcpus();
    let halts: u64 = vcpus().map(|vcpu| vcpu.halts).sum();
    let instant: u64 = vcpus().filter_map(instant_halts).sum();
    if instant > 0 {
        let _ = write!(
            text,
            "note: {instant} of {halts} HLTs neither waited nor were polled for: their interrupt was pending\n      \
             or came at once, and KVM may not even have called them halts\n",
        );
    }
    let sum = |name| vcpus().filter_map(|vcpu| vcpu.stat(name)).sum::<u64>();
    let failed = sum("halt_attempted_poll").saturating_sub(sum("halt_successful_poll"));
    if failed > 10 && sum("halt_poll_fail_ns") / failed < CUT_SHORT_NS {
        text.push_str(
            "note: polls that failed ended within a microsecond: other tasks wanted these CPUs,\n      \
             and KVM then stops polling\n",
        );
    }
    if vcpus().any(|vcpu| vcpu.stats.is_empty()) {
        text.push_str("note: this kernel keeps no binary statistics (since 5.14)\n");
    }
    text
}

/// The text of `haltwise-lab list`: a line for each guest; with its disassembly and vectors if `verbose`.
pub fn guests(verbose: bool) -> Result<String, IcedError> {
    let mut text = String::new();
    for guest in Guest::all() {
        let _ = writeln!(text, "{guest:<18}{}", guest.purpose());
        if !verbose {
            continue;
        }
        let program = guest.program()?;
        for line in listing(&program).lines() {
            let _ = writeln!(text, "    {line}");
        }
        for (vector, ip) in &program.vectors {
            let _ = writeln!(text, "    vector {vector:#x} enters at {ip:04x}");
        }
        text.push('\n');
    }
    Ok(text)
}

/// The text of `haltwise-lab calibrate`.
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
    use haltwise_core::replay::calibration::written::Sleeper;

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
            sleeper: Sleeper::Vcpu,
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
