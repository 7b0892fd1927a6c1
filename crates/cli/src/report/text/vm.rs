//! The screen of one VM: its account, the verdict, and where the time went. The charts below it are in [`super::charts`].

use haltwise_core::recording::Side;
use haltwise_document::text;

use crate::chart::stacked;
use crate::figures;
use crate::number::{count, maybe_nanos, nanos, percent, scaled, share};
use crate::page::{Page, Stands, harmless};
use crate::report::quality::{NO_HALT, is_paused, limits};
use crate::report::text::charts::{histograms, poll_chart, window};
use crate::report::text::host::{STANDS, header, row};
use crate::report::verdict::{ceilings, verdict};
use crate::report::view::{AccountFigures, Report, ReportedVcpu, ReportedVm};
use crate::words::{of_cpu, plural};

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
        page.prose(NO_HALT);
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
    let of = |name: &str, figure: Option<f64>| Some(format!("{name} {}", of_cpu(Some(figure?))));
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
    let all = of_cpu(Some(cpu.cpu_percent));
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
    page.prose(&text);
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
        let now_ns = |ns: u32| format!("window now {}", nanos(ns.into()));
        let ceiling = |ns: u32| format!("ceiling {}", nanos(ns.into()));
        let veto = vcpu.guest_veto == Some(true);
        let now = [
            vcpu.window_ns.map(now_ns),
            vcpu.ceiling_ns.map(ceiling),
            veto.then(|| "switched off by the guest".to_owned()),
        ];
        let now: Vec<String> = now.into_iter().flatten().collect();
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

/// Marks of the parts of halted time, in the order of `Parts::named`.
const MARKS: [char; 6] = ['#', 'x', '.', 'w', '~', '?'];

pub(super) fn short(page: &mut Page, account: &AccountFigures) {
    let text = plural(account.halts, "halt");
    page.prose(&text);
    halted_time(page, account);
    spreads(page, account);
}

/// Shows an account. `vetoed`: the guest switched polling off.
pub(super) fn account(page: &mut Page, report: &Report, account: &AccountFigures, vetoed: bool) {
    page.gap();
    page.prose(&verdict(account, vetoed));
    page.gap();
    halted_time(page, account);
    page.gap();
    spreads(page, account);
    wakes(page, account);
    page.gap();
    poll_chart(page, account);
    page.gap();
    histograms(page, account);
    page.gap();
    window(page, report, account);
}

fn halted_time(page: &mut Page, account: &AccountFigures) {
    page.prose(&format!(
        "Halted {} of {} time: {} halts/s, {} sleeps/s (two context switches each)",
        share(account.halted_share),
        if account.vcpus == 1 {
            "the"
        } else {
            "its vCPUs'"
        },
        scaled(account.halts_per_s),
        scaled(account.waits_per_s),
    ));
    parts_bar(page, account);
    let whole = account.halted_ns;
    let no_latency = account.waits > 0 && account.wake_latency_ns.is_none();
    let mut rows = Vec::new();
    for ((name, ns), mark) in account.parts.named().into_iter().zip(MARKS) {
        if ns == 0 && !matches!(mark, '#' | 'x' | '.' | 'w') {
            continue;
        }
        let cpu = ns as f64 / account.span_ns.max(1) as f64;
        let comment = match mark {
            '#' | 'x' => format!("{} of a CPU", share(cpu)),
            '.' => "CPU free for others".to_owned(),
            'w' => "wake event until running".to_owned(),
            '~' => "woken before schedule()".to_owned(),
            _ => "not recorded".to_owned(),
        };
        // Where time is mostly unknown, it is not known whether it holds some of this; nor how a wait
        // falls into sleep and wake-up where no latency is known.
        let split = matches!(mark, '.' | 'w') && no_latency;
        let told = ns > 0 || (account.parts.unknown_ns <= whole / 2 && !split);
        let or_dash = |text: String| if told { text } else { "-".to_owned() };
        rows.push(vec![
            format!("{mark} {name}"),
            or_dash(nanos(ns)),
            or_dash(percent(ns as f64, whole as f64)),
            or_dash(comment),
        ]);
    }
    let stands = [Stands::Left, Stands::Right, Stands::Right, Stands::Left];
    page.table(2, &stands, &rows);
}

pub(super) fn parts_bar(page: &mut Page, account: &AccountFigures) {
    let parts = account.parts.named().into_iter().zip(MARKS);
    let parts: Vec<(char, u64)> = parts.map(|((_, ns), mark)| (mark, ns)).collect();
    let bar = stacked(&parts, page.width().saturating_sub(6));
    page.line(&format!("  [{bar}]"));
}

fn spreads(page: &mut Page, account: &AccountFigures) {
    let mut rows = vec![["", "p50", "p95", "p99", "max"].map(str::to_owned).to_vec()];
    for (name, spread) in [
        ("gap (halt to wake event)", account.gap_ns),
        ("wake-up latency of sleeps", account.wake_latency_ns),
        ("whole halt", account.halt_ns),
    ] {
        let mut cells = vec![name.to_owned()];
        let values = [
            spread.map(|s| s.p50),
            spread.map(|s| s.p95),
            spread.map(|s| s.p99),
            spread.map(|s| s.max),
        ];
        cells.extend(values.map(maybe_nanos));
        rows.push(cells);
    }
    let stands = Stands::of_numbers::<5>();
    page.table(2, &stands, &rows);
}

fn wakes(page: &mut Page, account: &AccountFigures) {
    let mut sources: Vec<_> = figures::wakes(account.wakes).collect();
    sources.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let told: Vec<String> = sources
        .iter()
        .filter(|(_, n)| *n > 0)
        .map(|(name, n)| format!("{name} {}", percent(*n as f64, account.halts as f64)))
        .collect();
    page.wrapped("  woken by  ", &told.join(", "), 12);
    if account.invalid > 0 {
        let text = format!(
            "KVM did not count {} wake-ups as valid",
            count(account.invalid)
        );
        page.prose(&text);
    }
}
