//! The answer on a screen: ten lines.

use haltwise_core::explain::NEVER_HALTS;
use haltwise_core::stats::Interval;
use haltwise_document::{Document, Prose, Rows, Table, Unit, Untrusted, prose};

use crate::figures::Source;
use crate::now::view::{Answer, ComparedSetting, CostlyFinding, UnrecordedHost, UsingVm};
use crate::number::{nanos, share, three_digits};
use crate::recommend::view::GoalAdvice;
use crate::report::view::Report;
use crate::words::{bound, bound_sign, plural};

pub(crate) fn document(view: &Answer) -> Document {
    let mut document = Document::new();
    if let Some(of) = &view.outside {
        outside(&mut document, of);
    }
    if let Some(source) = &view.recording {
        recorded(&mut document, source, view);
    }
    if view.outside.is_some() || view.recording.as_ref().is_some_and(|source| source.vms > 0) {
        document.fact("advice", view.advice.clone());
    }
    let is_new = |finding: &&CostlyFinding| !is_spinning(finding);
    for finding in view.findings.iter().filter(is_new) {
        document.fact("also", also(finding));
    }
    let commands = [
        ("apply", &view.apply),
        ("undo", &view.undo),
        ("prove", &view.prove),
    ];
    for (name, command) in commands {
        if let Some(command) = command {
            document.command(name, command);
        }
    }
    if let Some(capture) = &view.capture {
        document.fact("capture", Untrusted::from(capture));
    }
    if let Some(source) = &view.recording {
        source.note(&mut document, "halts");
    }
    document
}

fn recorded(document: &mut Document, source: &Source, view: &Answer) {
    document.fact(
        Untrusted::from(&source.host),
        prose![
            format!(
                "{} in {}, recorded by {}, Linux ",
                plural(source.vms as u64, "VM"),
                nanos(source.duration_ns),
                source.rung
            ),
            Untrusted::from(&source.kernel)
        ],
    );
    if source.vms == 0 {
        document.fact("polling", "no KVM virtual machine ran");
        return;
    }
    vms(document, &view.vms);
    spinning(document, &view.findings);
    document.fact("polling", polling(view));
    if !view.settings.is_empty() {
        document.table(settings(&view.settings));
        if !view.goals.is_empty() {
            document.table(goals(&view.goals));
        }
        if let Some(price) = &view.price {
            document.fact("price", price.clone());
        }
    }
    if view.own_ceilings > 0 {
        document.fact(
            "ceilings",
            format!(
                "own in {} of {} VMs (KVM_CAP_HALT_POLL): halt_poll_ns does not apply",
                view.own_ceilings, source.vms
            ),
        );
    }
}

fn outside(document: &mut Document, of: &UnrecordedHost) {
    let parameters = of.parameters.iter().map(|knob| {
        let (name, value) = (Untrusted::from(&knob.name), Untrusted::from(&knob.value));
        prose![name, " = ", value]
    });
    document.fact("KVM", Prose::joined(parameters));
    let vms = of.vms.iter().take(NAMED).map(|vm| {
        let time = vm.cpu_percent.zip(vm.kernel_cpu_percent);
        let time = time.map_or_else(String::new, |(all, kernel)| {
            format!(" {}, {} in the kernel", cpus(all), cpus(kernel))
        });
        prose![Untrusted::from(&vm.name), time]
    });
    let mut vms = Prose::joined(vms);
    match of.vms.len() {
        0 => vms.extend(prose!["none found"]),
        all if all > NAMED => vms.extend(prose![format!(" and {} more", all - NAMED)]),
        _ => {}
    }
    if of.hidden_processes > 0 {
        let hidden = plural(of.hidden_processes as u64, "process");
        vms.extend(prose![format!("; {hidden} may not be looked into")]);
    }
    document.fact("VMs", vms);
    if let Some(busy) = of.busy_cpus {
        let waited = of.cpu_pressure.map_or_else(String::new, |waited| {
            format!("; tasks waited for a CPU {} of the time", share(waited))
        });
        document.fact("CPUs", format!("{} busy{waited}", three_digits(busy)));
        document.note(
            "Time in the kernel is exits, halt polling and I/O; a recording separates them."
                .to_owned(),
        );
    }
}

