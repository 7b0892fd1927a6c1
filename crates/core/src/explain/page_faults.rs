//! Faults of guest memory (EPT violations, nested page faults) in great number, and no huge pages.
//!
//! Each fault of a guest page maps one page of the host: 4 kB, or 2 MB where huge pages serve. A guest that
//! touches memory for the first time, or whose pages are scanned, migrated or taken back, faults once for each.
//!
//! An access to an emulated device faults too: on AMD each of them is a nested page fault, on Intel the first to
//! a page is an EPT violation (those after it are EPT misconfigurations). They are taken off, with their time, by
//! the accesses that were recorded within such exits.

use super::prelude::*;

pub(super) const RULE: Rule = Rule {
    id: "guest-page-faults",
    title: "faults of guest memory without huge pages",
    source: "Documentation/admin-guide/mm/transhuge.rst; kvm_mmu_page_fault in arch/x86/kvm/mmu/mmu.c",
    look: |evidence| evidence.each_exits(of_guest),
};

/// `EPT_VIOLATION`, `NPF`.
const FAULTS: [(Isa, u32); 2] = [(Isa::Vmx, 48), (Isa::Svm, 0x400)];

/// Price and harm of huge pages for programs that ask for huge pages.
const ASKED: Terms = Terms::new(
    "A guest that touches its memory in parts takes whole huge pages, which the kernel has to find or compact.",
    "Where the faults come from KSM, ballooning or a migration that is under way it does no good: all of them \
     split huge pages.",
);

const BY_REQUEST: Remedy = Remedy::under(
    Does::SparesVmm,
    "`echo madvise > /sys/kernel/mm/transparent_hugepage/enabled`: this VMM asks for huge pages.",
    ASKED,
);

const IF_ASKED: Remedy = Remedy::under(
    Does::SparesVmm,
    "`echo madvise > /sys/kernel/mm/transparent_hugepage/enabled` where this VMM asks for huge pages \
     (MADV_HUGEPAGE).",
    ASKED,
);

/// A look at the VMM's smaps, and huge pages in shared memory.
const COMPARE: Remedy = Remedy::new(
    Does::SparesVmm,
    "Compare AnonHugePages with Rss of the guest's memory in /proc/PID/smaps: this VMM asks for huge pages, and for \
     private memory the setting gives them. Where most of it is huge, look for what maps it again: KSM, NUMA \
     balancing, ballooning, migration. Shared memory (memfd, /dev/shm, for vhost-user or virtiofsd) has a setting of \
     its own: `echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled`.",
    "A read of smaps holds the VMM's mmap lock while it walks its memory; shared memory that is touched in parts \
     takes whole huge pages.",
    "Where memory is short: shmem_enabled applies to each program that asks for huge pages of shared memory.",
);

const ALWAYS: Remedy = Remedy::new(
    Does::SparesVmm,
    "`echo always > /sys/kernel/mm/transparent_hugepage/enabled` where this VMM does not ask for huge pages \
     (AnonHugePages of its guest's memory in /proc/PID/smaps stays 0).",
    "Every process of the host gets huge pages: what is touched in parts takes more memory, and the kernel \
     compacts memory for it.",
    "Where programs on this host advise against huge pages, as databases do: their latency and memory use grow.",
);

const RESERVED: Remedy = Remedy::new(
    Does::SparesVmm,
    "hugetlbfs for the VM: QEMU `-mem-path /dev/hugepages`; libvirt `<memoryBacking><hugepages/>`; Cloud Hypervisor \
     `--memory hugepages=on`; Firecracker `huge_pages` in its machine-config.",
    "It holds from the VM's next start; all of its memory is reserved, in huge pages that the host has to have \
     free, and cannot be overcommitted, swapped or merged.",
    "Where the host overcommits its memory: what one VM reserves is missing for the others.",
);

