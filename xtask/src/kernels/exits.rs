//! Exits, counted by the recorder, against those that the lab's guest makes and KVM's own count.
//!
//! The guest makes prime numbers of each kind at places of their own, so that each must come back to
//! the unit, by its reason and by its port, MSR, address or leaf.

pub(super) mod comings;
pub(super) mod explained;
pub(super) mod perf_stat;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use super::check::Found;
use super::reported::{ExitRow, Exits, Lab, read, text};

/// The guest's kinds that have a sub-key: the lab's name, and what the recorder must call it.
const SUBS: [(&str, &str, u64); 7] = [
    ("pio-out-0x510", "pio_write", 0x510),
    ("pio-in-0x511", "pio_read", 0x511),
    ("mmio-write-0xd0000000", "mmio_write", 0xd000_0000),
    ("mmio-read-0xd0000004", "mmio_read", 0xd000_0004),
    ("cpuid", "cpuid", 0x4000_0000),
    ("rdmsr", "msr_read", 0x179),
    ("wrmsr", "msr_write", 0x17a),
];

/// The guest says by one `out` that it has ended.
const END: u64 = 1;

pub(super) fn compare(dir: &Path, check: &str) -> Result<Found> {
    let lab: Lab = read(&dir.join(check).with_extension("json"))?;
    let exits: Exits = read(&dir.join("exits.json"))?;
    let mut found = judge(&lab, &exits);
    let kernel = kernel_hist(&text(&dir.join("kernel_hist"))?);
    judge_kernel(&kernel, &exits, &mut found);
    Ok(found)
}

fn judge(lab: &Lab, exits: &Exits) -> Found {
    let mut found = Found::default();
    let vcpus = lab.vcpus().count() as u64;
    let sum = |rows: &[ExitRow], is_it: &dyn Fn(&ExitRow) -> bool| -> u64 {
        let rows = rows.iter().filter(|row| is_it(row));
        rows.map(|row| row.count).sum()
    };
    for (made_as, kind, sub) in SUBS {
        let is_it = |row: &ExitRow| row.kind == kind && row.sub == Some(sub);
        found.equal(made_as, lab.made(made_as), sum(&exits.subs, &is_it));
    }
    let reason = |name: &str| exits.of_reason(name);
    let returned = |name: &str| sum(&exits.userspace, &|row| row.name == name);
    let ports = lab.made("pio-out-0x510") + lab.made("pio-in-0x511") + END * vcpus;
    let memory = lab.made("mmio-write-0xd0000000") + lab.made("mmio-read-0xd0000004");
    let msrs = sum(&exits.subs, &|row| row.kind.starts_with("msr_"));
    let total = &exits.total;
    for (what, counted, expected) in [
        ("reason cpuid", reason("cpuid"), lab.made("cpuid")),
        ("reason io", reason("io"), ports),
        ("reason msr", reason("msr"), msrs),
        ("reason hlt", reason("hlt"), lab.stat("halt_exits")),
        ("all exits", total.exits, lab.stat("exits")),
        ("KVM_EXIT_IO", returned("KVM_EXIT_IO"), ports),
        ("KVM_EXIT_MMIO", returned("KVM_EXIT_MMIO"), memory),
        ("entries", total.entries, total.exits),
        ("entries without an exit", total.lone_entries, 0),
        ("exits without room", total.other, 0),
        // The last exit of each vCPU has no entry after it, and every other exit has.
        ("exits without a time", total.untimed, vcpus),
    ] {
        found.equal(what, expected, counted);
    }
    for row in &exits.reasons {
        let what = format!("parts of the time of {}", row.name);
        found.equal(what, row.time_ns, row.kernel_ns + row.user_ns);
    }
    found.summary = format!(
        "{} exits ({} io, {} msr, {} cpuid, {} hlt), {} returns to the VMM: as made",
        total.exits,
        reason("io"),
        reason("msr"),
        reason("cpuid"),
        reason("hlt"),
        ports + memory,
    );
    found
}

/// Pairs of exit and entry, and their time in nanoseconds, by reason.
type Pairs<Reason> = BTreeMap<Reason, (u64, f64)>;

fn our_pairs<Reason: Ord>(exits: &Exits, reason: impl Fn(&ExitRow) -> Reason) -> Pairs<Reason> {
    let mut ours = Pairs::new();
    for row in &exits.reasons {
        let (pairs, ns) = ours.entry(reason(row)).or_default();
        *pairs += row.count - row.untimed;
        *ns += row.time_ns as f64;
    }
    ours.retain(|_, (pairs, _)| *pairs > 0);
    ours
}

fn same_counts<Reason: Ord>(one: &Pairs<Reason>, other: &Pairs<Reason>) -> bool {
    let counts = |of| Pairs::iter(of).map(|(reason, (pairs, _))| (reason, *pairs));
    counts(one).eq(counts(other))
}

