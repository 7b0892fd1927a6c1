//! Two captures compared.

pub(crate) mod around;
pub(crate) mod load;
pub(crate) mod page;
pub(crate) mod pair;
pub(crate) mod view;

use std::path::Path;

use anyhow::anyhow;
use haltwise_core::recording::Roster;

use self::load::{Side, Summing};
use self::pair::Pairing;
use self::view::Differences;
use crate::exit::{Exit, Failure};
use crate::reading::opened::Opened;
use crate::reading::pass::pass;

/// Compares two captures. `vms` are pairs of names, `NAME` or `NAME=NAME`; without any, all VMs.
pub(crate) fn compare(a: &Path, b: &Path, vms: &[String]) -> Result<Differences, Failure> {
    let a = Opened::open(a)?;
    let side_a = load::side(&a)?;
    let b = Opened::open(b)?;
    if a.info().side != b.info().side {
        let error = anyhow!("diff: one capture is of a host, the other of a guest's own idle CPUs");
        return Err(Failure::new(Exit::Usage, error).hint("compare captures of the same side"));
    }
    let begun = Begun::new(side_a, load::side(&b)?, |in_a, in_b, unplaced| {
        pair::pairs(in_a, in_b, unplaced, vms)
    })?;
    let mut in_a = begun.summing_a();
    pass(&a, "comparing", &mut [&mut in_a]);
    Ok(begun.finish(in_a))
}

/// Two captures that were looked through, and who of one is compared with whom of the other.
#[derive(Debug)]
pub(crate) struct Begun<'a> {
    a: Side<'a>,
    b: Side<'a>,
    pairing: Pairing,
}

impl<'a> Begun<'a> {
    /// Compares those whom `pair` finds in the VMs of both; its argument says whether some halts belong to no VM.
    fn new(
        a: Side<'a>,
        b: Side<'a>,
        pair: impl FnOnce(&Roster, &Roster, bool) -> Result<Pairing, Failure>,
    ) -> Result<Self, Failure> {
        let sides = [&a.recording, &b.recording];
        let unplaced = sides.iter().any(|it| !it.ledger.unplaced().is_empty());
        let pairing = pair(&a.recording.info.roster, &b.recording.info.roster, unplaced)?;
        Ok(Self { a, b, pairing })
    }

    /// One VM, by its name or process in A, beside the VM of its name in B; without, all.
    pub(crate) fn of_vm(a: Side<'a>, b: Side<'a>, vm: Option<&str>) -> Result<Self, Failure> {
        Self::new(a, b, |in_a, in_b, unplaced| match vm {
            Some(vm) => pair::of_vm(in_a, in_b, vm),
            None => pair::pairs(in_a, in_b, unplaced, &[]),
        })
    }

    pub(crate) fn summing_a(&self) -> Summing {
        self.a.summing(self.pairing.vms(|[a, _]| a))
    }

    pub(crate) fn finish(self, in_a: Summing) -> Differences {
        let mut in_b = self.b.summing(self.pairing.vms(|[_, b]| b));
        pass(self.b.opened, "comparing", &mut [&mut in_b]);
        let (a, b) = ((&self.a, in_a.finish()), (&self.b, in_b.finish()));
        view::build(a, b, self.pairing)
    }
}

pub(crate) const SCHEMA: u32 = 1;
