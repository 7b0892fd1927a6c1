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

use crate::exit::Failure;

/// Compares two captures. `vms` are pairs of names, `NAME` or `NAME=NAME`; without any, all VMs.
pub(crate) fn compare(a: &Path, b: &Path, vms: &[String]) -> Result<view::View, Failure> {
    let (a, b) = (load::open(a)?, load::open(b)?);
    let sides = [&a.recording, &b.recording];
    let unplaced = sides.iter().any(|it| !it.ledger.unplaced().is_empty());
    let [in_a, in_b] = sides.map(|it| &it.roster);
    let pairing = pair::pairs(in_a, in_b, unplaced, vms)?;
    Ok(build::build(&a, &b, pairing))
}

/// Version of the JSON; documented in `docs/diff-json.md`.
pub(crate) const SCHEMA: u32 = 1;
