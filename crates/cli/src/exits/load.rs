//! From a capture on disk to the account of its exits. Memory does not grow with the capture.

use std::path::Path;

use anyhow::anyhow;
use haltwise_capture::capture::Capture;
use haltwise_core::account::parts::Parts;
use haltwise_core::account::seen::Fold;
use haltwise_core::exit::Recorded;
use haltwise_core::exit::account::{Account, By};
use haltwise_core::ids::VmIndex;

use crate::exit::{Exit, Failure};
use crate::open::explain;
use crate::report::load as report;
use crate::report::recording::Recording;

/// What the page is made from.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// How it was recorded, and the halts.
    pub(crate) recording: Recording,
    /// How the exits were recorded.
    pub(crate) recorded: Recorded,
    /// The exits of the VMs wanted.
    pub(crate) account: Account,
    /// The halts of the same VMs, and of the vCPUs whose exits were recorded.
    pub(crate) halted: Parts,
}

/// Reads a capture. `pick` says which VMs are wanted, from all that it holds.
pub(crate) fn load(
    dir: &Path,
    by: By,
    pick: impl FnOnce(&Recording) -> Result<Option<Vec<VmIndex>>, Failure>,
) -> Result<Loaded, Failure> {
    let capture = Capture::open(dir).map_err(explain)?;
    let Some(recorded) = capture.info().exits.clone() else {
        let error = anyhow!("show exits: {} holds none", dir.display());
        return Err(Failure::new(Exit::Failed, error)
            .hint("`haltwise record --exits` records them beside the halts"));
    };
    let mut recording = report::load(dir)?;
    let vms = pick(&recording)?;
    let wanted = |vm: Option<VmIndex>| match (&vms, vm) {
        (None, _) => true,
        (Some(vms), Some(vm)) => vms.contains(&vm),
        (Some(_), None) => false,
    };
    let mut account = Account::new(by, recording.start_ns);
    for row in capture.exits().map_err(explain)? {
        match row {
            Ok(row) if wanted(row.vm) => account.add(&row),
            Ok(_) => {}
            // What broke off counts up to there.
            Err(error) => {
                let note = format!("{:#}", anyhow::Error::new(error));
                recording.notes.push(note);
                recording.damaged = true;
                break;
            }
        }
    }
    let mut halted = Parts::default();
    for (place, halts) in recording.ledger.places() {
        let vcpus = &recorded.vcpus;
        let counted = vcpus.is_empty() || place.vcpu.is_some_and(|vcpu| vcpus.contains(&vcpu.0));
        if wanted(place.vm) && counted {
            halted.fold(&halts.parts);
        }
    }
    Ok(Loaded {
        recording,
        recorded,
        account,
        halted,
    })
}
