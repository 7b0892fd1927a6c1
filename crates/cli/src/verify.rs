//! `haltwise verify`: recorded halts, held against the kernel's own rule.
//!
//! [`setup`] finds out which rule and which settings, [`feed`] reads the capture through
//! [`haltwise_core::verify`], [`view`] holds what is said, [`text`] lays it out.

mod feed;
mod setup;
mod text;
mod view;

use std::path::PathBuf;

use anyhow::anyhow;
use haltwise_capture::capture::Capture;
use haltwise_core::kvm::{Arch, Backport, Version};

use crate::exit::{Exit, Failure, Outcome};
use crate::open::explain;
use crate::{terminal, verb};

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

/// What the caller says of the recorded host.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) kernel: Option<Version>,
    pub(crate) arch: Option<Arch>,
    pub(crate) backports: Vec<Backport>,
    /// In the order of [`haltwise_core::verify::settings::Parameter::ALL`].
    pub(crate) parameters: [Option<u32>; 4],
    pub(crate) cap: Option<u32>,
}

/// Reads the capture, verifies it and prints the result.
pub(crate) fn run(wanted: &Wanted) -> Outcome {
    let capture = Capture::open(&wanted.dir).map_err(explain)?;
    let setup = setup::setup(&capture, &wanted.told)?;
    let shown = if wanted.all { usize::MAX } else { SHOWN };
    let vms = match &wanted.vm {
        None => None,
        vm => Some(verb::report::wanted(&capture.info().roster, vm.as_deref())?),
    };
    let fed = feed::feed(&capture, &setup, vms.as_deref(), shown)?;
    let view = view::view(&capture, &setup, &fed);
    if wanted.json {
        terminal::print(&terminal::json(&view)?)?;
    } else {
        terminal::print(&text::render(&view, terminal::columns()))?;
    }
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
