//! The diagnosis on a screen.

use super::view::{Diagnosis, VmView};
use crate::knob::text::{NOT_RUNNING, disabled};
use crate::number::nanos;
use crate::page::{Page, Stands, harmless};
use crate::words::{ceiling_source, plural};

/// Lays the diagnosis out.
pub(crate) fn render(diagnosis: &Diagnosis, width: usize) -> String {
    let mut page = Page::new(width);
    page.heading(&format!(
        "What can be recorded here (Linux {})",
        diagnosis.kernel
    ));
    let best = diagnosis.best_rung;
    for rung in &diagnosis.rungs {
        let text = match &rung.refused {
            None if best == Some(rung.rung) => "yes, will be used".to_owned(),
            None => "yes".to_owned(),
            Some(reason) => format!("no: {reason}"),
        };
        page.wrapped(&format!("  {:<12} ", rung.rung), &text, 15);
    }
    if best.is_none() {
        page.wrapped(
            "  ",
            "Nothing can be recorded on this host as it is set up.",
            2,
        );
    }
    page.heading("Capabilities of this process");
    for capability in &diagnosis.capabilities {
        let held = if capability.held { "yes" } else { "no" };
        let lead = format!("  {:<22} {held:<3}  ", capability.name);
        page.wrapped(&lead, capability.gives, 30);
    }
    page.heading("Settings in force");
    let mut rows = vec![["setting", "value", "binds"].map(str::to_owned).to_vec()];
    for knob in &diagnosis.knobs {
        let value = harmless(&knob.value);
        let value = match value.parse() {
            Ok(ns) if is_time(&knob.name) => format!("{value} ({})", nanos(ns)),
            _ => value,
        };
        rows.push(vec![harmless(&knob.name), value, knob.binds.to_owned()]);
    }
    page.table(2, &[Stands::Left; 3], &rows);
    vms(&mut page, diagnosis);
    findings(&mut page, diagnosis);
    page.finish()
}

fn is_time(name: &str) -> bool {
    name.ends_with("_ns") || name.ends_with("_start")
}

fn vms(page: &mut Page, diagnosis: &Diagnosis) {
    page.heading("Running VMs");
    if diagnosis.vms.is_empty() {
        page.wrapped("  ", "None was found.", 2);
    } else {
        let header = ["VM", "pid", "vCPUs", "ceiling", "set by", "window"];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        rows.extend(diagnosis.vms.iter().map(row));
        let stands = [
            Stands::Left,
            Stands::Right,
            Stands::Right,
            Stands::Right,
            Stands::Left,
            Stands::Left,
        ];
        page.table(2, &stands, &rows);
    }
    for vm in &diagnosis.vms {
        if let Some(reason) = &vm.not_observable {
            let text = format!("{}: not observable: {reason}", harmless(&vm.name));
            page.wrapped("  ", &text, 4);
        }
        if vm.running == Some(false) {
            let name = harmless(&vm.name);
            page.wrapped("  ", &format!("{name}: {NOT_RUNNING}"), 4);
        }
        if !vm.vetoed_vcpus.is_empty() {
            page.wrapped("  ", &disabled(&vm.name, &vm.vetoed_vcpus), 4);
        }
    }
    if let Some(reason) = &diagnosis.vms_unread {
        let text = format!("Ceilings, windows and polling vetoes of VMs are unknown: {reason}.");
        page.wrapped("  ", &text, 2);
    }
    if diagnosis.processes_denied > 0 {
        let processes = plural(diagnosis.processes_denied as u64, "process");
        let text = format!("{processes} not accessible; some of them may be VMs.");
        page.wrapped("  ", &text, 2);
    }
}

fn row(vm: &VmView) -> Vec<String> {
    let ceiling = vm
        .ceiling_ns
        .map_or_else(|| "-".to_owned(), |ns| nanos(ns.into()));
    let window = match vm.window_ns {
        None if !vm.vetoed_vcpus.is_empty() => "not polled".to_owned(),
        None => "-".to_owned(),
        Some((low, high)) if low == high => nanos(low.into()),
        Some((low, high)) => format!("{} to {}", nanos(low.into()), nanos(high.into())),
    };
    let set_by = if vm.ceiling_ns.is_some() {
        ceiling_source(vm.ceiling_source)
    } else {
        "-"
    };
    vec![
        harmless(&vm.name),
        vm.pid.to_string(),
        vm.vcpus.to_string(),
        ceiling,
        set_by.to_owned(),
        window,
    ]
}

fn findings(page: &mut Page, diagnosis: &Diagnosis) {
    page.heading("Notes");
    if diagnosis.findings.is_empty() {
        page.wrapped("  ", "Nothing.", 2);
    }
    for finding in &diagnosis.findings {
        let what = format!("{}: {}", harmless(&finding.what), harmless(&finding.why));
        page.wrapped(&format!("  {:<8} ", finding.level), &what, 11);
        if let Some(remedy) = &finding.remedy {
            page.wrapped("           do: ", &harmless(remedy), 15);
        }
    }
}

#[cfg(test)]
mod test {
    use haltwise_core::event::CeilingSource;
    use haltwise_core::recording::Rung;
    use unicode_width::UnicodeWidthStr;

    use super::*;
    use crate::doctor::view::{CapabilityView, FindingView, KnobView, RungView};

    #[test]
    fn a_screen_says_what_is_refused_and_what_to_do() {
        let diagnosis = Diagnosis {
            schema: 1,
            kernel: "5.15.0".into(),
            best_rung: Some(Rung::Tracepoints),
            rungs: vec![RungView {
                rung: Rung::Bpf,
                refused: Some("load BPF programs: not permitted (needs CAP_BPF)".into()),
                denied: true,
            }],
            capabilities: vec![CapabilityView {
                name: "CAP_CHECKPOINT_RESTORE",
                held: false,
                gives: "--profile: function names of VMMs whose files are deleted",
            }],
            knobs: vec![KnobView {
                name: "halt_poll_ns".into(),
                value: "200000".into(),
                binds: "VMs started after it was set",
            }],
            vms: vec![VmView {
                identity: haltwise_core::identity::Identity::default(),
                name: "a-long-name-\u{1b}[2J".repeat(5),
                vmm: "qemu",
                pid: 4_711,
                vcpus: 2,
                ceiling_ns: Some(200_000),
                ceiling_source: CeilingSource::Snapshot,
                window_ns: Some((0, 80_000)),
                vetoed_vcpus: vec![1],
                not_observable: None,
                running: Some(false),
            }],
            vms_unread: None,
            processes_denied: 1,
            findings: vec![FindingView {
                level: "warning",
                what: "a VM keeps its ceiling".into(),
                why: "kernels 5.8 to 6.0".into(),
                remedy: Some("restart it".into()),
            }],
        };
        let text = render(&diagnosis, 80);
        assert!(text.lines().all(|line| line.width() <= 80), "{text}");
        for part in [
            "  bpf          no: load BPF programs: not permitted (needs CAP_BPF)\n",
            "  CAP_CHECKPOINT_RESTORE no   --profile: function names of VMMs whose files are\n",
            "200000 (200 us)  VMs started after it was set\n",
            "fixed when the VM was created  0 ns to 80.0 us\n",
            "disabled host polling on vCPU 1: their halts",
            "not running: none of its vCPUs is in KVM_RUN",
            "1 process not accessible",
            "  warning  a VM keeps its ceiling: kernels 5.8 to 6.0\n           do: restart it\n",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
        assert!(!text.contains('\u{1b}'));
    }
}
