//! Exits of what comes and goes while they are counted: CPUs, VMs, and the threads of vCPUs.

use std::path::Path;

use anyhow::Result;

use super::super::LIMIT;
use super::super::check::Check;
use super::{Exits, Found, Lab, judge, read};

pub(crate) const NAME: &str = "comings";

const SHORT_LIVED: u64 = 6;

/// Rounds of the guest that changes its thread with each.
const HOPS: u64 = 60;

pub(crate) fn check() -> Check {
    let script = include_str!("comings.sh")
        .replace("VMS", &SHORT_LIVED.to_string())
        .replace("HOPS", &HOPS.to_string());
    Check::new(NAME, script, LIMIT, |left| {
        let out = &left.out_dir;
        vec![
            ("hotplug", hotplug(&out.join("hotplug"))),
            ("short-lived", short_lived(&out.join("short"))),
            ("hop", hop(&out.join("hop"))),
        ]
    })
}

/// Two VMs whose vCPUs are driven from CPU to CPU: everything to the unit, as where nothing comes or goes.
fn hotplug(dir: &Path) -> Result<Found> {
    let lab: Lab = read(&dir.join("lab.json"))?;
    let turns: u64 = read(&dir.join("turns"))?;
    let mut found = judge(&lab, &read(&dir.join("exits.json"))?);
    found.require(
        turns >= 2,
        format!("the CPU came and went {turns} times only"),
    );
    found.say(format_args!("a CPU came or went {turns} times"));
    Ok(found)
}

/// VMs that live for a moment: each has all of its exits, under its name.
fn short_lived(dir: &Path) -> Result<Found> {
    let exits: Exits = read(&dir.join("exits.json"))?;
    let labs = (1..=SHORT_LIVED).map(|nth| {
        let lab: Lab = read(&dir.join(format!("lab{nth}.json")))?;
        Ok((format!("short{nth}"), lab))
    });
    Ok(judge_each(&labs.collect::<Result<Vec<_>>>()?, &exits))
}

fn judge_each(labs: &[(String, Lab)], exits: &Exits) -> Found {
    let mut found = Found::default();
    for (name, lab) in labs {
        let groups = exits.groups.iter();
        let groups = groups.filter(|group| group.vm_name.as_deref() == Some(name));
        let counted: u64 = groups.map(|group| group.exits + group.halt_exits).sum();
        found.equal(name, lab.stat("exits"), counted);
    }
    let (vcpus, vms) = (exits.groups.len(), labs.len());
    found.require(vcpus == vms, format!("{vcpus} vCPUs for {vms} VMs"));
    found.summary = format!(
        "{} exits of {vms} VMs one after the other: each has its own",
        exits.total.exits
    );
    found
}

/// A vCPU that goes on in another thread after each return to the VMM: one vCPU to us, every exit counted,
/// and only those without a time that one thread began and another ended.
fn hop(dir: &Path) -> Result<Found> {
    let lab: Lab = read(&dir.join("lab.json"))?;
    Ok(judge_hops(&lab, &read(&dir.join("exits.json"))?))
}

fn judge_hops(lab: &Lab, exits: &Exits) -> Found {
    let mut found = Found::default();
    let total = &exits.total;
    let (made, hops) = (lab.stat("exits"), lab.made("pio-out-0xf5"));
    let vcpus: Vec<_> = exits.groups.iter().map(|group| group.vcpu).collect();
    for (what, counted, expected) in [
        ("threads changed", hops, HOPS),
        ("exits", total.exits, made),
        ("entries", total.entries, made),
        ("entries without an exit", total.lone_entries, 0),
        ("exits without room", total.other, 0),
        ("exits without a time", total.untimed, hops + super::END),
    ] {
        found.equal(what, expected, counted);
    }
    found.require(
        vcpus == [Some(0)],
        format!("one vCPU is recorded as {vcpus:?}"),
    );
    found.summary = format!(
        "{} exits of a vCPU in {} threads: as made, {} without a time",
        total.exits,
        hops + 1,
        total.untimed
    );
    found
}

#[cfg(test)]
mod test {
    use serde_json::json;

    use super::*;

    fn lab(exits: u64, hops: u64) -> Lab {
        let vcpu = json!({"exits": {"pio-out-0xf5": hops}, "stats": {"exits": exits}});
        serde_json::from_value(json!({"vms": [{"vcpus": [vcpu]}]})).unwrap()
    }

    fn exits(groups: &[(&str, u64)], untimed: u64) -> Exits {
        let all: u64 = groups.iter().map(|(_, exits)| exits).sum();
        let group = |(name, exits): &(&str, u64)| json!({"vm_name": name, "vcpu": 0, "exits": exits - 1, "halt_exits": 1});
        let groups: Vec<_> = groups.iter().map(group).collect();
        let total = json!({"exits": all, "entries": all, "untimed": untimed});
        serde_json::from_value(json!({"total": total, "groups": groups})).unwrap()
    }

    #[test]
    fn a_vm_that_lacks_an_exit_or_has_anothers_is_found() {
        let labs = [("a".to_owned(), lab(7, 0)), ("b".to_owned(), lab(9, 0))];
        let disagreements = |counted: &Exits| judge_each(&labs, counted).disagreements.len();
        assert_eq!(disagreements(&exits(&[("a", 7), ("b", 9)], 2)), 0);
        assert_eq!(disagreements(&exits(&[("a", 6), ("b", 10)], 2)), 2);
        assert_eq!(disagreements(&exits(&[("a", 7), ("b", 8), ("?", 1)], 2)), 2);
    }

    #[test]
    fn a_time_too_many_is_a_pair_of_two_threads_and_is_found() {
        let disagreements = |untimed| {
            let counted = exits(&[("hop", 500)], untimed);
            judge_hops(&lab(500, HOPS), &counted).disagreements.len()
        };
        assert_eq!([HOPS + 1, HOPS].map(disagreements), [0, 1]);
    }
}
