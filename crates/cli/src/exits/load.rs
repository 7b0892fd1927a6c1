//! From a capture on disk to the account of its exits. Memory does not grow with the capture.

use std::path::Path;

use anyhow::anyhow;
use haltwise_capture::table::Table;
use haltwise_core::account::parts::Parts;
use haltwise_core::exit::account::{Account, By, Counted};
use haltwise_core::exit::halted::HaltExits;
use haltwise_core::exit::{Exits, Recorded};
use haltwise_core::ids::VmIndex;

use crate::exit::{Exit, Failure};
use crate::reading::load::{self, OverTime};
use crate::reading::opened::Opened;
use crate::reading::pass::{PassEnds, Sink, pass};
use crate::reading::recording::Recording;
use crate::reading::select;

#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) recording: Recording,
    pub(crate) recorded: Recorded,
    pub(crate) account: Account,
    pub(crate) halted: Parts,
    pub(crate) counted_ns: u64,
}

/// Takes the exits of some VMs, or all, once the beginning of the recording is known.
#[derive(Debug)]
pub(crate) struct Taking {
    account: Account,
    halts: HaltExits,
    counted: Counted,
    vms: Option<Vec<VmIndex>>,
}

impl Taking {
    pub(crate) fn new(by: By, recording: &Recording, vms: Option<Vec<VmIndex>>) -> Self {
        Self {
            account: Account::new(by, recording.reported.start_ns),
            halts: HaltExits::default(),
            counted: Counted::default(),
            vms,
        }
    }

    /// Result of the pass. A table that broke off counts up to the break.
    pub(crate) fn finish(
        self,
        opened: &Opened,
        recorded: Recorded,
        mut recording: Recording,
        ends: &PassEnds,
    ) -> Loaded {
        if let Some(broken) = ends.broken(Table::Exits) {
            recording.breaks_off(broken);
        }
        recording.take_notes(opened.capture());
        let halted = self.halts.halted(&recording.ledger);
        let counted_ns = self.counted.length_ns();
        Loaded {
            counted_ns: counted_ns.unwrap_or(recording.interval().length_ns()),
            recording,
            recorded,
            account: self.account,
            halted,
        }
    }
}

impl Sink for Taking {
    fn wants(&self, table: Table) -> bool {
        table == Table::Exits
    }

    fn exits(&mut self, row: &Exits) {
        self.counted.row(row);
        if select::is_among(self.vms.as_deref(), row.vm) {
            self.account.add(row);
            self.halts.add(row);
        }
    }
}

pub(crate) fn load(dir: &Path, by: By, vm: Option<&str>) -> Result<Loaded, Failure> {
    let opened = Opened::open(dir)?;
    let Some(recorded) = opened.info().exits.clone() else {
        let error = anyhow!("show exits: {} contains none", dir.display());
        return Err(Failure::new(Exit::Failed, error)
            .hint("`haltwise record --exits` records them with the halts"));
    };
    let (recording, _) = load::load(&opened, OverTime::Host, &mut [])?;
    let vms = vm.map(|vm| select::vms(&recording.info.roster, Some(vm)));
    let vms = vms.transpose()?;
    let mut taking = Taking::new(by, &recording, vms);
    let ends = pass(&opened, "reading", &mut [&mut taking]);
    ends.opened(Table::Exits)?;
    Ok(taking.finish(&opened, recorded, recording, &ends))
}
