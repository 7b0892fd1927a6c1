//! From a capture on disk to what the rules look at. Memory does not grow with the capture.

use std::collections::BTreeMap;
use std::path::Path;

use haltwise_capture::capture::Capture;
use haltwise_core::exit::account::{Account, By};
use haltwise_core::explain::evidence::ExitsSeen;
use haltwise_core::ids::VmIndex;

use crate::exit::Failure;
use crate::open;
use crate::report::load as report;
use crate::report::recording::Recording;

/// What the page is made from.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// How it was recorded, and the halts.
    pub(crate) recording: Recording,
    /// The exits, where they were recorded.
    pub(crate) exits: Option<ExitsSeen>,
}

/// Reads a capture.
pub(crate) fn load(dir: &Path) -> Result<Loaded, Failure> {
    let mut recording = report::load(dir)?;
    let capture = Capture::open(dir).map_err(open::explain)?;
    let Some(recorded) = capture.info().exits.clone() else {
        return Ok(Loaded {
            recording,
            exits: None,
        });
    };
    let mut vms: BTreeMap<VmIndex, Account> = BTreeMap::new();
    for row in capture.exits().map_err(open::explain)? {
        match row {
            // Whose VM is not known belongs to no finding.
            Ok(row) => {
                if let Some(vm) = row.vm {
                    let empty = || Account::new(By::Reason, recording.start_ns);
                    vms.entry(vm).or_insert_with(empty).add(&row);
                }
            }
            // What broke off counts up to there.
            Err(error) => {
                let note = format!("{:#}", anyhow::Error::new(error));
                recording.notes.push(note);
                recording.damaged = true;
                break;
            }
        }
    }
    Ok(Loaded {
        recording,
        exits: Some(ExitsSeen { recorded, vms }),
    })
}
