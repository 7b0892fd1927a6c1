//! `haltwise verify`: recorded halts, held against the kernel's own rule.
//!
//! [`crate::reading::rule`] finds out which rule and which settings, [`feed`] reads the capture
//! through [`haltwise_core::verify`], [`view`] holds what is said, [`text`] lays it out.

mod feed;
mod text;
mod view;

use std::path::PathBuf;

use anyhow::anyhow;

use crate::exit::{Exit, Failure, Outcome};
use crate::reading::opened::Opened;
use crate::reading::rule::{self, Told};
use crate::reading::select;
use crate::terminal;

/// Version of the JSON; documented in `docs/verify-json.md`.
const SCHEMA: u32 = 1;

/// Differences that are shown unless all are wanted.
const SHOWN: usize = 20;

/// What is asked for.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) dir: PathBuf,
    pub(crate) vm: Option<String>,
    pub(crate) told: Told,
    pub(crate) all: bool,
    pub(crate) json: bool,
}

/// Reads the capture, verifies it and prints the result.
pub(crate) fn run(wanted: &Wanted) -> Outcome {
    let opened = Opened::open(&wanted.dir)?;
    let setup = rule::setup(&opened, &wanted.told)?;
    let shown = if wanted.all { usize::MAX } else { SHOWN };
    let vms = match &wanted.vm {
        None => None,
        vm => Some(select::vms(&opened.info().roster, vm.as_deref())?),
    };
    let fed = feed::feed(&opened, &setup, vms.as_deref(), shown)?;
    let view = view::view(&opened, &setup, &fed);
    terminal::show(wanted.json, &view, |view| {
        text::render(view, terminal::columns())
    })?;
    if view.checked == 0 {
        let error = anyhow!("no halt could be checked: {}", view.why_not_checked());
        return Err(Failure::new(Exit::Failed, error).hint(view.hint_if_not_checked()));
    }
    Ok(if view.differences > 0 {
        Exit::Failed
    } else if view.is_partial() {
        Exit::Partial
    } else {
        Exit::Done
    })
}
