//! Whose figures are compared: which VM of one capture is which of the other.

use std::collections::BTreeSet;

use anyhow::anyhow;
use haltwise_core::ids::VmIndex;
use haltwise_core::recording::Roster;

use crate::exit::{Exit, Failure};
use crate::page::harmless;
use crate::reading::select;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Everyone's, also of threads that could not be placed.
    Host,
    /// Those of a VM: of all VMs of its name.
    Vm(Vec<VmIndex>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    /// The VM's name in A; `None` for the host.
    pub(crate) name_a: Option<String>,
    pub(crate) name_b: Option<String>,
    pub(crate) a: Whose,
    pub(crate) b: Whose,
}

#[derive(Debug, Default)]
pub(crate) struct Pairing {
    /// The host first, if it is more than its only VM.
    pub(crate) pairs: Vec<Pair>,
    /// VMs that only one of the captures has.
    pub(crate) only_a: Vec<String>,
    pub(crate) only_b: Vec<String>,
}

/// Finds pairs: those `asked` for (`NAME` or `NAME=NAME`, names or processes), else those of one name,
/// else the only VM of each. `unplaced` says that some halts are nobody's: those are in the host's figures
/// alone.
pub(crate) fn pairs(
    a: &Roster,
    b: &Roster,
    unplaced: bool,
    asked: &[String],
) -> Result<Pairing, Failure> {
    if asked.is_empty() {
        return Ok(by_name(a, b, unplaced));
    }
    let mut made = Pairing::default();
    for text in asked {
        // A name may hold the sign itself.
        let whole = names(a).contains(text) && names(b).contains(text);
        let (one, other) = match text.split_once('=') {
            Some(parts) if !whole => parts,
            _ => (text.as_str(), text.as_str()),
        };
        let find = |roster: &Roster, selector: &str, which: &str| {
            let found = select::vms(roster, Some(selector)).map_err(|mut failure| {
                failure.error = failure.error.context(format!("compare VMs: in {which}"));
                failure
            })?;
            let name = name_of(roster, &found).unwrap_or_else(|| selector.to_owned());
            Ok::<_, Failure>((name, found))
        };
        let ((name_a, a), (name_b, b)) = (find(a, one, "A")?, find(b, other, "B")?);
        let pair = Pair {
            name_a: Some(name_a),
            name_b: Some(name_b),
            a: Whose::Vm(a),
            b: Whose::Vm(b),
        };
        if !made.pairs.contains(&pair) {
            made.pairs.push(pair);
        }
    }
    Ok(made)
}

/// The VM that `selector` means in A (a name, else a process), and in B the VM of the same name, or the
/// only VM of each. A process number says nothing of B: after a restart, or on another host, it is another's.
pub(crate) fn of_vm(a: &Roster, b: &Roster, selector: &str) -> Result<Pairing, Failure> {
    let in_a = select::vms(a, Some(selector))?;
    let name = name_of(a, &in_a).unwrap_or_else(|| selector.to_owned());
    let known = names(b);
    let only = (names(a).len() == 1 && known.len() == 1).then_some(&known);
    let namesake = only.and_then(BTreeSet::first).unwrap_or(&name).clone();
    let in_b = indices(b, &namesake);
    if in_b.is_empty() {
        let known: Vec<String> = known.iter().map(|name| harmless(name)).collect();
        let error = anyhow!("compare VMs: in B: no VM `{}`", harmless(&name));
        let hint = format!(
            "B holds {}; `haltwise diff --vm NAME=NAME` compares VMs of different names",
            match &known[..] {
                [] => "no VM at all".to_owned(),
                known => known.join(", "),
            }
        );
        return Err(Failure::new(Exit::Usage, error).hint(hint));
    }
    let pair = Pair {
        name_a: Some(name),
        name_b: Some(namesake),
        a: Whose::Vm(in_a),
        b: Whose::Vm(in_b),
    };
    Ok(Pairing {
        pairs: vec![pair],
        ..Pairing::default()
    })
}

fn by_name(a: &Roster, b: &Roster, unplaced: bool) -> Pairing {
    let (names_a, names_b) = (names(a), names(b));
    let alone = names_a.len() == 1 && names_b.len() == 1;
    let both: Vec<(&String, &String)> = if alone {
        names_a.iter().zip(&names_b).collect()
    } else {
        let both = names_a.intersection(&names_b);
        both.map(|name| (name, name)).collect()
    };
    let vm = |(one, other): &(&String, &String)| Pair {
        name_a: Some((*one).clone()),
        name_b: Some((*other).clone()),
        a: Whose::Vm(indices(a, one)),
        b: Whose::Vm(indices(b, other)),
    };
    let mut made = Pairing::default();
    if !alone || unplaced {
        made.pairs.push(Pair {
            name_a: None,
            name_b: None,
            a: Whose::Host,
            b: Whose::Host,
        });
    }
    made.pairs.extend(both.iter().map(vm));
    if !alone {
        made.only_a = names_a.difference(&names_b).cloned().collect();
        made.only_b = names_b.difference(&names_a).cloned().collect();
    }
    made
}

fn names(roster: &Roster) -> BTreeSet<String> {
    roster.vms.iter().map(|vm| vm.name.clone()).collect()
}

fn indices(roster: &Roster, name: &str) -> Vec<VmIndex> {
    let vms = roster.vms.iter().filter(|vm| vm.name == name);
    vms.map(|vm| vm.index).collect()
}

fn name_of(roster: &Roster, found: &[VmIndex]) -> Option<String> {
    let vm = roster.vms.iter().find(|vm| found.contains(&vm.index))?;
    Some(vm.name.clone())
}

#[cfg(test)]
mod test;