fn cpus(percent: f64) -> String {
    if percent < 100.0 {
        format!("{} of a CPU", share(percent / 100.0))
    } else {
        format!("{} CPUs", three_digits(percent / 100.0))
    }
}

fn polling(view: &Answer) -> String {
    let Some(all) = view.poll_cpu_percent else {
        if view.halts == Some(0) {
            return "none: no vCPU halted".to_owned();
        }
        return "the time polled was not recorded".to_owned();
    };
    let of = view.cpus.map_or_else(String::new, |cpus| {
        format!(" (host: {})", plural(u64::from(cpus), "CPU"))
    });
    let failed = view.failed_cpu_percent.filter(|_| all > 0.0);
    let failed = failed.map_or_else(String::new, |failed| {
        format!("; {} of it in polls that failed", share(failed / all))
    });
    let bound = view.poll_bound.map_or_else(String::new, bound);
    format!("{bound}{}{of}{failed}", cpus(all))
}

fn settings(rows: &[ComparedSetting]) -> Table {
    Rows::new("Settings", rows, usize::MAX)
        .with("second half", Unit::Word, |row| match row.which {
            "off" => row.setting.clone(),
            which => which.to_owned(),
        })
        .show(&["poll_cpu_percent", "latency_mean_ns"])
        .with("95 % confidence", Unit::Word, |row| {
            let ends = row.latency_mean_low_ns.zip(row.latency_mean_high_ns);
            ends.map(|(low, high)| format!("{} to {}", nanos(low), nanos(high)))
        })
        .show(&["latency_p99_ns"])
        .finish()
}

fn goals(rows: &[GoalAdvice]) -> Table {
    Rows::new("Goals", rows, usize::MAX)
        .with("goal", Unit::Word, |row| row.goal.name.clone())
        .show(&["advice"])
        .with("cost", Unit::Word, |row| {
            let share = row.cost_share.filter(Interval::is_known);
            share.map(|of| format!("{:+.0} to {:+.0} %", 100.0 * of.low, 100.0 * of.high))
        })
        .show(&["poll_cpu_percent", "latency_mean_ns"])
        .finish()
}

fn also(finding: &CostlyFinding) -> Prose {
    let whom = finding.vm.as_ref().map_or_else(
        || Prose::from("the host"),
        |name| Prose::from(Untrusted::from(name)),
    );
    let cost = finding.cpu_percent.filter(|cost| *cost > 0.0);
    let cost = cost.map_or_else(String::new, |cost| format!(", up to {}", cpus(cost)));
    let mut text = prose![format!("{} (", finding.title)];
    text.extend(whom);
    text.extend(prose![format!("{cost})")]);
    text
}

const NAMED: usize = 3;

/// The VMs of a report, in its order.
pub(super) fn using(report: &Report) -> Vec<UsingVm> {
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
fn vms(document: &mut Document, vms: &[UsingVm]) {
    let is_known = |vm: &&UsingVm| {
        vm.cpu.is_some() || vm.poll_cpu_percent.is_some() || vm.gap_p50_ns.is_some()
    };
    let known = vms.iter().take(NAMED).take_while(is_known).count();
    if known == 0 {
        return;
    }
    document.table(usage_table(&vms[..known]));
    let more = vms.len() - known;
    if more > 0 {
        let more = plural(more as u64, "more VM");
        document.fact("and", format!("{more}, in `haltwise report`"));
    }
}

fn usage_table(vms: &[UsingVm]) -> Table {
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
fn spinning(document: &mut Document, findings: &[CostlyFinding]) {
    for finding in findings.iter().filter(|finding| is_spinning(finding)) {
        let name = finding.vm.as_deref().unwrap_or_default();
        let what = format!(": {} {}", finding.signature, finding.first_remedy());
        document.fact("spins", prose![Untrusted::from(name), what]);
    }
}

pub(super) fn is_spinning(finding: &CostlyFinding) -> bool {
    finding.rule == NEVER_HALTS
}
