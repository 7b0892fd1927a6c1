//! Rules about exits for the local APIC, locks, guest memory, and reasons that the VMM does not know.

use super::prelude::*;
use super::terms::{FEWER_VCPUS, HYPERV, MODULE_RELOADED};

/// With `APICv` (`vmx`) or AVIC (`svm`) the hardware does an EOI and most IPIs by itself; without, each is an MSR write
/// (x2APIC, or Hyper-V's registers for the same) that exits. So an exit for a write to the EOI register shows that they are
/// off. Without MSR numbers a storm of MSR writes may be the timer alone.
pub(super) const APIC_WRITES: Rule = Rule {
    id: "apic-writes",
    title: "EOI and IPI writes that exit (no APICv or AVIC)",
    source: "enable_apicv in arch/x86/kvm/vmx/vmx.c, avic in arch/x86/kvm/svm/avic.c",
    look: |evidence| evidence.each_exits(apic_writes),
};

/// The parameters that have the hardware do it.
const LOADS: Does = Does::LoadsModule(&["kvm_intel.enable_apicv", "kvm_amd.avic"]);

/// `MSR_WRITE`; on SVM reads and writes are one reason.
const MSR: [(Isa, u32); 2] = [(Isa::Vmx, 32), (Isa::Svm, 0x7c)];

/// x2APIC registers: 0x800 and the register's offset over 16 (`APIC_EOI` 0xb0, `APIC_ICR` 0x300); and
/// `HV_X64_MSR_EOI` and `HV_X64_MSR_ICR` (`hyperv-tlfs.h`).
const EOI: [u64; 2] = [0x80b, HV_EOI];
const ICR: [u64; 2] = [0x830, HV_ICR];
const HV_EOI: u64 = 0x4000_0070;
const HV_ICR: u64 = 0x4000_0071;

const WITHOUT_REINJECTION: Remedy = Remedy::new(
    Does::SparesExits,
    "Remove what inhibits it for this VM: a PIT that reinjects lost ticks inhibits AVIC (QEMU `-global \
     kvm-pit.lost_tick_policy=discard`).",
    "It holds from the VM's next start; ticks that come while the vCPU does not run are lost.",
    "A guest that keeps its time by counting ticks of the PIT: its clock falls behind.",
);

const EMULATED: &str = "The local APIC is emulated by KVM: hardware virtualisation of it is missing, switched off, or \
                        inhibited by a setting of the VM.";
const BY_HYPERV: &str = "The guest writes Hyper-V's registers in place of the APIC's: hardware virtualisation of the \
                         APIC is missing, switched off, or inhibited. `hv-synic` without `hv-avic` inhibits it.";

/// All remedies; the one for Hyper-V's interface comes first.
fn remedies_for_apic(by_hyperv: bool) -> Vec<Remedy> {
    let avic = Remedy::under(
        Does::ForWindows,
        "QEMU: `hv-avic` beside `hv-synic` (QEMU 6.2, Linux 5.15); libvirt `<avic state='on'/>`.",
        HYPERV,
    );
    let loads = Remedy::under(
        LOADS,
        "Load kvm_intel with `enable_apicv=1`, or kvm_amd with `avic=1`, where the CPU has it.",
        MODULE_RELOADED,
    );
    let hyperv = by_hyperv.then_some(avic);
    hyperv
        .into_iter()
        .chain([loads, WITHOUT_REINJECTION])
        .collect()
}

fn apic_writes(evidence: &Evidence<'_>, guest: &Guest<'_>, exits: &ExitAccount) -> Option<Found> {
    // Where KVM virtualises in software it reports no exit, and no hardware could take the writes.
    exits.isa()?;
    let writes = exits_of(exits, &MSR);
    let to = |msrs: [u64; 2]| about(exits, &[Kind::MsrWrite], |msr| msrs.contains(&msr));
    let (mut apic, icr) = (to(EOI), to(ICR));
    let by_hyperv = to([HV_EOI, HV_ICR]).count * 2 > apic.count.saturating_add(icr.count);
    let eois = apic.count;
    apic.fold(&icr);
    let told = evidence.tells(SubKey::Msr);
    let per_s = guest.storm(if told { apic.count } else { writes.count })?;
    // Without EOI there is nothing that `APICv` would take: IPIs alone exit with IPI virtualisation off.
    if told && eois == 0 {
        return None;
    }
    let (signature, time_ns) = if told {
        let text = format!(
            "{eois} writes to the EOI register and {} to the ICR exited, {}; {} of the time of all \
             exits but halts.",
            icr.count,
            rate(per_s),
            percent(part_of_time(exits, apic.time_ns())),
        );
        (text, apic.time_ns())
    } else {
        let text = format!(
            "{} exits for MSRs, {}, {} of the time of all exits but halts; which MSRs was not \
             recorded (`haltwise record --exits=msr` does).",
            writes.count,
            rate(per_s),
            percent(part_of_time(exits, writes.time_ns())),
        );
        (text, writes.time_ns())
    };
    Some(Found {
        who: guest.whole(),
        signature,
        cause: if by_hyperv { BY_HYPERV } else { EMULATED }.to_owned(),
        remedies: remedies_for_apic(by_hyperv),
        cost: Some(Cost::cpu(guest.per_s(time_ns))),
        sure: if told { Sure::Certain } else { Sure::Possible },
    })
}

/// Hardware exits when a guest runs PAUSE so often in a short time that it must be spinning (`ple_gap`, `ple_window`); KVM
/// then yields to another vCPU. A vCPU that spins waits for a holder that does not run, or for a long critical section.
pub(super) const PAUSE_LOOP: Rule = Rule {
    id: "pause-loop",
    title: "vCPUs that spin on locks (pause-loop exits)",
    source: "kvm_vcpu_on_spin in virt/kvm/kvm_main.c, ple_gap in arch/x86/kvm/vmx/vmx.c",
    look: |evidence| evidence.each_exits(pause_loop),
};

