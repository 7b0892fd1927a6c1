//! Exits, counted in the kernel by programs of their own, and read once a second.
//!
//! | file | holds |
//! |---|---|
//! | `exits.bpf.c`, `exits_*.bpf.h` | the programs; `exits_intf.h` is their border to Rust |
//! | `load` | loading and attaching: only what was asked for |
//! | `cell` | one count of the kernel's table, and what came since |

mod cell;
mod load;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::os::fd::{AsFd, BorrowedFd};

use haltwise_core::event::Lost;
use haltwise_core::exit::{Cause, Exits, Isa, Kind};
use haltwise_core::hist::LogHist;
use haltwise_core::ids::{Pid, Tid, VcpuId, VmIndex};
use haltwise_core::recording::Missing;
use libbpf_rs::{MapCore, MapFlags};

pub(super) use self::cell::Who;
use self::cell::{Cell, Counted};
use super::attach::explain;
use super::links::Links;
use super::missed::count_of;
use super::program::Program;
use super::record::Place;
use super::skel::exits::ExitsSkel;
use super::skel::exits::types::exit_lost;
use crate::clock;
use crate::collector::CollectError;
use crate::exits::ExitOptions;
use crate::losses::Losses;
use crate::opaque::Opaque;

const INTERVAL_NS: u64 = 1_000_000_000;

const CELL_OTHER: u32 = 1;

#[derive(Debug)]
pub(super) struct ExitCounter {
    skel: Opaque<ExitsSkel<'static>>,
    links: Links,
    missing: Vec<Missing>,
    told: Vec<Counted>,
    last_ns: u64,
    losses: Losses,
    threads_begun: u32,
}

impl ExitCounter {
    pub(super) fn start(
        options: &ExitOptions,
        vms: &[Pid],
        vcpus: usize,
    ) -> Result<Self, CollectError> {
        let skel = load::load(options, vms, vcpus)?;
        let (links, missing) = load::attach(&skel.progs);
        Ok(Self {
            skel,
            links,
            missing,
            told: Vec::new(),
            last_ns: clock::monotonic_ns(),
            losses: Losses::default(),
            threads_begun: 0,
        })
    }

    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.last_ns) >= INTERVAL_NS
    }

    /// Whether a thread has begun to run a vCPU since this was last asked: it may be gone before the next
    /// look, and its VM with it.
    pub(super) fn met_a_thread(&mut self) -> bool {
        let bss = self.skel.maps.bss_data.as_ref();
        let now = bss.map_or(0, |bss| bss.threads_begun);
        std::mem::replace(&mut self.threads_begun, now) != now
    }

    pub(super) fn threads(&self) -> BorrowedFd<'_> {
        self.skel.maps.threads.as_fd()
    }

    /// Counts no more. What was counted can still be read.
    pub(super) fn detach(&mut self) {
        self.links.detach();
    }

    pub(super) fn programs(&self) -> Vec<Program<'_>> {
        load::programs(&self.skel.progs)
    }

    pub(super) fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// One row for each vCPU thread and cause that anything came of since the last call.
    pub(super) fn read(
        &mut self,
        place: &mut dyn FnMut(Who) -> Place,
    ) -> Result<Vec<Exits>, CollectError> {
        let bss = self.skel.maps.bss_data.as_ref();
        // The cell of no thread and the cell shared by all do not count; racing threads may have gone beyond.
        let given = bss.map_or(0, |bss| bss.cells_last.min(bss.cells_max.saturating_sub(2)));
        let slots = CELL_OTHER..=CELL_OTHER + given;
        let cells = slots.map(|slot| Ok((slot, self.cell(slot)?)));
        let cells = cells.collect::<Result<Vec<_>, CollectError>>()?;
        let now_ns = clock::monotonic_ns();
        let interval_ns = now_ns.saturating_sub(self.last_ns);
        self.last_ns = now_ns;
        // A vCPU may have several cells of one cause: from before its place was known, and after.
        let mut rows = BTreeMap::new();
        for (slot, cell) in cells {
            let at = slot as usize;
            if at >= self.told.len() {
                self.told.resize_with(at + 1, Counted::default);
            }
            let place = || match slot {
                CELL_OTHER => Place::default(),
                _ => place(cell.who),
            };
            let Some(row) = cell.since(&mut self.told[at], now_ns, interval_ns, place) else {
                continue;
            };
            if let Some(entries) = entries_of(&row) {
                add(&mut rows, entries);
            }
            add(&mut rows, row);
        }
        Ok(rows.into_values().collect())
    }

    fn cell(&self, slot: u32) -> Result<Cell, CollectError> {
        let map = &self.skel.maps.cells;
        let bytes = map.lookup(&slot.to_ne_bytes(), MapFlags::ANY);
        let bytes = bytes.map_err(explain("read the kernel's counts of exits"))?;
        let bytes = bytes.unwrap_or_default();
        Cell::decode(&bytes, slot == CELL_OTHER).ok_or(CollectError::Record {
            got: bytes.len(),
            expected: cell::SIZE,
        })
    }

    /// Exits that could not be counted since the last call, by cause.
    pub(super) fn lost(&mut self, now_ns: u64) -> Result<Vec<Lost>, CollectError> {
        let map = &self.skel.maps.lost;
        let count = |cause: exit_lost| count_of(map, cause.0, "read the count of lost exits");
        let counts = LOST.map(|(cause, place)| Ok((count(cause)?, place)));
        let counts = counts
            .into_iter()
            .collect::<Result<Vec<_>, CollectError>>()?;
        let mut all = Vec::new();
        self.losses.report(&mut all, now_ns, counts);
        Ok(all)
    }
}

const LOST: [(exit_lost, &str); 2] = [
    (
        exit_lost::EXIT_LOST_THREADS,
        "exits of threads that could not be remembered",
    ),
    (
        exit_lost::EXIT_LOST_SUBS,
        "exit details: more than the table holds",
    ),
];

/// Decodes any bytes as a count and reads all of it: the door for fuzzing.
#[doc(hidden)]
pub fn fuzz_cell(bytes: &[u8]) -> Option<Exits> {
    let cell = Cell::decode(bytes, false)?;
    cell.since(&mut Counted::default(), 1, 1, Place::default)
}

type Rows = BTreeMap<(Option<VmIndex>, Option<VcpuId>, Tid, Cause), Exits>;

fn add(rows: &mut Rows, row: Exits) {
    match rows.entry((row.vm, row.vcpu, row.tid, row.cause)) {
        Entry::Vacant(free) => drop(free.insert(row)),
        Entry::Occupied(mut same) => {
            let same = same.get_mut();
            same.count += row.count;
            same.user_ns += row.user_ns;
            same.handling_ns.merge(&row.handling_ns);
        }
    }
}

/// The entries that ended these exits: each time is that of one. The programs count only the others.
fn entries_of(row: &Exits) -> Option<Exits> {
    let count = row.handling_ns.count();
    (row.cause.kind == Kind::Exit && count > 0).then(|| Exits {
        cause: Cause {
            kind: Kind::Entry,
            isa: Isa::None,
            reason: None,
            sub: None,
        },
        count,
        user_ns: 0,
        handling_ns: LogHist::default(),
        ..row.clone()
    })
}

#[cfg(test)]
mod test;
