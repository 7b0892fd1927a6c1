//! Output of `haltwise status`: the settings, who set them, which VMs follow, and the state of the journal.
//!
//! [`view`] asks and holds the answers, [`text`] lays them out. Changes nothing.

mod text;
mod view;

use haltwise_host::root::Root;

use crate::exit::{Exit, Outcome};
use crate::shown::Shown;

pub(crate) fn run(root: &Root, shown: &Shown) -> Outcome {
    let status = view::collect(root)?;
    shown.print_text(&status, |style| {
        text::render(&status, style.width, shown.rows())
    })?;
    Ok(Exit::of_partial(status.journal.unknown.is_some()))
}
