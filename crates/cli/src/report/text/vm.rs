//! The screen of one VM.

use haltwise_core::recording::Side;
use haltwise_document::text;

use super::account::{account, parts_bar};
use super::charts::window;
use super::host::{STANDS, header, percent, row};
use crate::number::{count, nanos};
use crate::page::{Page, Stands, harmless};
use crate::report::quality::{NO_HALT, is_paused, limits};
use crate::report::verdict::ceilings;
use crate::report::view::{AccountFigures, Report, ReportedVcpu, ReportedVm};
use crate::words::plural;

pub(super) fn vm(page: &mut Page, report: &Report, vm: &ReportedVm, vcpus: bool) {
    let which = match vm.ordinal {
        0 => String::new(),
        n => format!(", VM {} of this process", u64::from(n) + 1),
    };
    page.heading(&match report.recording.side {
        Side::Host => format!(
            "VM {} ({}, pid {}{which}), {}",
            harmless(&vm.name),
            vm.vmm,
            vm.pid,
            plural(vm.vcpus.len() as u64, "vCPU"),
        ),
        Side::Guest => format!("Idle time of {}", plural(vm.vcpus.len() as u64, "CPU")),
    });
    text::add(page, &limits(vm, report));
    if vm.not_observable.is_some() && vm.account.halts == 0 {
        return;
    }
    if let Some(text) = cpu(vm) {
        page.wrapped("  CPU     ", &text, 10);
    }
    if report.recording.side.is_host() {
        page.wrapped("  ceiling ", &ceilings(vm), 10);
    }
    vetoes(page, vm);
    if is_paused(vm) {
        return;
    }
    if vm.account.halts == 0 {
        page.wrapped("  ", NO_HALT, 2);
    } else {
        let vetoed = vm.vcpus.iter().any(|vcpu| vcpu.guest_veto == Some(true));
        account(page, report, &vm.account, vetoed);
        spared(page, report, &vm.account);
    }
    if vcpus {
        vcpu_table(page, report, vm);
    }
}

fn cpu(vm: &ReportedVm) -> Option<String> {
    let cpu = vm.cpu?;
    let of = |name: &str, figure: Option<f64>| Some(format!("{name} {}", percent(Some(figure?))));
    // Without guest time exits are not known either.
    let rest = cpu.cpu_percent - cpu.vmm_cpu_percent;
    let parts = [
        of("guest", cpu.guest_cpu_percent),
        of(
            "vCPU threads",
            Some(rest).filter(|_| cpu.guest_cpu_percent.is_none()),
        ),
        of("polling", vm.account.poll.cpu_percent),
        of("exits", cpu.exits_cpu_percent),
        of("VMM threads", Some(cpu.vmm_cpu_percent)),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let all = percent(Some(cpu.cpu_percent));
    Some(format!("{all} of a CPU: {}", parts.join(", ")))
}

fn spared(page: &mut Page, report: &Report, account: &AccountFigures) {
    if report.recording.side.is_host() {
        return;
    }
    page.gap();
    let spared = account.poll.successful;
    let text = format!(
        "{} HLT exits to the host; {} polls ended without one.",
        count(account.waits),
        count(spared),
    );
    page.wrapped("  ", &text, 2);
}

fn vetoes(page: &mut Page, vm: &ReportedVm) {
    let vetoed: Vec<String> = vm
        .vcpus
        .iter()
        .filter(|vcpu| vcpu.guest_veto == Some(true))
        .map(|vcpu| vcpu.id.to_string())
        .collect();
    if !vetoed.is_empty() {
        let text = format!(
            "the guest disabled host polling (MSR_KVM_POLL_CONTROL) for vCPU {}",
            vetoed.join(", ")
        );
        page.wrapped("  veto    ", &text, 10);
    }
}

fn vcpu_table(page: &mut Page, report: &Report, vm: &ReportedVm) {
    page.gap();
    let has_cpu = vm.vcpus.iter().any(|vcpu| vcpu.cpu_percent.is_some());
    let mut rows = vec![header("vCPU (tid)", has_cpu)];
    for vcpu in &vm.vcpus {
        let mut cells = vec![name(vcpu)];
        cells.extend(row(&vcpu.account, has_cpu, vcpu.cpu_percent));
        rows.push(cells);
    }
    page.table(2, &STANDS, &rows);
    for vcpu in vm.vcpus.iter().filter(|vcpu| vcpu.account.halts > 0) {
        page.gap();
        let mut now = Vec::new();
        now.extend(
            vcpu.window_ns
                .map(|ns| format!("window now {}", nanos(ns.into()))),
        );
        now.extend(
            vcpu.ceiling_ns
                .map(|ns| format!("ceiling {}", nanos(ns.into()))),
        );
        if vcpu.guest_veto == Some(true) {
            now.push("switched off by the guest".to_owned());
        }
        let cells = vec![format!("vCPU {}", vcpu.id), now.join(", ")];
        page.table(2, &[Stands::Left, Stands::Left], &[cells]);
        parts_bar(page, &vcpu.account);
        window(page, report, &vcpu.account);
    }
}

fn name(vcpu: &ReportedVcpu) -> String {
    match vcpu.tid {
        Some(tid) => format!("{} ({tid})", vcpu.id),
        None => vcpu.id.to_string(),
    }
}
