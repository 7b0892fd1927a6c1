//! Reads a capture's halts and calls, side by side, through the verifier. Rows are read in batches:
//! memory does not grow with the capture.

use haltwise_capture::capture::Capture;
use haltwise_capture::error::CaptureReadError;
use haltwise_capture::rows::Rows;
use haltwise_core::event::{CeilingSource, Halt, WindowCall, WindowChange};
use haltwise_core::ids::VmIndex;
use haltwise_core::verify::calls::Calls;
use haltwise_core::verify::tally::Tally;
use haltwise_core::verify::{Difference, Verdict, Verifier};

use super::setup::Setup;
use crate::exit::Failure;
use crate::open::explain;

/// Calls that may wait for their halts. A recorder writes both at every flush, twice a second, so that
/// more can wait only where the two tables do not belong together.
const WAITING: usize = 1 << 20;

/// What was found.
#[derive(Debug)]
pub(super) struct Fed {
    pub(super) tally: Tally,
    /// The first ones.
    pub(super) differences: Vec<Difference>,
    /// Halts whose ceiling was not recorded.
    pub(super) ceiling_assumed: u64,
    /// Differences among these.
    pub(super) differences_assumed: u64,
    /// Halts that made a call which the table of calls does not have.
    pub(super) calls_missing: u64,
    /// What broke while it was read.
    pub(super) notes: Vec<String>,
}

/// The table of calls, read as far as is needed.
struct CallTable {
    rows: Option<Rows<WindowChange>>,
    calls: Calls,
    broken: Option<CaptureReadError>,
}

impl CallTable {
    fn open(capture: &Capture) -> Self {
        let (rows, broken) = match capture.window_changes() {
            Ok(rows) => (Some(rows), None),
            Err(error) => (None, Some(error)),
        };
        Self {
            rows,
            calls: Calls::default(),
            broken,
        }
    }

    fn take(&mut self, halt: &Halt) -> Option<WindowChange> {
        while let Some(rows) = &mut self.rows
            && !self.calls.reaches(halt)
            && self.calls.len() < WAITING
        {
            match rows.next() {
                Some(Ok(row)) => self.calls.add(row),
                Some(Err(error)) => (self.rows, self.broken) = (None, Some(error)),
                None => self.rows = None,
            }
        }
        self.calls.take(halt)
    }
}

/// Holds every halt of a capture against the rule.
///
/// # Errors
/// Where nothing of the halts can be read. What breaks off counts up to there, with a note.
pub(super) fn feed(
    capture: &Capture,
    setup: &Setup,
    vms: Option<&[VmIndex]>,
    shown: usize,
) -> Result<Fed, Failure> {
    let mut verifier = Verifier::new(setup.core.clone());
    let mut table = CallTable::open(capture);
    let mut fed = Fed {
        tally: Tally::default(),
        differences: Vec::new(),
        ceiling_assumed: 0,
        differences_assumed: 0,
        calls_missing: 0,
        notes: Vec::new(),
    };
    for halt in capture.halts().map_err(explain)?.ahead() {
        let halt = match halt {
            Ok(halt) => halt,
            Err(error) if verifier.tally().halts == 0 => return Err(explain(error)),
            Err(error) => {
                fed.notes.push(format!("{:#}", anyhow::Error::new(error)));
                break;
            }
        };
        let is_wanted = |vms: &[VmIndex]| halt.vm.is_some_and(|vm| vms.contains(&vm));
        if !vms.is_none_or(is_wanted) {
            continue;
        }
        let row = match halt.change {
            WindowCall::None => None,
            WindowCall::Grow | WindowCall::Shrink => {
                let row = table.take(&halt);
                fed.calls_missing += u64::from(row.is_none());
                row
            }
        };
        let unknown = setup.core.cap.is_none()
            && halt.ceiling_ns.is_none()
            && halt.ceiling_source != CeilingSource::Param;
        fed.ceiling_assumed += u64::from(unknown);
        if let Verdict::Differs(difference) = verifier.halt(&halt, row.as_ref()) {
            fed.differences_assumed += u64::from(unknown);
            if fed.differences.len() < shown {
                fed.differences.push(*difference);
            }
        }
    }
    if let Some(error) = table.broken {
        fed.notes.push(format!("{:#}", anyhow::Error::new(error)));
    }
    fed.tally = verifier.tally().clone();
    Ok(fed)
}
