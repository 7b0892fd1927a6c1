//! Pairs to compare: which VM of one capture is which of the other.

use std::collections::BTreeSet;

use anyhow::anyhow;
use haltwise_core::ids::VmIndex;
use haltwise_core::recording::Roster;

use crate::exit::{Exit, Failure};
use crate::page::harmless;
use crate::reading::select;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) vms: Vec<VmIndex>,
}

/// A VM of A and the same VM of B; `None` for the host, with threads that could not be placed.
pub(crate) type Pair = Option<[Named; 2]>;

#[derive(Debug, Default)]
pub(crate) struct Pairing {
    /// The host first, if it is more than its only VM.
    pub(crate) pairs: Vec<Pair>,
    pub(crate) only_a: Vec<String>,
    pub(crate) only_b: Vec<String>,
}

impl Pairing {
    /// The VMs of one capture, pair by pair; `None` for the host.
    pub(super) fn vms(&self, side: fn(&[Named; 2]) -> &Named) -> Vec<Option<&[VmIndex]>> {
        let pairs = self.pairs.iter();
        pairs
            .map(|it| it.as_ref().map(|it| &*side(it).vms))
            .collect()
    }
}

/// Finds pairs: those `asked` for (`NAME` or `NAME=NAME`, names or processes), else those of one name,
/// else the only VM of each. `unplaced` says that some halts have no VM: those are in the host's figures
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
            Ok::<_, Failure>(Named::new(roster, found, selector))
        };
        let pair = Some([find(a, one, "A")?, find(b, other, "B")?]);
        if !made.pairs.contains(&pair) {
            made.pairs.push(pair);
        }
    }
    Ok(made)
}

/// The VM that `selector` means in A (a name, else a process), and in B the VM of the same name, or the
/// only VM of each. A process number says nothing of B: after a restart, or on another host, it is another's.
pub(crate) fn of_vm(a: &Roster, b: &Roster, selector: &str) -> Result<Pairing, Failure> {
    let in_a = Named::new(a, select::vms(a, Some(selector))?, selector);
    let known = names(b);
    let only = (names(a).len() == 1 && known.len() == 1).then_some(&known);
    let namesake = only.and_then(BTreeSet::first).unwrap_or(&in_a.name);
    let in_b = Named::all(b, namesake);
    if in_b.vms.is_empty() {
        let known: Vec<String> = known.iter().map(|name| harmless(name)).collect();
        let error = anyhow!("compare VMs: in B: no VM `{}`", harmless(&in_a.name));
        let hint = format!(
            "B holds {}; `haltwise diff --vm NAME=NAME` compares VMs of different names",
            match &known[..] {
                [] => "no VM at all".to_owned(),
                known => known.join(", "),
            }
        );
        return Err(Failure::new(Exit::Usage, error).hint(hint));
    }
    Ok(Pairing {
        pairs: vec![Some([in_a, in_b])],
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
    let vm = |(one, other): (&String, &String)| Some([Named::all(a, one), Named::all(b, other)]);
    let mut made = Pairing::default();
    if !alone || unplaced {
        made.pairs.push(None);
    }
    made.pairs.extend(both.into_iter().map(vm));
    if !alone {
        made.only_a = names_a.difference(&names_b).cloned().collect();
        made.only_b = names_b.difference(&names_a).cloned().collect();
    }
    made
}

fn names(roster: &Roster) -> BTreeSet<String> {
    roster.vms.iter().map(|vm| vm.name.clone()).collect()
}

impl Named {
    fn new(roster: &Roster, vms: Vec<VmIndex>, selector: &str) -> Self {
        let first = roster.vms.iter().find(|vm| vms.contains(&vm.index));
        let name = first.map_or(selector, |vm| &vm.name).to_owned();
        Self { name, vms }
    }

    fn all(roster: &Roster, name: &str) -> Self {
        let vms = roster.vms.iter().filter(|vm| vm.name == name);
        Self {
            vms: vms.map(|vm| vm.index).collect(),
            name: name.to_owned(),
        }
    }
}

#[cfg(test)]
mod test;