/// Faults of guest memory, without those of emulated devices.
struct Faults {
    count: u64,
    time_ns: u64,
    /// Those of devices, taken off; `None` where they were not recorded and may be among them.
    of_devices: Option<u64>,
}

fn faults(evidence: &Evidence<'_>, exits: &ExitAccount) -> Faults {
    let all = exits_of(exits, &FAULTS);
    let accesses = tally(exits, |cause| {
        let is_fault = (cause.reason).is_some_and(|reason| FAULTS.contains(&(cause.isa, reason)));
        is_fault && matches!(cause.kind, Kind::MmioRead | Kind::MmioWrite)
    });
    // The first access of an exit has the exit's time, the others have none.
    let timed = accesses.handling_ns.count();
    let devices = if timed > 0 { timed } else { accesses.count }.min(all.count);
    // Times that are not known: as long as the mean. A fault that a device serves takes longer, so that what is
    // left is an upper bound.
    let mean_ns = all.time_ns().checked_div(all.count).unwrap_or(0);
    let of_devices_ns = match accesses.time_ns() {
        0 => mean_ns.saturating_mul(devices),
        ns => ns,
    };
    let may_be_among = exits.isa() == Some(Isa::Svm) && !evidence.tells(SubKey::Mmio);
    Faults {
        count: all.count - devices,
        time_ns: all.time_ns().saturating_sub(of_devices_ns),
        of_devices: (!may_be_among).then_some(devices),
    }
}

fn of_guest(evidence: &Evidence<'_>, guest: &Guest<'_>, exits: &ExitAccount) -> Option<Found> {
    let faults = faults(evidence, exits);
    let per_s = guest.storm(faults.count)?;
    let thp = evidence.setting("transparent_hugepage");
    let machine = guest.vm.machine.as_ref();
    let has_huge = thp.is_some_and(|it| it.contains("[always]"));
    let asked = machine.is_some_and(|machine| machine.huge_pages);
    if has_huge || asked {
        return None;
    }
    let devices = match faults.of_devices {
        None => {
            "; accesses to emulated devices are among them (`haltwise record --exits=mmio` separates them)"
                .to_owned()
        }
        Some(0) => String::new(),
        Some(count) => format!("; {count} more were accesses to emulated devices"),
    };
    Some(Found {
        who: guest.whole(),
        signature: format!(
            "{} faults of guest memory, {}; they {}, {} of the time of all exits but halts{devices}; \
             transparent huge pages: {}.",
            faults.count,
            rate(per_s),
            took(faults.time_ns),
            percent(part_of_time(exits, faults.time_ns)),
            thp.unwrap_or("not known"),
        ),
        cause: "Guest memory is mapped page by page of 4 kB as it is touched, or is mapped again because the \
                host moved, scanned or took back its pages (KSM, NUMA balancing, ballooning, migration)."
            .to_owned(),
        remedies: remedies(thp, guest.vm.vmm),
        cost: Some(Cost::cpu(guest.per_s(faults.time_ns))),
        // Where a VMM has asked for huge pages, the faults have another cause more often than not.
        sure: match thp {
            Some(it) if it.contains("[never]") && faults.of_devices.is_some() => Sure::Likely,
            _ => Sure::Possible,
        },
    })
}

/// QEMU (`ram_block_add`) and Cloud Hypervisor (`thp=on`) ask for huge pages for the memory of their guests.
fn asks(vmm: VmmKind) -> bool {
    matches!(vmm, VmmKind::Qemu | VmmKind::CloudHypervisor)
}

fn remedies(thp: Option<&str>, vmm: VmmKind) -> Vec<Remedy> {
    let by_request = thp.is_some_and(|it| it.contains("[madvise]"));
    let first = match (by_request, asks(vmm)) {
        (false, true) => BY_REQUEST,
        (false, false) => IF_ASKED,
        (true, true) => COMPARE,
        (true, false) => ALWAYS,
    };
    vec![first, RESERVED]
}
