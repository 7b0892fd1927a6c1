//! What `haltwise status` says: what is set, who set it, which VMs follow, and how the journal is.
//!
//! [`collect`] asks, [`view`] holds the answers, [`text`] lays them out. Changes nothing.

mod collect;
mod text;
mod view;

use haltwise_host::root::Root;

use crate::exit::{Exit, Outcome};
use crate::shown::Shown;

pub(crate) fn run(root: &Root, shown: &Shown) -> Outcome {
    let status = collect::collect(root)?;
    shown.print_text(&status, |style| {
        text::render(&status, style.width, shown.rows())
    })?;
    Ok(Exit::of_partial(status.journal.unknown.is_some()))
}
