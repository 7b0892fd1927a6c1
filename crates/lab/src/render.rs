//! Outcomes as text, at most 80 columns wide.

mod calibration;
mod guests;

use std::fmt::Write as _;

use haltwise_core::hist::KvmHist;
use haltwise_core::units::Nanos;

use crate::guest::Guest;
use crate::outcome::{EndedBy, Outcome, Quantiles, VcpuOutcome, VmOutcome};

pub use calibration::calibration;
pub use guests::guests;

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
