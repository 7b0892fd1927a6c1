//! Loading and attaching the programs: only those that what was asked for needs.

use haltwise_core::exit::SubKey;
use haltwise_core::ids::Pid;
use haltwise_core::recording::Missing;
use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{MapCore, MapFlags, ProgramMut};

use crate::bpf::attach::{explain, open};
use crate::bpf::links::Links;
use crate::bpf::skel::exits::{ExitsProgs, ExitsSkel, ExitsSkelBuilder, OpenExitsSkel};
use crate::collector::CollectError;
use crate::exits::ExitOptions;
use crate::opaque::Opaque;

/// Cells made for each vCPU that runs already: a guest rarely has as many reasons.
const CELLS_PER_VCPU: usize = 32;
/// The same with sub-keys: ports, MSRs, pages.
const SUB_CELLS_PER_VCPU: usize = 200;
const CELLS_SPARE: usize = 4096;
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

/// Sets the values that are fixed before the programs are loaded.
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

/// Attaches what was loaded. A part that a kernel lacks is missing, and no error.
pub(super) fn attach(progs: &ExitsProgs<'_>, options: &ExitOptions) -> (Links, Vec<Missing>) {
    let always = [
        (
            &progs.on_userspace_exit,
            "time in user space is not separated",
        ),
        (
            &progs.on_fpu,
            "time in user space holds the way back into the guest",
        ),
        (&progs.on_injection, "injected interrupts are not counted"),
        (&progs.on_emulation, "emulated instructions are not counted"),
        (
            &progs.on_entry,
            "entries are not counted, and exits have no times",
        ),
    ];
    let wanted = subs(progs)
        .into_iter()
        .filter(|(key, _)| options.sub_keys.contains(key))
        .map(|(_, program)| (program, "no exit details"));
    let mut links = Links::none();
    let mut missing = Vec::new();
    for (program, without_it) in wanted.chain(always) {
        missing.extend(links.attach(program, "exits", without_it));
    }
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

/// The programs that tell what exits were about.
fn subs<'a>(progs: &'a ExitsProgs<'_>) -> [(SubKey, &'a ProgramMut<'a>); 7] {
    [
        (SubKey::Msr, &progs.on_msr),
        (SubKey::Pio, &progs.on_pio),
        (SubKey::Mmio, &progs.on_mmio),
        (SubKey::Gpa, &progs.on_page_fault),
        (SubKey::Hypercall, &progs.on_hypercall),
        (SubKey::Vector, &progs.on_vector),
        (SubKey::Cpuid, &progs.on_cpuid),
    ]
}
