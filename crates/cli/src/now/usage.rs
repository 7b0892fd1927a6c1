//! Which VMs take CPU time, and which of their vCPUs never halt.

use haltwise_core::explain::NEVER_HALTS;
use haltwise_document::{Document, Rows, Table, Untrusted, figures, prose};

use super::view::CostlyFinding;
use crate::report::view::Report;
use crate::usage::CpuFigures;
use crate::words::{bound_sign, plural};

const NAMED: usize = 3;

figures! {
    pub(crate) struct UsingVm {
        /// Its name.
        pub(crate) name: String = Name "VM",
        /// Its VMM's process.
        pub(crate) pid: u32 = Number,
        /// CPU time that its VMM's threads took; `null` where that was not recorded.
        pub(crate) cpu: Option<CpuFigures> = Record(CpuFigures::FIGURES),
        /// The highest ceiling of its halts; `null` where none was recorded.
        pub(crate) ceiling_ns: Option<u32> = Nanos "ceiling",
        /// Median gap: from the halt to its wake event; `null` where none was recorded.
        pub(crate) gap_p50_ns: Option<u64> = Nanos "gap",
        /// CPU time spent polling; `null` where that was not recorded, or no vCPU halted.
        pub(crate) poll_cpu_percent: Option<f64> = CpuPercent "polling",
        /// The part of it in polls that failed.
        pub(crate) failed_cpu_percent: Option<f64> = CpuPercent "failed",
        /// Accuracy of these two: `exact`, `at least`, `at most` or `about`.
        pub(crate) poll_bound: &'static str = Name,
    }
}

/// The VMs of a report, in its order.
pub(super) fn of(report: &Report) -> Vec<UsingVm> {
    (report.vms.iter())
        .map(|vm| UsingVm {
            name: vm.name.clone(),
            pid: vm.pid,
            cpu: vm.cpu,
            ceiling_ns: vm.account.ceilings.last().map(|ceiling| ceiling.ns),
            gap_p50_ns: vm.account.gap_ns.as_ref().map(|gap| gap.p50),
            poll_cpu_percent: vm.account.poll.cpu_percent,
            failed_cpu_percent: vm.account.poll.wasted_cpu_percent,
            poll_bound: vm.account.poll.bound,
        })
        .collect()
}

/// A row for each of the first VMs of which anything is known.
pub(super) fn show(document: &mut Document, vms: &[UsingVm]) {
    let is_known = |vm: &&UsingVm| {
        vm.cpu.is_some() || vm.poll_cpu_percent.is_some() || vm.gap_p50_ns.is_some()
    };
    let known = vms.iter().take(NAMED).take_while(is_known).count();
    if known == 0 {
        return;
    }
    document.table(table(&vms[..known]));
    let more = vms.len() - known;
    if more > 0 {
        let more = plural(more as u64, "more VM");
        document.fact("and", format!("{more}, in `haltwise report`"));
    }
}

fn table(vms: &[UsingVm]) -> Table {
    let rows = Rows::new("CPU time", vms, usize::MAX).show(&["name"]);
    let polling = [
        "poll_cpu_percent",
        "failed_cpu_percent",
        "ceiling_ns",
        "gap_p50_ns",
    ];
    let cpu = ["cpu.exits_cpu_percent", "cpu.vmm_cpu_percent"];
    let has_cpu = vms.iter().any(|vm| vm.cpu.is_some());
    let rows = if has_cpu {
        rows.show(&["cpu.cpu_percent", "cpu.guest_cpu_percent"])
    } else {
        rows
    };
    let rows = rows
        .show(&polling)
        .bounded(&polling[..2], |vm| bound_sign(vm.poll_bound));
    if has_cpu {
        rows.show(&cpu).spare(&cpu).finish()
    } else {
        rows.finish()
    }
}

/// vCPUs that never halt, each VM in a sentence; true of findings that are shown here.
pub(super) fn spinning(document: &mut Document, findings: &[CostlyFinding]) {
    for finding in findings.iter().filter(|finding| is_spinning(finding)) {
        let name = finding.vm.as_deref().unwrap_or_default();
        let what = format!(": {} {}", finding.signature, finding.first_remedy());
        document.fact("spins", prose![Untrusted::from(name), what]);
    }
}

pub(super) fn is_spinning(finding: &CostlyFinding) -> bool {
    finding.rule == NEVER_HALTS
}