fn time_ns<Reason>(of: &Pairs<Reason>) -> f64 {
    of.values().map(|(_, ns)| ns).sum()
}

/// `{ reason:        120 } hitcount:       2736  ns:  654451852`
fn kernel_hist(text: &str) -> Pairs<u32> {
    let number = |line: &str, name: &str| -> Option<u64> {
        let (_, rest) = line.split_once(name)?;
        rest.split_whitespace().next()?.parse().ok()
    };
    let pair = |line: &str| {
        let reason = u32::try_from(number(line, "reason:")?).ok()?;
        Some((
            reason,
            (number(line, "hitcount:")?, number(line, "ns:")? as f64),
        ))
    };
    text.lines().filter_map(pair).collect()
}

/// The kernel's own pairs must be ours, reason by reason; their time is only printed, since each of the two
/// sees the other's work too.
fn judge_kernel(kernel: &Pairs<u32>, exits: &Exits, found: &mut Found) {
    let ours = our_pairs(exits, |row| row.reason.unwrap_or(u32::MAX));
    found.require(
        same_counts(&ours, kernel),
        format!("the kernel's own pairs by reason: {kernel:?}, ours {ours:?}"),
    );
    let more = (time_ns(&ours) / time_ns(kernel) - 1.0) * 100.0;
    found.say(format_args!(
        "{more:+.1} % in time by the kernel's own pairs"
    ));
}

#[cfg(test)]
mod test {
    use serde_json::{Value, json};

    use super::super::reported::{Counts, changed};
    use super::*;

    /// A guest that made as many of each kind as its place in the list.
    fn lab() -> Lab {
        let made = (1..).zip(SUBS).map(|(n, (name, ..))| (name.to_owned(), n));
        let stats = json!({"halt_exits": 30, "exits": 3 + 1 + 13 + 5 + 30 + 7});
        let vcpu = json!({"exits": made.collect::<Counts>(), "stats": stats});
        serde_json::from_value(json!({"vms": [{"vcpus": [vcpu]}]})).unwrap()
    }

    fn exits() -> Value {
        let row = |(name, count): &(&str, u64)| {
            json!({"name": name, "reason": count, "count": count, "time_ns": 9, "kernel_ns": 5,
                "user_ns": 4})
        };
        let rows = |rows: &[(&str, u64)]| rows.iter().map(row).collect::<Vec<_>>();
        let sub = |(n, (_, kind, sub))| json!({"kind": kind, "sub": sub, "count": n});
        let subs = (1..).zip(SUBS).map(sub).collect::<Vec<Value>>();
        json!({
            "total": {"exits": 59, "entries": 59, "lone_entries": 0, "other": 0, "untimed": 1},
            "reasons": rows(&[("io", 4), ("msr", 13), ("cpuid", 5), ("hlt", 30), ("npf", 7)]),
            "userspace": rows(&[("KVM_EXIT_IO", 4), ("KVM_EXIT_MMIO", 7)]),
            "subs": subs,
        })
    }

    #[test]
    fn agreement_is_found_and_one_off_is_not() {
        let disagreements = |changes: &[(&str, Value)]| {
            let found = judge(&lab(), &changed(&exits(), changes));
            found.disagreements.len()
        };
        assert_eq!(disagreements(&[]), 0);
        let counts = (0..7).map(|nth| format!("/subs/{nth}/count"));
        let counts = counts.chain((0..4).map(|nth| format!("/reasons/{nth}/count")));
        let counts = counts.chain((0..2).map(|nth| format!("/userspace/{nth}/count")));
        let totals = ["exits", "entries", "lone_entries", "other", "untimed"];
        let counts = counts.chain(totals.map(|name| format!("/total/{name}")));
        let times = ["time_ns", "kernel_ns", "user_ns"];
        for field in counts.chain(times.map(|name| format!("/reasons/4/{name}"))) {
            assert!(disagreements(&[(&field, json!(99))]) > 0, "{field}");
        }
    }

    #[test]
    fn the_kernels_own_pairs_must_be_ours() {
        let judged = |halts: u64| {
            let counts = [(4, 4), (13, 13), (5, 5), (30, halts), (7, 7)];
            let line = |(reason, count)| {
                format!("{{ reason: {reason:>10} }} hitcount: {count:>10}  ns:  10\n")
            };
            let lines = counts.map(line).concat();
            let kernel = kernel_hist(&format!(
                "# trigger info: hist\n\n{lines}\nTotals:\n    Hits: 59\n"
            ));
            let mut found = Found::default();
            judge_kernel(&kernel, &changed(&exits(), &[]), &mut found);
            found
        };
        let found = judged(30);
        assert_eq!(found.disagreements, [""; 0]);
        assert_eq!(found.summary, "-10.0 % in time by the kernel's own pairs");
        assert_eq!(judged(29).disagreements.len(), 1);
    }
}
