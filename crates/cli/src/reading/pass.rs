//! One pass over the large tables of a capture, for any number of those who want their rows. Rows are read in
//! batches: memory does not grow with the capture.

use std::sync::Arc;

use haltwise_capture::capture::Capture;
use haltwise_capture::error::CaptureReadError;
use haltwise_capture::rows::Rows;
use haltwise_capture::table::Table;
use haltwise_core::event::{Halt, HaltCounts, WindowCall, WindowChange};
use haltwise_core::exit::Exits;
use haltwise_core::verify::calls::Calls;

use super::opened::{Broken, Opened, explain_shared};
use crate::exit::Failure;
use crate::number::count;
use crate::progress::{Progress, elapsed};

pub(crate) trait Sink {
    /// Whether it wants those of a table: halts alone, where it does not say.
    fn wants(&self, table: Table) -> bool {
        table == Table::Halts
    }

    /// Whether it wants to know of each halt which call of grow or shrink was made at its end.
    fn wants_calls(&self) -> bool {
        false
    }

    /// A halt, with its call if any sink wants calls and the table of them has it.
    fn halt(&mut self, _: &Halt, _: Option<&WindowChange>) {}

    fn change(&mut self, _: &WindowChange) {}

    fn counts(&mut self, _: &HaltCounts) {}

    fn exits(&mut self, _: &Exits) {}
}

#[derive(Debug, Default)]
pub(crate) struct PassEnds {
    broken: Vec<(Table, Broken)>,
    /// Those of which not even a first row could be asked for.
    unopened: Vec<Table>,
    pub(crate) halts: u64,
}

impl PassEnds {
    /// Error that broke off the reading of a table; its rows until then were handed out.
    pub(crate) fn broken(&self, table: Table) -> Option<&Broken> {
        let mut all = self.broken.iter();
        all.find(|(of, _)| *of == table).map(|(_, broken)| broken)
    }

    pub(crate) fn all_broken(&self) -> impl Iterator<Item = &Broken> {
        self.broken.iter().map(|(_, broken)| broken)
    }

    /// The failure where a table breaks off.
    pub(crate) fn whole(&self, table: Table) -> Result<(), Failure> {
        match self.broken(table) {
            Some(broken) => Err(explain_shared(broken)),
            None => Ok(()),
        }
    }

    /// The failure where a table cannot be opened at all.
    pub(crate) fn opened(&self, table: Table) -> Result<(), Failure> {
        if self.unopened.contains(&table) {
            return self.whole(table);
        }
        Ok(())
    }

    fn note(&mut self, table: Table, read: Result<(), CaptureReadError>) {
        let broken = read.err().map(|error| (table, Arc::new(error)));
        self.broken.extend(broken);
    }
}

/// Hands the rows of a capture to those who want them, and says meanwhile, as `what`, how far it is.
pub(crate) fn pass(opened: &Opened, what: &str, sinks: &mut [&mut dyn Sink]) -> PassEnds {
    let capture = opened.capture();
    let mut ends = PassEnds::default();
    let changes = takers(sinks, Table::WindowChanges);
    let calls = sinks.iter().any(|sink| sink.wants_calls());
    let mut table = (calls || !changes.is_empty()).then(|| CallTable::open(capture));
    let of_halts = takers(sinks, Table::Halts);
    if !of_halts.is_empty() {
        let calls = table.as_mut().filter(|_| calls);
        let read = halts(capture, what, (&of_halts, &changes), sinks, calls);
        ends.halts = read.0;
        ends.note(Table::Halts, read.1);
    }
    if let Some(mut table) = table {
        while !changes.is_empty()
            && let Some(change) = table.next()
        {
            for &it in &changes {
                sinks[it].change(&change);
            }
        }
        ends.note(Table::WindowChanges, table.end());
    }
    let of_counts = takers(sinks, Table::HaltCounts);
    if !of_counts.is_empty() {
        let take = |row: HaltCounts| of_counts.iter().for_each(|&it| sinks[it].counts(&row));
        ends.note(Table::HaltCounts, feed(capture.halt_counts(), take));
    }
    let of_exits = takers(sinks, Table::Exits);
    if !of_exits.is_empty() {
        let take = |row: Exits| of_exits.iter().for_each(|&it| sinks[it].exits(&row));
        let rows = capture.exits();
        if rows.is_err() {
            ends.unopened.push(Table::Exits);
        }
        ends.note(Table::Exits, feed(rows, take));
    }
    ends
}

fn takers(sinks: &[&mut dyn Sink], table: Table) -> Vec<usize> {
    let all = (0..sinks.len()).filter(|&it| sinks[it].wants(table));
    all.collect()
}

/// Every halt, with its call if there is a table of `calls`; how many there were.
fn halts(
    capture: &Capture,
    what: &str,
    (of_halts, of_changes): (&[usize], &[usize]),
    sinks: &mut [&mut dyn Sink],
    mut calls: Option<&mut CallTable>,
) -> (u64, Result<(), CaptureReadError>) {
    let mut clock = Clock::start(capture);
    let rows = match capture.halts() {
        Ok(rows) => rows.ahead(),
        Err(error) => return (0, Err(error)),
    };
    let mut done = 0;
    for halt in rows {
        let halt = match halt {
            Ok(halt) => halt,
            Err(error) => return (done, Err(error)),
        };
        let call = calls.as_mut().and_then(|calls| {
            calls.take(&halt, |change| {
                for &it in of_changes {
                    sinks[it].change(change);
                }
            })
        });
        for &it in of_halts {
            sinks[it].halt(&halt, call.as_ref());
        }
        done += 1;
        if done % BATCH == 0 {
            clock.show(what, done);
        }
    }
    (done, Ok(()))
}

/// Hands out the rows of a table, up to where it breaks off.
pub(crate) fn feed<T>(
    rows: Result<Rows<T>, CaptureReadError>,
    mut take: impl FnMut(T),
) -> Result<(), CaptureReadError> {
    for row in rows? {
        take(row?);
    }
    Ok(())
}

/// Halts between two looks at the clock.
const BATCH: u64 = 1 << 16;

struct Clock {
    progress: Progress,
    halts: Option<u64>,
}

impl Clock {
    fn start(capture: &Capture) -> Self {
        Self {
            progress: Progress::start(None),
            halts: capture.rows(Table::Halts),
        }
    }

    fn show(&mut self, what: &str, done: u64) {
        let halts = self.halts;
        self.progress.show(elapsed(), || match halts {
            Some(halts) => format!("{what}: {} of {} halts", count(done), count(halts)),
            None => format!("{what}: {} halts", count(done)),
        });
    }
}

/// Calls that may wait for their halts. A recorder writes both at every flush, twice a second, so that
/// more can wait only where the two tables do not belong together.
const WAITING: usize = 1 << 20;

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

    fn next(&mut self) -> Option<WindowChange> {
        match self.rows.as_mut()?.next() {
            Some(Ok(row)) => return Some(row),
            Some(Err(error)) => self.broken = Some(error),
            None => {}
        }
        self.rows = None;
        None
    }

    /// The call that a halt made, of those that it could have made; `hand` is given what has to be read for it.
    fn take(&mut self, halt: &Halt, mut hand: impl FnMut(&WindowChange)) -> Option<WindowChange> {
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

    fn end(self) -> Result<(), CaptureReadError> {
        self.broken.map_or(Ok(()), Err)
    }
}
