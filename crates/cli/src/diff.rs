//! Two captures compared.
//!
//! | file | holds |
//! |---|---|
//! | [`pair`] | whose figures are compared: which VM of one is which of the other |
//! | [`load`] | from a capture to the sums of its blocks |
//! | [`around`] | what else differs: kernel, settings, length, losses |
//! | [`view`] | what is said, as data: the JSON |
//! | [`build`] | the view, computed from the sums |
//! | [`text`] | the view on a screen |

pub(crate) mod around;
pub(crate) mod build;
pub(crate) mod load;
pub(crate) mod pair;
pub(crate) mod text;
pub(crate) mod view;

use std::path::Path;

use haltwise_core::recording::Roster;

use self::pair::Pairing;
use self::view::View;
use crate::exit::Failure;

/// Compares two captures. `vms` are pairs of names, `NAME` or `NAME=NAME`; without any, all VMs.
pub(crate) fn compare(a: &Path, b: &Path, vms: &[String]) -> Result<View, Failure> {
    paired(a, b, |in_a, in_b, unplaced| {
        pair::pairs(in_a, in_b, unplaced, vms)
    })
}

/// Compares one VM, by its name or process in A, with the VM of its name in B.
pub(crate) fn compare_vm(a: &Path, b: &Path, vm: &str) -> Result<View, Failure> {
    paired(a, b, |in_a, in_b, _| pair::of_vm(in_a, in_b, vm))
}

/// Compares those whom `pair` finds in the VMs of both; it is told whether some halts are nobody's.
fn paired(
    a: &Path,
    b: &Path,
    pair: impl FnOnce(&Roster, &Roster, bool) -> Result<Pairing, Failure>,
) -> Result<View, Failure> {
    let (a, b) = (load::open(a)?, load::open(b)?);
    let sides = [&a.recording, &b.recording];
    let unplaced = sides.iter().any(|it| !it.ledger.unplaced().is_empty());
    let pairing = pair(&a.recording.roster, &b.recording.roster, unplaced)?;
    Ok(build::build(&a, &b, pairing))
}

/// Version of the JSON; documented in `docs/diff-json.md`.
pub(crate) const SCHEMA: u32 = 1;
