//! Loading and attaching the programs: only those that what was asked for needs.

use haltwise_core::exit::SubKey;
use haltwise_core::ids::Pid;
use haltwise_core::recording::Missing;
use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{MapCore, MapFlags};

use crate::bpf::attach::{explain, open};
use crate::bpf::links::Links;
use crate::bpf::program::{Program, Role};
use crate::bpf::skel::exits::{ExitsProgs, ExitsSkel, ExitsSkelBuilder, OpenExitsSkel};
use crate::collector::CollectError;
use crate::exits::ExitOptions;
use crate::opaque::Opaque;

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
    let mut links = Links::none();
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
