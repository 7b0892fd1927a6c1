//! Samples of a stock kernel's own KVM: recorded with the exits being handled, named by function, none
//! lost, and as many in the folded stacks as were taken.

use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use super::check::Found;
use super::reported::{list, read, text};

/// Fewer samples than this say nothing of shares.
const ENOUGH: u64 = 30;

/// One in so many samples of hlt at least polls or blocks; the rest is on the way there and back. Of some
/// 50 samples it was a quarter, of 30 a third: what sleeps is not sampled.
const LEAST_HALTING: u64 = 6;

pub(super) fn compare(dir: &Path) -> Result<Found> {
    Ok(judge(
        &read(&dir.join("profile.json"))?,
        &text(&dir.join("folded"))?,
    ))
}

fn samples(of: &Value) -> u64 {
    of["samples"].as_u64().unwrap_or(0)
}

fn begins(name: &Value, text: &str) -> bool {
    name.as_str().is_some_and(|name| name.starts_with(text))
}

/// Samples of an exit that poll or block.
fn halting(exit: &Value) -> u64 {
    let of_halts = list(exit, "areas").iter();
    let of_halts = of_halts.filter(|area| begins(&area["name"], "halt "));
    of_halts.map(samples).sum()
}

/// Judges what `haltwise report --profile --json` says, and its folded stacks.
fn judge(profile: &Value, folded: &str) -> Found {
    let mut found = Found::default();
    let taken = samples(&profile["total"]);
    found.require(taken >= ENOUGH, format!("only {taken} samples"));
    let recording = &profile["recording"];
    let lost = &recording["lost"];
    found.require(*lost == 0, format!("{lost} events were lost"));
    let has_exits = recording["exits_told"] == true;
    found.require(has_exits, "samples have no exits");
    let counts = folded.lines().filter_map(|line| line.rsplit_once(' '));
    let in_stacks: u64 = counts.filter_map(|(_, n)| n.parse::<u64>().ok()).sum();
    let sides = list(profile, "sides");
    let by_side: u64 = sides.iter().map(samples).sum();
    for (counted, of) in [(in_stacks, "in folded stacks"), (by_side, "by side")] {
        let text = format!("{counted} samples {of}, {taken} taken");
        found.require(counted == taken, text);
    }
    // Functions of modules have names, and are the modules'.
    let symbols = list(profile, "symbols").iter();
    let of_kvm: Vec<_> = symbols.filter(|it| begins(&it["module"], "kvm")).collect();
    let mut names = of_kvm.iter().filter_map(|it| it["own"]["name"].as_str());
    found.require(
        names.any(|name| !name.contains("+0x")),
        "no function of KVM's modules has a name",
    );
    let exits = list(profile, "exits").iter();
    let (halts, others): (Vec<_>, Vec<_>) = exits
        .filter(|exit| exit["by"] == "kvm_exit")
        .partition(|exit| exit["name"] == "hlt");
    let of_hlt: u64 = halts.iter().copied().map(samples).sum();
    found.require(!halts.is_empty(), "no sample has the exit hlt");
    let of_halts: u64 = halts.into_iter().map(halting).sum();
    found.require(
        of_hlt < ENOUGH || of_halts * LEAST_HALTING >= of_hlt,
        format!("only {of_halts} of {of_hlt} samples of hlt poll or block"),
    );
    for other in others {
        let (count, name) = (halting(other), &other["name"]);
        let text = format!("{count} samples of {name} poll or block");
        found.require(count == 0, text);
    }
    let guest = sides.iter().find(|side| side["name"] == "guest");
    found.summary = format!(
        "{taken} samples, {of_hlt} of hlt, {} in the guest, {} functions of KVM's modules",
        guest.map_or(0, samples),
        of_kvm.len(),
    );
    found
}

#[cfg(test)]
mod test {
    use super::*;

    fn sound() -> Value {
        serde_json::json!({
            "recording": {"exits_told": true, "lost": 0},
            "total": {"samples": 100},
            "sides": [{"name": "guest", "samples": 20}, {"name": "kernel", "samples": 80}],
            "exits": [
                {"name": "hlt", "samples": 60, "by": "kvm_exit", "areas": [
                    {"name": "halt polling", "samples": 40}, {"name": "scheduler", "samples": 20}]},
                {"name": "io", "samples": 7, "by": "kvm_exit", "areas": [
                    {"name": "other KVM", "samples": 7}]},
            ],
            "symbols": [{"module": "kvm", "own": {"name": "kvm_vcpu_check_block", "samples": 40}}],
        })
    }

    #[test]
    fn what_is_sound_passes_and_each_fault_is_found() {
        let folded = "a;b 60\na;[guest kernel] 40\n";
        assert_eq!(judge(&sound(), folded).disagreements, [""; 0]);
        for (fault, wrong) in [
            ("/recording/exits_told", Value::from(false)),
            ("/recording/lost", 1.into()),
            ("/total/samples", 101.into()),
            ("/exits/0/by", "stack".into()),
            ("/exits/0/areas/0/samples", 9.into()),
            ("/exits/1/areas/0/name", "halt blocking".into()),
            ("/symbols/0/own/name", "kvm+0x10".into()),
        ] {
            let mut profile = sound();
            *profile.pointer_mut(fault).unwrap() = wrong;
            assert!(!judge(&profile, folded).disagreements.is_empty(), "{fault}");
        }
        assert_eq!(judge(&sound(), "a 99\n").disagreements.len(), 1);
    }
}
