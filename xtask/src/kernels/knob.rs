//! apply, undo and status on a real kernel's parameters: the only place where they write any.
//!
//! `knob/script.sh` runs inside and judges values and exit codes; what running VMs made of the write is
//! judged here, by what haltwise and its recorder left behind.

use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use super::LIMIT;
use super::check::Check;
use super::reported::{Proof, Report, Verified, list, read};
use super::witness::Found;

pub(crate) const NAME: &str = "knob";

/// The ceiling before, and the one that is applied while VMs run, in nanoseconds.
const CEILINGS: [u32; 2] = [200_000, 80_000];

const CAP: u32 = 70_000;

pub(crate) fn check() -> Check {
    let script = include_str!("knob/script.sh").to_owned();
    Check::new(NAME, script, 2 * LIMIT, |left| {
        vec![(NAME, judge(&left.out_dir.join("knob")))]
    })
}

fn judge(dir: &Path) -> Result<Found> {
    let applied: Value = read(&dir.join("apply.json"))?;
    let reported: Report = read(&dir.join("report.json"))?;
    let verified: Verified = read(&dir.join("verify.json"))?;
    let open: Value = read(&dir.join("open.json"))?;
    let status: Value = read(&dir.join("status.json"))?;
    let by_halts: Value = read(&dir.join("halts.json"))?;
    let measured: Proof = read(&dir.join("prove.json"))?;
    let mut wrong = watched(&applied, &BY_CEILING);
    wrong.extend(saw("status", &status, &BY_CEILING));
    wrong.extend(saw("status", &status, &[DISABLED]));
    wrong.extend(watched(&by_halts, &BY_HALTS));
    wrong.extend(recorded(&reported, &verified));
    for (name, ceilings) in [("planned", PLANNED), ("unplanned", UNPLANNED)] {
        let reported: Report = read(&dir.join(format!("{name}.json")))?;
        wrong.extend(governed(name, &reported, ceilings));
    }
    wrong.extend(settled(&open));
    wrong.extend(proved(&measured));
    let summary = format!(
        "applied, planned, proved, killed, refused, taken over, undone; {} halts verify across the change",
        verified.checked,
    );
    Ok(Found {
        summary,
        disagreements: wrong,
    })
}

/// A VM, and what apply must say of it: its effect and its ceiling.
pub(super) type Expected = (&'static str, &'static str, Option<u32>);

const BY_CEILING: [Expected; 2] = [
    ("free", "follows", Some(CEILINGS[1])),
    ("capped", "own-cap", Some(CAP)),
];

const DISABLED: Expected = ("haltpoll", "guest-disabled", None);

const BY_HALTS: [Expected; 2] = [
    ("free", "follows", Some(2_000_000)),
    ("capped", "keeps", None),
];

/// Whether `apply` could watch VMs, and saw each as expected.
pub(super) fn watched(applied: &Value, expected: &[Expected]) -> Vec<String> {
    let why = &applied["vms_unwatched"];
    let unwatched = (!why.is_null()).then(|| format!("apply could not watch: {why}"));
    let mut wrong = Vec::from_iter(unwatched);
    wrong.extend(saw("apply", applied, expected));
    wrong
}

fn saw(verb: &str, document: &Value, expected: &[Expected]) -> Vec<String> {
    let differs = |(name, effect, ceiling): &Expected| {
        let vm = list(document, "vms").iter().find(|vm| vm["name"] == *name);
        let has_no_window = |vm: &Value| {
            vm.get("window_ns") == Some(&Value::Null) && !list(vm, "vetoed_vcpus").is_empty()
        };
        let is_same = |vm: &Value| {
            vm["effect"] == *effect
                && vm["ceiling_ns"] == Value::from(*ceiling)
                && (*effect != DISABLED.1 || has_no_window(vm))
        };
        (!vm.is_some_and(is_same)).then(|| format!("{verb} saw {name} as {vm:?}, not {effect}"))
    };
    expected.iter().filter_map(differs).collect()
}

/// Ceilings under which a VM halted, in nanoseconds.
fn ceilings_of(reported: &Report, name: &str) -> Vec<u64> {
    let vm = reported.vms.iter().find(|vm| vm.name == name);
    let ceilings = vm.into_iter().flat_map(|vm| &vm.account.ceilings);
    let ceilings = ceilings.filter(|it| it.halts > 0);
    ceilings.map(|it| it.ns).collect()
}

fn recorded(reported: &Report, verified: &Verified) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, ceilings) in [("free", &CEILINGS[..]), ("capped", &[CAP])] {
        let seen = ceilings_of(reported, name);
        for ns in ceilings.iter().filter(|ns| !seen.contains(&(**ns).into())) {
            wrong.push(format!("no halt of {name} was recorded under {ns} ns"));
        }
    }
    if verified.checked == 0 || verified.differences > 0 {
        wrong.push(format!("the recording does not verify: {verified:?}"));
    }
    wrong
}

/// Each VM's ceiling under the plan, and after its undo: that of the parameter, and the VMM's own.
const PLANNED: [(&str, u64); 2] = [("free", 0), ("capped", 50_000)];
const UNPLANNED: [(&str, u64); 2] = [("free", CEILINGS[0] as u64), ("capped", CAP as u64)];

/// Whether all halts of a recording were under these ceilings.
fn governed(recording: &str, reported: &Report, ceilings: [(&str, u64); 2]) -> Vec<String> {
    let differs = |(name, ns): (&str, u64)| {
        let seen = ceilings_of(reported, name);
        (seen != [ns]).then(|| format!("{recording}: {name} halted under {seen:?}, not {ns} ns"))
    };
    ceilings.into_iter().filter_map(differs).collect()
}

/// Checks the status of the step that was cut off before its write.
fn settled(status: &Value) -> Option<String> {
    let turns = list(&status["journal"]["open"], "turns").iter();
    let results: Vec<&Value> = turns.map(|turn| &turn["result"]).collect();
    (results != ["not-done"]).then(|| format!("a kill before the write is reported as {results:?}"))
}

/// Rounds that are asked for, of three blocks each.
const ROUNDS: usize = 2;

/// Checks the result of prove: a VM that follows polls in the blocks of B, and in no other.
fn proved(proved: &Proof) -> Vec<String> {
    let mut wrong = proved.wrong("host", ROUNDS);
    for (number, block) in (1..).zip(&proved.blocks) {
        let polling = block.figures.get("poll-cpu").copied().unwrap_or(f64::NAN);
        let as_set = if block.under == "b" {
            polling > 0.0
        } else {
            polling == 0.0
        };
        if block.halts == 0 || !as_set {
            wrong.push(format!(
                "block {number} of prove ({}): {} halts, {polling} % of a CPU in polling",
                block.under, block.halts
            ));
        }
    }
    wrong
}

#[cfg(test)]
mod test;
