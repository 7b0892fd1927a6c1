//! apply, undo and status on a real kernel's parameters: the only place where they write any.
//!
//! `knob/script.sh` runs inside and judges values and exit codes; what running VMs made of the write is
//! judged here, by what haltwise and its recorder left behind.

use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use super::LIMIT;
use super::check::{Check, Found};
use super::reported::{Proof, Report, Verified, list, read};

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
    let mut found = Found::default();
    let document = |name: &str| read::<Value>(&dir.join(name));
    watched(&document("apply.json")?, &BY_CEILING, &mut found);
    let status = document("status.json")?;
    saw("status", &status, &BY_CEILING, &mut found);
    saw("status", &status, &[DISABLED], &mut found);
    watched(&document("halts.json")?, &BY_HALTS, &mut found);
    let verified: Verified = read(&dir.join("verify.json"))?;
    recorded(&read(&dir.join("report.json"))?, &verified, &mut found);
    for (name, ceilings) in [("planned", PLANNED), ("unplanned", UNPLANNED)] {
        let reported: Report = read(&dir.join(format!("{name}.json")))?;
        governed(name, &reported, ceilings, &mut found);
    }
    settled(&document("open.json")?, &mut found);
    proved(&read(&dir.join("prove.json"))?, &mut found);
    found.summary = format!(
        "applied, planned, proved, killed, refused, taken over, undone; {} halts verify across the change",
        verified.checked,
    );
    Ok(found)
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

/// Checks that `apply` could watch VMs, and saw each as expected.
pub(super) fn watched(applied: &Value, expected: &[Expected], found: &mut Found) {
    let why = &applied["vms_unwatched"];
    found.require(why.is_null(), format!("apply could not watch: {why}"));
    saw("apply", applied, expected, found);
}

fn saw(verb: &str, document: &Value, expected: &[Expected], found: &mut Found) {
    for (name, effect, ceiling) in expected {
        let vm = list(document, "vms").iter().find(|vm| vm["name"] == *name);
        let has_no_window = |vm: &Value| {
            vm.get("window_ns") == Some(&Value::Null) && !list(vm, "vetoed_vcpus").is_empty()
        };
        let is_same = |vm: &Value| {
            vm["effect"] == *effect
                && vm["ceiling_ns"] == Value::from(*ceiling)
                && (*effect != DISABLED.1 || has_no_window(vm))
        };
        let text = format!("{verb} saw {name} as {vm:?}, not {effect}");
        found.require(vm.is_some_and(is_same), text);
    }
}

fn ceilings_of(reported: &Report, name: &str) -> Vec<u64> {
    let vm = reported.vms.iter().find(|vm| vm.name == name);
    let ceilings = vm.into_iter().flat_map(|vm| &vm.account.ceilings);
    let ceilings = ceilings.filter(|it| it.halts > 0);
    ceilings.map(|it| it.ns).collect()
}

fn recorded(reported: &Report, verified: &Verified, found: &mut Found) {
    for (name, ceilings) in [("free", &CEILINGS[..]), ("capped", &[CAP])] {
        let seen = ceilings_of(reported, name);
        for ns in ceilings {
            let text = format!("no halt of {name} was recorded under {ns} ns");
            found.require(seen.contains(&u64::from(*ns)), text);
        }
    }
    found.require(
        verified.checked > 0 && verified.differences == 0,
        format!("the recording does not verify: {verified:?}"),
    );
}

/// Each VM's ceiling under the plan, and after its undo: that of the parameter, and the VMM's own.
const PLANNED: [(&str, u64); 2] = [("free", 0), ("capped", 50_000)];
const UNPLANNED: [(&str, u64); 2] = [("free", CEILINGS[0] as u64), ("capped", CAP as u64)];

fn governed(recording: &str, reported: &Report, ceilings: [(&str, u64); 2], found: &mut Found) {
    for (name, ns) in ceilings {
        let seen = ceilings_of(reported, name);
        let text = format!("{recording}: {name} halted under {seen:?}, not {ns} ns");
        found.require(seen == [ns], text);
    }
}

/// Checks the status of the step that was cut off before its write.
fn settled(status: &Value, found: &mut Found) {
    let turns = list(&status["journal"]["open"], "turns").iter();
    let results: Vec<&Value> = turns.map(|turn| &turn["result"]).collect();
    let text = format!("a kill before the write is reported as {results:?}");
    found.require(results == ["not-done"], text);
}

const ROUNDS: usize = 2;

/// Checks the result of prove: a VM that follows polls in the blocks of B, and in no other.
fn proved(proved: &Proof, found: &mut Found) {
    proved.judge("prove", "host", ROUNDS, found);
    for (number, block) in (1..).zip(&proved.blocks) {
        let (under, halts) = (&block.under, block.halts);
        let polling = block.figures.get("poll-cpu").copied().unwrap_or(f64::NAN);
        let as_set = if under == "b" {
            polling > 0.0
        } else {
            polling == 0.0
        };
        found.require(
            halts > 0 && as_set,
            format!(
                "block {number} of prove ({under}): {halts} halts, {polling} % of a CPU in polling"
            ),
        );
    }
}

#[cfg(test)]
mod test;
