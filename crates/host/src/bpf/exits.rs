//! Exits, counted in the kernel by programs of their own, and read once a second.

mod cell;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::os::fd::{AsFd, BorrowedFd};

use haltwise_core::event::Lost;
use haltwise_core::exit::{Cause, Exits, Isa, Kind, SubKey};
use haltwise_core::hist::LogHist;
use haltwise_core::ids::{Pid, Tid, VcpuId, VmIndex};
use haltwise_core::recording::Missing;
use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{MapCore, MapFlags};

pub(super) use self::cell::Who;
use self::cell::{Cell, Counted};
use super::attach::{explain, open};
use super::program::{Links, Program, Role, count_of};
use super::record::Place;
use super::skel::exits::types::exit_lost;
use super::skel::exits::{ExitsProgs, ExitsSkel, ExitsSkelBuilder, OpenExitsSkel};
use crate::clock;
use crate::collector::{CollectError, Losses};
use crate::exits::ExitOptions;
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
        let skel = load(options, vms, vcpus)?;
        let (links, missing) = attach(&skel.progs);
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

    /// Whether a thread has begun to run a vCPU since this was last asked: it may be gone at the next look.
    pub(super) fn met_a_thread(&mut self) -> bool {
        let bss = self.skel.maps.bss_data.as_ref();
        let now = bss.map_or(0, |bss| bss.threads_begun);
        std::mem::replace(&mut self.threads_begun, now) != now
    }

    pub(super) fn threads(&self) -> BorrowedFd<'_> {
        self.skel.maps.threads.as_fd()
    }

    pub(super) fn detach(&mut self) {
        self.links.detach();
    }

    pub(super) fn programs(&self) -> Vec<Program<'_>> {
        programs(&self.skel.progs)
    }

    pub(super) fn missing(&self) -> &[Missing] {
        &self.missing
    }

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

/// Cells made for each vCPU that runs already: a guest rarely has as many reasons.
const CELLS_PER_VCPU: usize = 32;
/// The same with sub-keys: ports, MSRs, pages.
const SUB_CELLS_PER_VCPU: usize = 200;
const CELLS_SPARE: usize = 4096;
const OF_SUB_KEYS: [(&str, SubKey); 7] = [
    ("on_msr", SubKey::Msr),
    ("on_pio", SubKey::Pio),
    ("on_mmio", SubKey::Mmio),
    ("on_page_fault", SubKey::Gpa),
    ("on_hypercall", SubKey::Hypercall),
    ("on_vector", SubKey::Vector),
    ("on_cpuid", SubKey::Cpuid),
];
/// The programs keep their numbers in 16 bits.
const CELLS_MOST: usize = 60_000;

pub(super) fn load(
    options: &ExitOptions,
    vms: &[Pid],
    vcpus: usize,
) -> Result<Opaque<ExitsSkel<'static>>, CollectError> {
    let open = open(ExitsSkelBuilder::default());
    let mut open = open.map_err(explain("open the BPF programs for exits"))?;
    settle(&mut open, options, vms, vcpus)?;
    let skel = open.load();
    let skel = skel.map_err(explain("load the BPF programs for exits"))?;
    for vm in vms {
        let wanted = &skel.maps.wanted;
        let noted = wanted.update(&vm.0.to_ne_bytes(), &[1], MapFlags::ANY);
        noted.map_err(explain("note the VMs whose exits are counted"))?;
    }
    Ok(Opaque(skel))
}

fn cells_for(options: &ExitOptions, vcpus: usize) -> u32 {
    let each = if options.sub_keys.is_empty() {
        CELLS_PER_VCPU
    } else {
        SUB_CELLS_PER_VCPU
    };
    let cells = (vcpus * each + CELLS_SPARE).min(CELLS_MOST);
    u32::try_from(cells).unwrap_or(u32::MAX)
}

fn settle(
    open: &mut OpenExitsSkel<'_>,
    options: &ExitOptions,
    vms: &[Pid],
    vcpus: usize,
) -> Result<(), CollectError> {
    if let Some(settings) = open.maps.rodata_data.as_deref_mut() {
        settings.filter_by_process = !vms.is_empty();
    }
    let cells = cells_for(options, vcpus);
    let sized = open.maps.cells.set_max_entries(cells);
    let sized = sized.and_then(|()| open.maps.cell_of.set_max_entries(cells));
    sized.map_err(explain("size the table of exits"))?;
    if let Some(settings) = open.maps.bss_data.as_deref_mut() {
        settings.cells_max = cells;
        settings.cells_max_subs = cells - cells_for(&ExitOptions::default(), vcpus).min(cells / 2);
    }
    for mut program in open.open_object_mut().progs_mut() {
        let of = OF_SUB_KEYS.iter().find(|(name, _)| program.name() == *name);
        if let Some((_, key)) = of {
            program.set_autoload(options.sub_keys.contains(key));
        }
    }
    Ok(())
}

/// Attaches what was loaded. A part that a kernel lacks is missing, and no error.
pub(super) fn attach(progs: &ExitsProgs<'_>) -> (Links, Vec<Missing>) {
    let mut links = Links::default();
    let mut missing = links.attach_all(&programs(progs));
    // Exits last, so that the first finds everything else in place. Older kernels tell more with an
    // exit: where the program for those cannot be attached, the other can.
    let before = cfg!(target_arch = "x86_64").then(|| progs.on_exit_before.attach());
    let exits = match before {
        Some(Ok(link)) => Ok(link),
        _ => progs.on_exit.attach(),
    };
    missing.extend(links.keep(exits, "kvm_exit", "exits", "exits are not counted"));
    (links, missing)
}

/// The programs that are loaded, in the order in which they are attached but for the last two, of which one is.
pub(super) fn programs<'a>(progs: &'a ExitsProgs<'_>) -> Vec<Program<'a>> {
    let about = |program, without_it| (Role::AboutExits, program, Some(("exits", without_it)));
    let details = |program| about(program, "no exit details");
    let all = [
        details(&progs.on_msr),
        details(&progs.on_pio),
        details(&progs.on_mmio),
        details(&progs.on_page_fault),
        details(&progs.on_hypercall),
        details(&progs.on_vector),
        details(&progs.on_cpuid),
        about(
            &progs.on_userspace_exit,
            "time in user space is not separated",
        ),
        about(
            &progs.on_fpu,
            "time in user space holds the way back into the guest",
        ),
        about(&progs.on_injection, "injected interrupts are not counted"),
        (
            Role::Emulation,
            &progs.on_emulation,
            Some(("exits", "emulated instructions are not counted")),
        ),
        about(
            &progs.on_entry,
            "entries are not counted, and exits have no times",
        ),
        (Role::Exit, &progs.on_exit_before, None),
        (Role::Exit, &progs.on_exit, None),
    ];
    let loaded = all.into_iter().filter(|(_, program, _)| program.autoload());
    loaded.collect()
}

#[cfg(test)]
mod test;
