//! Counts of a measured column, by what KVM, the guests, the host and haltwise counted.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::super::counters::Counters;
use super::super::interrupts;
use crate::kernels::reported::{Counts, Exits, Report, ask, count, text};

/// Figures in the order of the tables, with their meaning. Each is a sum over all VMs that were measured.
pub(super) const FIGURES: [(&str, &str); 21] = [
    ("exits", "VM exits"),
    ("hlt", "HLT exits"),
    ("vmm", "returns to the VMM"),
    ("timer_writes", "writes of the APIC timer"),
    ("ipi_writes", "writes of the APIC command register"),
    ("pio", "exits by ports"),
    ("npf", "exits by nested page faults"),
    ("polls", "halts that polled in the host"),
    ("successful", "halts with a successful poll"),
    ("poll_ms", "time polled in the host, ms"),
    ("sleeps", "halts that slept"),
    ("switches", "times that a vCPU's thread slept"),
    ("preempted", "times that a vCPU's thread was preempted"),
    ("timers", "timer interrupts in the guests"),
    ("ipis", "IPIs in the guests"),
    ("devices", "device interrupts in the guests"),
    ("guest_switches", "context switches in the guests"),
    ("host_switches", "context switches of the host"),
    ("wake_us", "wake-up latency of a sleep, us: mean"),
    ("p50_us", "time of a round trip, us: median"),
    ("p99_us", "time of a round trip, us: 99th percentile"),
];

/// Whether a figure is of one unit already.
pub(super) fn is_of_a_unit(figure: &str) -> bool {
    figure.ends_with("_us")
}

/// The APIC's initial count in x2APIC mode, and the TSC deadline.
const TIMER_MSRS: [u64; 2] = [0x838, 0x6e0];
/// The APIC's command register in x2APIC mode.
const COMMAND_MSR: u64 = 0x830;

/// Counters of KVM, by the figure that they are.
const OF_KVM: [(&str, &str); 6] = [
    ("hlt", "halt_exits"),
    ("polls", "halt_attempted_poll"),
    ("successful", "halt_successful_poll"),
    ("poll_ns", "halt_poll_success_ns"),
    ("poll_ns", "halt_poll_fail_ns"),
    ("sleeps", "halt_wait_hist"),
];

/// Counts of a folder of `measured`.
pub(super) fn of(dir: &Path) -> Result<Counts> {
    let mut counts = Counts::new();
    let mut add = |name: &str, by: u64| *counts.entry(name.to_owned()).or_default() += by;
    for vm in vms(dir)? {
        let both = |what: &str| ["before", "after"].map(|it| dir.join(format!("{vm}.{what}.{it}")));
        let [before, after] = both("kvm");
        let kvm = Counters::between(&before, &after)?;
        for (figure, counter) in OF_KVM {
            let mut threads = kvm.threads.values();
            let is_there = threads.any(|of| of.contains_key(counter));
            ensure!(is_there, "{vm}: QEMU gives no {counter}");
            add(figure, kvm.sum(counter));
        }
        let inside = both("inside");
        let interrupts = interrupts::between(&inside[0], &inside[1])?;
        for (figure, source) in [("timers", "timer"), ("ipis", "ipi"), ("devices", "device")] {
            add(figure, count(&interrupts, source));
        }
        add("guest_switches", grown(&inside, "ctxt ")?);
        let threads = both("threads");
        add("switches", grown(&threads, "voluntary_ctxt_switches:")?);
        add("preempted", grown(&threads, "nonvoluntary_ctxt_switches:")?);
    }
    let host = ["host.before", "host.after"].map(|file| dir.join(file));
    add("host_switches", grown(&host, "ctxt ")?);
    add_said(dir, &mut add)?;
    let capture = dir.join("capture");
    let report: Report = ask(&["report", "--json"], &capture)?;
    for (_, vcpu) in report.vcpus() {
        add("wake_ns", count(&vcpu.account.parts, "wake_latency_ns"));
    }
    let exits: Exits = ask(&["report", "--exits", "--json"], &capture)?;
    add("exits", exits.total.exits);
    add("vmm", exits.userspace.iter().map(|row| row.count).sum());
    for (figure, reason) in [("pio", "io"), ("npf", "npf")] {
        add(figure, exits.of_reason(reason));
    }
    for row in exits.subs.iter().filter(|row| row.kind.starts_with("msr")) {
        match row.sub {
            Some(msr) if TIMER_MSRS.contains(&msr) => add("timer_writes", row.count),
            Some(COMMAND_MSR) => add("ipi_writes", row.count),
            _ => {}
        }
    }
    Ok(counts)
}

/// Adds what a load printed: names and numbers.
fn add_said(dir: &Path, mut add: impl FnMut(&str, u64)) -> Result<()> {
    let files = std::fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))?;
    for file in files {
        let path = file?.path();
        if path.extension().is_none_or(|it| it != "said") {
            continue;
        }
        for pair in text(&path)?.split_whitespace() {
            if let Some((name, number)) = pair.split_once('=')
                && is_of_a_unit(name)
                && let Ok(number) = number.parse()
            {
                add(name, number);
            }
        }
    }
    Ok(())
}

/// VMs that were measured.
fn vms(dir: &Path) -> Result<Vec<String>> {
    let files = std::fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))?;
    let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    let of_vm = names.filter_map(|name| Some(name.strip_suffix(".kvm.after")?.to_owned()));
    Ok(of_vm.collect())
}

/// By how much the numbers grew that follow a word at the beginning of a line.
fn grown(files: &[PathBuf; 2], word: &str) -> Result<u64> {
    let [before, after] = files.each_ref().map(|file| sum(&text(file)?, word));
    Ok(after?.saturating_sub(before?))
}

/// An error where no line begins so: a guest that did not answer has no count, not a count of 0.
fn sum(text: &str, word: &str) -> Result<u64> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(word));
    let mut numbers = lines.map(|rest| rest.trim().parse::<u64>()).peekable();
    ensure!(numbers.peek().is_some(), "no line begins with {word}");
    Ok(numbers.sum::<Result<u64, _>>()?)
}