/// `PAUSE_INSTRUCTION`, `pause`.
const PAUSE: [(Isa, u32); 2] = [(Isa::Vmx, 40), (Isa::Svm, 0x77)];

const LOOK_FOR_LOCK: Remedy = Remedy::new(
    Does::SparesExits,
    "In the guest, look for the lock (`perf lock`).",
    "The guest's own CPU time while it is traced.",
    "A guest that is near its limit: events of a contended lock are many, and tracing each slows it down.",
);

fn pause_loop(evidence: &Evidence<'_>, guest: &Guest<'_>, exits: &ExitAccount) -> Option<Found> {
    let pauses = exits_of(exits, &PAUSE);
    let per_s = guest.storm(pauses.count)?;
    let pressure = evidence.ledger.host.cpu_pressure();
    let contention = Contention::of(evidence, &guest.account);
    let pressed = contention.is_wanted();
    let time_ns = pauses.time_ns();
    Some(Found {
        who: guest.whole(),
        signature: format!(
            "{} pause-loop exits, {}, {} of the time of all exits but halts; CPU \
             pressure {} (PSI).",
            pauses.count,
            rate(per_s),
            percent(part_of_time(exits, time_ns)),
            pressure.map_or_else(|| "unknown".to_owned(), percent),
        ),
        cause: if pressed {
            "The host has too few CPUs: a lock holder is preempted while other vCPUs spin for its lock."
        } else {
            "Threads of the guest contend for a lock; the host has idle CPUs, so the lock holder \
             mostly runs."
        }
        .to_owned(),
        remedies: if pressed {
            vec![Remedy::under(
                Does::SparesCpus,
                "Fewer vCPUs, or pin them to CPUs of their own; leave `kvm-pv-unhalt` on, so that waiters \
                 halt instead of spinning.",
                FEWER_VCPUS,
            )]
        } else {
            vec![
                Remedy::under(
                    Does::NoPauseExits,
                    "Load kvm_intel with `ple_gap=0`, or kvm_amd with `pause_filter_count=0`: this host \
                     has CPUs to spare for vCPUs that spin.",
                    MODULE_RELOADED,
                ),
                LOOK_FOR_LOCK,
            ]
        },
        cost: Some(Cost::cpu(guest.per_s(time_ns))),
        sure: Sure::likely_if(pressed),
    })
}

/// Each fault of a guest page maps one page of the host: 4 kB, or 2 MB where huge pages serve. A guest that touches memory
/// for the first time, or whose pages are scanned, migrated or taken back, faults once for each.
///
/// An access to an emulated device faults too: on AMD each is a nested page fault, on Intel the first to a page is an EPT
/// violation (those after it are misconfigurations). They are taken off, with their time, by the accesses that were
/// recorded within such exits.
pub(super) const PAGE_FAULTS: Rule = Rule {
    id: "guest-page-faults",
    title: "faults of guest memory without huge pages",
    source: "Documentation/admin-guide/mm/transhuge.rst; kvm_mmu_page_fault in arch/x86/kvm/mmu/mmu.c",
    look: |evidence| evidence.each_exits(page_faults),
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

fn page_faults(evidence: &Evidence<'_>, guest: &Guest<'_>, exits: &ExitAccount) -> Option<Found> {
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
        remedies: huge_pages(thp, guest.vm.vmm),
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

fn huge_pages(thp: Option<&str>, vmm: VmmKind) -> Vec<Remedy> {
    let by_request = thp.is_some_and(|it| it.contains("[madvise]"));
    let first = match (by_request, asks(vmm)) {
        (false, true) => BY_REQUEST,
        (false, false) => IF_ASKED,
        (true, true) => COMPARE,
        (true, false) => ALWAYS,
    };
    vec![first, RESERVED]
}

/// KVM has met an exit that it does not handle, or a vCPU that cannot run yet, and the VMM calls `KVM_RUN` again at once: a
/// vCPU that does nothing takes a whole CPU.
pub(super) const UNKNOWN_EXITS: Rule = Rule {
    id: "unknown-exits",
    title: "KVM_RUN returns without a reason that the VMM handles",
    source: "KVM_EXIT_UNKNOWN in Documentation/virt/kvm/api.rst",
    look: |evidence| evidence.each_exits(unknown_exits),
};

/// `KVM_EXIT_UNKNOWN`.
const UNKNOWN: u32 = 0;

const UPDATE: Remedy = Remedy::new(
    Does::SparesVmm,
    "Look for the exit in the VMM's log and in `dmesg`, and update the VMM or the kernel that does not know \
     it.",
    "The VM has to stop, or to move to another host, while VMM or kernel are replaced.",
    "Where the VM must not stop before a log has told which exit it is.",
);

fn unknown_exits(_: &Evidence<'_>, guest: &Guest<'_>, exits: &ExitAccount) -> Option<Found> {
    let returns = tally(exits, |cause: &Cause| {
        cause.kind == Kind::UserspaceExit && cause.reason == Some(UNKNOWN)
    });
    let per_s = guest.storm(returns.count)?;
    Some(Found {
        who: guest.whole(),
        signature: format!(
            "KVM_RUN returned with KVM_EXIT_UNKNOWN {} times, {}; the VMM {}.",
            returns.count,
            rate(per_s),
            took(returns.time_ns()),
        ),
        cause: "KVM does not handle an exit of this guest, or the vCPU cannot run yet, and the VMM runs it again at \
                once."
            .to_owned(),
        remedies: vec![UPDATE],
        cost: Some(Cost::cpu(guest.per_s(returns.time_ns()))),
        sure: Sure::Likely,
    })
}
