//! Faults of guest memory (EPT violations, nested page faults) in great number, and no huge pages.
//!
//! Each fault of a guest page maps one page of the host: 4 kB, or 2 MB where huge pages serve. A guest that
//! touches memory for the first time, or whose pages are scanned, migrated or taken back, faults once for each.

use super::cost::Cost;
use super::evidence::{Evidence, Guest, exits_of, tally};
use super::remedy::{Does, Remedy};
use super::say::{percent, rate, took};
use super::{Found, Judgement, Rule, STORM_PER_S, Sure};
use crate::exit::account::Account as ExitAccount;
use crate::exit::{Isa, Kind};

pub(super) const RULE: Rule = Rule {
    id: "guest-page-faults",
    title: "faults of guest memory without huge pages",
    source: "Documentation/admin-guide/mm/transhuge.rst; kvm_mmu_page_fault in arch/x86/kvm/mmu/mmu.c",
    remedies: &[Does::SparesVmm],
    look,
};

/// `EPT_VIOLATION`, `NPF`.
const FAULTS: [(Isa, u32); 2] = [(Isa::Vmx, 48), (Isa::Svm, 0x400)];

fn look(evidence: &Evidence<'_>) -> Judgement {
    evidence.each_exits(|guest, exits| of_guest(evidence, guest, exits))
}

fn of_guest(evidence: &Evidence<'_>, guest: &Guest<'_>, exits: &ExitAccount) -> Option<Found> {
    let faults = exits_of(exits, &FAULTS);
    // AMD's faults are those of emulated devices too.
    let mmio = tally(exits, |cause| {
        matches!(cause.kind, Kind::MmioRead | Kind::MmioWrite)
    });
    let per_s = guest.per_s(faults.count.saturating_sub(mmio.count));
    let thp = evidence.setting("transparent_hugepage");
    let machine = guest.vm.machine.as_ref();
    let has_huge = thp.is_some_and(|it| it.contains("[always]"));
    let asked = machine.is_some_and(|machine| machine.huge_pages);
    if per_s < STORM_PER_S || has_huge || asked {
        return None;
    }
    let all_ns = exits.total().exits.time_ns().max(1);
    Some(Found {
        who: guest.whole(),
        signature: format!(
            "{} faults of guest memory, {}; they {}, {} of the time of all exits but halts; transparent \
             huge pages: {}.",
            faults.count,
            rate(per_s),
            took(&faults),
            percent(faults.time_ns() as f64 / all_ns as f64),
            thp.unwrap_or("not known"),
        ),
        cause: "Guest memory is mapped page by page of 4 kB as it is touched, or is mapped again because the \
                host moved, scanned or took back its pages (KSM, NUMA balancing, ballooning, migration)."
            .to_owned(),
        remedies: vec![Remedy::new(
            Does::SparesVmm,
            "`echo madvise > /sys/kernel/mm/transparent_hugepage/enabled` (QEMU asks for huge pages), or \
             hugetlbfs for the VM: libvirt `<memoryBacking><hugepages/>`. With hugetlbfs its memory is \
             reserved and cannot be overcommitted or merged. It does no good where the faults come from \
             KSM, ballooning or a migration that is under way.",
        )],
        cost: Some(Cost::cpu(guest.per_s(faults.time_ns()))),
        // QEMU asks by madvise: then the faults have another cause more often than not.
        sure: match thp {
            Some(it) if it.contains("[never]") => Sure::Likely,
            _ => Sure::Possible,
        },
    })
}
