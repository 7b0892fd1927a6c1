//! Exits, counted in the kernel by programs of their own, and read once a second.
//!
//! | file | holds |
//! |---|---|
//! | `exits.bpf.c`, `exits_*.bpf.h` | the programs; `exits_intf.h` is their border to Rust |
//! | `skel` | generated from them |
//! | `load` | loading and attaching: only what was asked for |
//! | `cell` | one count of the kernel's table, and what came since |
//! | `synthetic` | exits that never happened, for tests |

mod cell;
mod load;
mod skel;
pub mod synthetic;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::os::fd::{AsFd, BorrowedFd};

use haltwise_core::event::Lost;
use haltwise_core::exit::{Cause, Exits, Isa, Kind};
use haltwise_core::hist::LogHist;
use haltwise_core::ids::{Pid, Tid, VcpuId, VmIndex};
use haltwise_core::recording::Missing;
use libbpf_rs::{MapCore, MapFlags};

use self::cell::{Cell, ReportedCell};
use self::load::Loaded;
use self::skel::types::exit_lost;
use super::attach::explain;
use super::program::ExitPrograms;
use super::record::Place;
use crate::clock;
use crate::collector::CollectError;
use crate::exits::ExitOptions;

/// Between two looks at the kernel's table.
const INTERVAL_NS: u64 = 1_000_000_000;

const CELL_OTHER: u32 = 1;

/// Whose exits a count is of, as the kernel knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Who {
    /// Address of `struct kvm`; 0 where the vCPU is not known.
    pub(super) kvm: u64,
    /// Address of `struct kvm_vcpu`; 0 where it is not known.
    pub(super) vcpu: u64,
    /// Its number, where it is known.
    pub(super) vcpu_id: u32,
    pub(super) tid: u32,
    pub(super) tgid: u32,
}

#[derive(Debug)]
pub(super) struct ExitCounter {
    loaded: Loaded,
    told: Vec<ReportedCell>,
    last_ns: u64,
    lost_before: [u64; LOST.len()],
    threads_begun: u32,
}

impl ExitCounter {
    /// Loads and attaches. `vcpus`: how many there are already.
    pub(super) fn start(
        options: &ExitOptions,
        vms: &[Pid],
        vcpus: usize,
    ) -> Result<Self, CollectError> {
        Ok(Self {
            loaded: load::load(options, vms, vcpus)?,
            told: Vec::new(),
            last_ns: clock::monotonic_ns(),
            lost_before: [0; LOST.len()],
            threads_begun: 0,
        })
    }

    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.last_ns) >= INTERVAL_NS
    }

    /// Whether a thread has begun to run a vCPU since this was last asked: it may be gone before the next
    /// look, and its VM with it.
    pub(super) fn met_a_thread(&mut self) -> bool {
        let before = std::mem::replace(&mut self.threads_begun, self.loaded.threads_begun());
        before != self.threads_begun
    }

    pub(super) fn threads(&self) -> BorrowedFd<'_> {
        self.loaded.skel.maps.threads.as_fd()
    }

    /// Counts no more. What was counted can still be read.
    pub(super) fn detach(&mut self) {
        self.loaded.links.detach();
    }

    /// The programs, for their cost. Those for sub-keys that nobody asked for are not loaded.
    pub(super) fn programs(&self) -> ExitPrograms<'_> {
        let progs = &self.loaded.skel.progs;
        let others = [
            &progs.on_entry,
            &progs.on_userspace_exit,
            &progs.on_fpu,
            &progs.on_injection,
            &progs.on_msr,
            &progs.on_pio,
            &progs.on_mmio,
            &progs.on_page_fault,
            &progs.on_hypercall,
            &progs.on_vector,
            &progs.on_cpuid,
        ];
        let loaded = others.into_iter().filter(|program| program.autoload());
        ExitPrograms {
            exit: [progs.on_exit.as_fd(), progs.on_exit_before.as_fd()],
            emulation: progs.on_emulation.as_fd(),
            others: loaded.map(AsFd::as_fd).collect(),
        }
    }

    pub(super) fn missing(&self) -> &[Missing] {
        &self.loaded.missing
    }

    /// One row for each vCPU thread and cause that anything came of since the last call.
    pub(super) fn read(
        &mut self,
        place: &mut dyn FnMut(Who) -> Place,
    ) -> Result<Vec<Exits>, CollectError> {
        let slots = CELL_OTHER..=CELL_OTHER + self.loaded.cells_given();
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
                self.told.resize_with(at + 1, ReportedCell::default);
            }
            let place = || match slot {
                CELL_OTHER => Place::default(),
                _ => place(cell.key.who()),
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
        let map = &self.loaded.skel.maps.cells;
        let bytes = map
            .lookup(&slot.to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| explain("read the kernel's counts of exits", &error))?
            .unwrap_or_default();
        Cell::decode(&bytes, slot == CELL_OTHER).ok_or(CollectError::Record {
            got: bytes.len(),
            expected: cell::SIZE,
        })
    }

    /// What could not be counted since the last call, by cause.
    pub(super) fn lost(&mut self, now_ns: u64) -> Result<Vec<Lost>, CollectError> {
        let mut all = Vec::new();
        for (nth, (cause, place)) in LOST.into_iter().enumerate() {
            let map = &self.loaded.skel.maps.lost;
            let per_cpu = map
                .lookup_percpu(&cause.0.to_ne_bytes(), MapFlags::ANY)
                .map_err(|error| explain("read the count of lost exits", &error))?;
            let total: u64 = per_cpu
                .unwrap_or_default()
                .iter()
                .filter_map(|bytes| Some(u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?)))
                .sum();
            let count = total.saturating_sub(self.lost_before[nth]);
            self.lost_before[nth] = total;
            if count > 0 {
                all.push(Lost {
                    time_ns: now_ns,
                    count,
                    place: place.to_owned(),
                });
            }
        }
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
    cell.since(&mut ReportedCell::default(), 1, 1, Place::default)
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

impl cell::Key {
    fn who(&self) -> Who {
        Who {
            kvm: self.kvm,
            vcpu: self.vcpu,
            vcpu_id: self.vcpu_id,
            tid: self.tid,
            tgid: self.tgid,
        }
    }
}
