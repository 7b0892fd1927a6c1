//! Compares the interrupts that a Linux guest counted (/proc/interrupts) with the wake-ups in the recording.
//!
//! An interrupt that meets a running vCPU wakes none: of each source there are no more wake-ups than
//! interrupts, and shares are alike only in part, for most timers meet a running vCPU.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use crate::kernels::check::Found;
use crate::kernels::reported::{Counts, Report, count, subtract, text};

/// Where interrupts come from, as haltwise calls it.
const SOURCES: [&str; 3] = ["timer", "ipi", "device"];

/// By how many points of a hundred shares may differ.
const TOLERANCE: f64 = 45.0;

/// Wake-ups while the recording had begun and the guest had not yet counted, or had counted already.
const OUTSIDE: u64 = 40;

/// The least share of wake-ups, in percent, of the source that a load is about, unless it has half of its share of interrupts.
const LEAST: f64 = 30.0;

/// Interrupts counted between two copies of /proc/interrupts, by source.
pub(super) fn between(before: &Path, after: &Path) -> Result<Counts> {
    let mut counts = parse(&text(after)?);
    subtract(&mut counts, &parse(&text(before)?));
    Ok(counts)
}

fn parse(text: &str) -> Counts {
    let mut counts = Counts::new();
    for line in text.lines() {
        let Some((name, rest)) = line.split_once(':') else {
            continue;
        };
        let source = match name.trim() {
            "LOC" => "timer",
            "RES" | "CAL" => "ipi",
            name if name.bytes().all(|byte| byte.is_ascii_digit()) => "device",
            _ => continue,
        };
        let numbers = rest
            .split_whitespace()
            .map_while(|it| it.parse::<u64>().ok());
        *counts.entry(source.to_owned()).or_default() += numbers.sum::<u64>();
    }
    counts
}

/// Wake-ups of all vCPUs, by what they came from.
pub(super) fn wakes(report: &Report) -> Counts {
    let mut sum = Counts::new();
    for (_, vcpu) in report.vcpus() {
        for (wake, count) in &vcpu.account.wakes {
            *sum.entry(wake.clone()).or_default() += count;
        }
    }
    sum
}

/// Compares shares, and that most wake-ups come from where they should, where interrupts do: emulated slowly, ticks are more.
pub(super) fn judge(
    interrupts: &Counts,
    wakes: &Counts,
    expected: Option<&str>,
    found: &mut Found,
) {
    let woken = |name: &str| count(wakes, name);
    let all_woken: u64 = SOURCES.iter().map(|name| woken(name)).sum();
    let all: u64 = interrupts.values().sum();
    let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    let _ = write!(found.summary, "; wakes/interrupts");
    for name in SOURCES {
        let ours = percent(woken(name), all_woken);
        let theirs = percent(count(interrupts, name), all);
        let _ = write!(found.summary, " {name} {ours:.0}/{theirs:.0} %");
        found.require(
            (ours - theirs).abs() <= TOLERANCE,
            format!("{name}: {ours:.1} % of wake-ups, {theirs:.1} % of the guest's interrupts"),
        );
        let (wakes, interrupts) = (woken(name), count(interrupts, name));
        found.require(
            wakes <= interrupts + OUTSIDE,
            format!("{name}: {wakes} wake-ups by {interrupts} interrupts"),
        );
        if expected == Some(name) && ours < LEAST {
            let text = format!("only {ours:.1} % of wake-ups by {name}");
            if theirs < LEAST {
                crate::say::skipped(&format!("{text}: the guest had no more interrupts"));
            } else if 2.0 * ours < theirs {
                found.disagree(text);
            }
        }
    }
    let unknown = woken("unknown") + woken("other");
    found.require(
        unknown * 20 <= all_woken,
        format!("{unknown} wake-ups beside {all_woken} came from nowhere known"),
    );
}

#[cfg(test)]
mod test {
    use super::*;

    const BEFORE: &str = "           CPU0       CPU1\n\
        \x20 4:          0         12   IO-APIC   4-edge      ttyS0\n\
        \x2028:         10          0   PCI-MSI 16385-edge      virtio0-input.0\n\
        LOC:        100        200   Local timer interrupts\n\
        RES:          3          4   Rescheduling interrupts\n\
        ERR:          0\n";

    #[test]
    fn interrupts_have_sources() {
        let parsed = parse(BEFORE);
        let counts = SOURCES.map(|source| count(&parsed, source));
        assert_eq!(counts, [300, 7, 22]);
    }

    #[test]
    fn shares_that_part_are_told() {
        let judged = |timer: u64, ipi: u64, unknown: u64| {
            let wakes = [("timer", timer), ("ipi", ipi), ("unknown", unknown)];
            let wakes = wakes.map(|(name, count)| (name.to_owned(), count)).into();
            let mut found = Found::default();
            let interrupts = parse(BEFORE);
            judge(&interrupts, &wakes, Some("timer"), &mut found);
            found.disagreements.len()
        };
        assert_eq!(judged(90, 10, 0), 0);
        assert_eq!(judged(40, 47, 0), 2, "timer and ipi part");
        assert_eq!(judged(40, 48, 0), 3, "and there were fewer IPIs");
        assert_eq!(judged(10, 47, 0), 3, "and too few are timers");
        assert_eq!(judged(90, 10, 10), 1, "and too many are unknown");
    }
}
