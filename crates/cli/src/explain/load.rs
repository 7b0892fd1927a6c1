//! From a capture on disk to what the rules look at. Memory does not grow with the capture.

use std::collections::BTreeMap;

use haltwise_capture::table::Table;
use haltwise_core::exit::account::{Account, By};
use haltwise_core::exit::{Exits, Recorded};
use haltwise_core::explain::evidence::ExitsSeen;
use haltwise_core::ids::VmIndex;

use crate::exit::Failure;
use crate::reading::load::{self, OverTime};
use crate::reading::opened::Opened;
use crate::reading::pass::{PassEnds, Sink, pass};
use crate::reading::recording::Recording;

#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) recording: Recording,
    pub(crate) exits: Option<ExitsSeen>,
}

/// Takes the exits of each VM, once the beginning of the recording is known. Whose VM is not known belongs to no
/// finding.
#[derive(Debug)]
pub(crate) struct ByVm {
    vms: BTreeMap<VmIndex, Account>,
    start_ns: u64,
    recorded: Option<Recorded>,
}

impl ByVm {
    pub(crate) fn new(recorded: Option<Recorded>, recording: &Recording) -> Self {
        Self {
            vms: BTreeMap::new(),
            start_ns: recording.reported.start_ns,
            recorded,
        }
    }

    /// Result of the pass. A table that broke off counts up to the break.
    pub(crate) fn finish(
        self,
        opened: &Opened,
        mut recording: Recording,
        ends: &PassEnds,
    ) -> Result<Loaded, Failure> {
        ends.opened(Table::Exits)?;
        if let Some(broken) = ends.broken(Table::Exits) {
            recording.breaks_off(broken);
        }
        if self.recorded.is_some() {
            recording.take_notes(opened.capture());
        }
        let vms = self.vms;
        Ok(Loaded {
            recording,
            exits: self.recorded.map(|recorded| ExitsSeen { recorded, vms }),
        })
    }
}

impl Sink for ByVm {
    fn wants(&self, table: Table) -> bool {
        table == Table::Exits && self.recorded.is_some()
    }

    fn exits(&mut self, row: &Exits) {
        if let Some(vm) = row.vm {
            let empty = || Account::new(By::Reason, self.start_ns);
            self.vms.entry(vm).or_insert_with(empty).add(row);
        }
    }
}

/// Reads a capture, in one pass with `others` who want its rows.
pub(crate) fn load(
    opened: &Opened,
    others: &mut [&mut dyn Sink],
) -> Result<(Loaded, PassEnds), Failure> {
    let (recording, ends) = load::load(opened, OverTime::Host, others)?;
    let mut exits = ByVm::new(opened.info().exits.clone(), &recording);
    let ends_of_exits = pass(opened, "reading", &mut [&mut exits]);
    Ok((exits.finish(opened, recording, &ends_of_exits)?, ends))
}
