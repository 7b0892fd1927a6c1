//! The table of calls, read beside that of halts.

use haltwise_capture::capture::Capture;
use haltwise_capture::error::CaptureReadError;
use haltwise_capture::rows::Rows;
use haltwise_core::event::{Halt, WindowCall, WindowChange};
use haltwise_core::verify::calls::Calls;

/// Calls that may wait for their halts. A recorder writes both at every flush, twice a second, so that
/// more can wait only where the two tables do not belong together.
const WAITING: usize = 1 << 20;

pub(super) struct CallTable {
    rows: Option<Rows<WindowChange>>,
    calls: Calls,
    broken: Option<CaptureReadError>,
}

impl CallTable {
    pub(super) fn open(capture: &Capture) -> Self {
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

    pub(super) fn next(&mut self) -> Option<WindowChange> {
        match self.rows.as_mut()?.next() {
            Some(Ok(row)) => return Some(row),
            Some(Err(error)) => self.broken = Some(error),
            None => {}
        }
        self.rows = None;
        None
    }

    /// The call that a halt made, of those that it could have made; `hand` is given what has to be read for it.
    pub(super) fn take(
        &mut self,
        halt: &Halt,
        mut hand: impl FnMut(&WindowChange),
    ) -> Option<WindowChange> {
        if halt.change == WindowCall::None {
            return None;
        }
        while self.rows.is_some() && !self.calls.reaches(halt) && self.calls.len() < WAITING {
            if let Some(row) = self.next() {
                hand(&row);
                self.calls.add(row);
            }
        }
        self.calls.take(halt)
    }

    pub(super) fn end(self) -> Result<(), CaptureReadError> {
        self.broken.map_or(Ok(()), Err)
    }
}
