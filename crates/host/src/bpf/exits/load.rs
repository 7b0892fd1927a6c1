//! Loading and attaching the programs: only those that what was asked for needs.

use std::mem::MaybeUninit;

use haltwise_core::exit::SubKey;
use haltwise_core::ids::Pid;
use haltwise_core::recording::Missing;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapMut, OpenObject, ProgramMut};

use super::skel::{ExitsProgs, ExitsSkel, ExitsSkelBuilder, OpenExitsSkel};
use crate::bpf::attach::{explain, hush_libbpf};
use crate::bpf::links::Links;
use crate::collector::CollectError;
use crate::exits::ExitOptions;

/// Cells made for each vCPU that runs already: a guest rarely has as many reasons.
const CELLS_PER_VCPU: usize = 32;
/// The same with sub-keys: ports, MSRs, pages.
const SUB_CELLS_PER_VCPU: usize = 200;
const CELLS_SPARE: usize = 4096;
/// The programs keep their numbers in 16 bits.
const CELLS_MOST: usize = 60_000;

/// The programs, attached. Dropping the links detaches them.
pub(super) struct Loaded {
    pub(super) skel: ExitsSkel<'static>,
    pub(super) links: Links,
    pub(super) missing: Vec<Missing>,
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded")
            .field("programs", &self.links.len())
            .field("missing", &self.missing)
            .finish_non_exhaustive()
    }
}

impl Loaded {
    /// Bytes of keys and values of the two tables of counts.
    pub(super) fn table_bytes(&self) -> u64 {
        let maps = &self.skel.maps;
        size_of_table(&maps.cells) + size_of_table(&maps.cell_of)
    }

    /// Threads that have begun to run a vCPU.
    pub(super) fn threads_begun(&self) -> u32 {
        let bss = self.skel.maps.bss_data.as_ref();
        bss.map_or(0, |bss| bss.threads_begun)
    }

    pub(super) fn cells_given(&self) -> u32 {
        let bss = self.skel.maps.bss_data.as_ref();
        // The two that are none's and everybody's do not count; racing threads may have gone beyond.
        bss.map_or(0, |bss| bss.cells_last.min(bss.cells_max.saturating_sub(2)))
    }
}

fn size_of_table(map: &MapMut<'_>) -> u64 {
    u64::from(map.max_entries()) * u64::from(map.key_size() + map.value_size())
}

pub(super) fn load(
    options: &ExitOptions,
    vms: &[Pid],
    vcpus: usize,
) -> Result<Loaded, CollectError> {
    hush_libbpf();
    // As the halt collector's: a few words, once or twice in the life of a process.
    let place: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = ExitsSkelBuilder::default()
        .open(place)
        .map_err(|error| explain("open the BPF programs for exits", &error))?;
    settle(&mut open, options, vms, vcpus)?;
    let skel = open
        .load()
        .map_err(|error| explain("load the BPF programs for exits", &error))?;
    for vm in vms {
        let wanted = &skel.maps.wanted;
        let noted = wanted.update(&vm.0.to_ne_bytes(), &[1], MapFlags::ANY);
        noted.map_err(|error| explain("note whose exits are wanted", &error))?;
    }
    let (links, missing) = attach(&skel.progs, options);
    Ok(Loaded {
        skel,
        links,
        missing,
    })
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

/// What is fixed before the programs are loaded.
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
    open.maps
        .cells
        .set_max_entries(cells)
        .map_err(|error| explain("size the table of exits", &error))?;
    open.maps
        .cell_of
        .set_max_entries(cells)
        .map_err(|error| explain("size the table of exits", &error))?;
    if let Some(settings) = open.maps.bss_data.as_deref_mut() {
        settings.cells_max = cells;
        settings.cells_max_subs = cells - cells_for(&ExitOptions::default(), vcpus).min(cells / 2);
    }
    let has = |key| options.sub_keys.contains(&key);
    let progs = &mut open.progs;
    progs.on_msr.set_autoload(has(SubKey::Msr));
    progs.on_pio.set_autoload(has(SubKey::Pio));
    progs.on_mmio.set_autoload(has(SubKey::Mmio));
    progs.on_page_fault.set_autoload(has(SubKey::Gpa));
    progs.on_hypercall.set_autoload(has(SubKey::Hypercall));
    progs.on_vector.set_autoload(has(SubKey::Vector));
    progs.on_cpuid.set_autoload(has(SubKey::Cpuid));
    Ok(())
}

/// A program and what is missing without it.
type Part<'a> = (&'a ProgramMut<'a>, &'static str, &'static str);

/// Attaches what was loaded. A part that a kernel lacks is missing, and no error.
fn attach(progs: &ExitsProgs<'_>, options: &ExitOptions) -> (Links, Vec<Missing>) {
    let always: [Part<'_>; 5] = [
        (
            &progs.on_userspace_exit,
            "kvm_userspace_exit",
            "time in user space is not separated",
        ),
        (
            &progs.on_fpu,
            "kvm_fpu",
            "time in user space holds the way back into the guest",
        ),
        (
            &progs.on_injection,
            "kvm_inj_virq",
            "injected interrupts are not counted",
        ),
        (
            &progs.on_emulation,
            "kvm_emulate_insn",
            "emulated instructions are not counted",
        ),
        (
            &progs.on_entry,
            "kvm_entry",
            "entries are not counted, and exits have no times",
        ),
    ];
    let wanted = subs(progs)
        .into_iter()
        .filter(|(key, _)| options.sub_keys.contains(key))
        .map(|(_, part)| part);
    let mut links = Links::none();
    let mut missing = Vec::new();
    let mut book =
        |attached: libbpf_rs::Result<Link>, tracepoint: &str, without_it: &str| match attached {
            Ok(link) => links.push(link),
            Err(error) => missing.push(Missing {
                field: "exits".to_owned(),
                reason: format!(
                    "{without_it}: tracepoint {tracepoint} cannot be attached ({error})"
                ),
            }),
        };
    for (program, tracepoint, without_it) in wanted.chain(always) {
        book(program.attach(), tracepoint, without_it);
    }
    // Exits last, so that the first finds everything else in place. Older kernels tell more with an
    // exit: where the program for those cannot be attached, the other can.
    let before = cfg!(target_arch = "x86_64").then(|| progs.on_exit_before.attach());
    let exits = match before {
        Some(Ok(link)) => Ok(link),
        _ => progs.on_exit.attach(),
    };
    book(exits, "kvm_exit", "exits are not counted");
    (links, missing)
}

/// The programs that tell what exits were about.
fn subs<'a>(progs: &'a ExitsProgs<'_>) -> [(SubKey, Part<'a>); 7] {
    [
        (SubKey::Msr, (&progs.on_msr, "kvm_msr", NO_SUB)),
        (SubKey::Pio, (&progs.on_pio, "kvm_pio", NO_SUB)),
        (SubKey::Mmio, (&progs.on_mmio, "kvm_mmio", NO_SUB)),
        (
            SubKey::Gpa,
            (&progs.on_page_fault, "kvm_page_fault", NO_SUB),
        ),
        (
            SubKey::Hypercall,
            (&progs.on_hypercall, "kvm_hypercall", NO_SUB),
        ),
        (SubKey::Vector, (&progs.on_vector, "kvm_inj_virq", NO_SUB)),
        (SubKey::Cpuid, (&progs.on_cpuid, "kvm_cpuid", NO_SUB)),
    ]
}

const NO_SUB: &str = "no exit details";
