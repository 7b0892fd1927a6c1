//! The diagnosis on a screen.

use haltwise_document::{Document, Rows, Unit, Untrusted, prose};

use super::view::{Diagnosis, RunningVm};
use crate::knob::text::{NOT_RUNNING, disabled, window};
use crate::words::{ceiling_source, each_once, plural, setting};

pub(crate) fn document(diagnosis: &Diagnosis, top: usize) -> Document {
    let mut document = Document::new();
    let kernel = &diagnosis.kernel;
    document.heading(format!("What can be recorded here (Linux {kernel})"));
    let best = diagnosis.best_rung;
    for source in &diagnosis.rungs {
        let text = match &source.refused {
            None if best == Some(source.rung) => "yes, will be used".to_owned(),
            None => "yes".to_owned(),
            Some(reason) => format!("no: {reason}"),
        };
        document.fact(source.rung.to_string(), Untrusted::from(text));
    }
    if best.is_none() {
        document.prose("Nothing can be recorded on this host as it is set up.");
    }
    document.heading("Capabilities of this process");
    for capability in &diagnosis.capabilities {
        let held = if capability.held { "yes" } else { "no" };
        document.fact(capability.name, format!("{held}; {}", capability.gives));
    }
    document.heading("Settings in force");
    let settings = Rows::new("Settings in force", &diagnosis.knobs, usize::MAX)
        .show(&["name"])
        .with("value", Unit::Name, |it| setting(&it.name, &it.value))
        .show(&["binds"]);
    document.table(settings.finish());
    vms(&mut document, diagnosis, top);
    findings(&mut document, diagnosis);
    document
}

fn vms(document: &mut Document, diagnosis: &Diagnosis, top: usize) {
    document.heading("Running VMs");
    if diagnosis.vms.is_empty() {
        document.prose("None was found.");
    } else {
        let vms = Rows::new("Running VMs", &diagnosis.vms, top)
            .show(&["name", "pid", "vcpus", "ceiling_ns"])
            .with("set by", Unit::Word, |vm| {
                vm.ceiling_ns.map(|_| ceiling_source(vm.ceiling_source))
            })
            .with("window", Unit::Word, |vm| {
                window(vm.window_ns, &vm.vetoed_vcpus)
            });
        document.table(vms.finish());
    }
    for (names, text) in each_once(diagnosis.vms.iter().flat_map(of_vm)) {
        document.prose(prose![
            Untrusted::from(&names),
            ": ",
            Untrusted::from(&text)
        ]);
    }
    if let Some(reason) = &diagnosis.vms_unread {
        let text = "Ceilings, windows and polling vetoes of VMs are unknown: ";
        document.prose(prose![text, Untrusted::from(reason), "."]);
    }
    if diagnosis.processes_denied > 0 {
        let processes = plural(diagnosis.processes_denied as u64, "process");
        document.prose(format!(
            "{processes} not accessible; some of them may be VMs."
        ));
    }
}

/// Remarks on a VM below the table, its name before each.
fn of_vm(vm: &RunningVm) -> impl Iterator<Item = (&str, String)> {
    let hidden = vm.not_observable.as_ref();
    let hidden = hidden.map(|reason| format!("not observable: {reason}"));
    let stopped = (vm.running == Some(false)).then(|| NOT_RUNNING.to_owned());
    let vetoed = (!vm.vetoed_vcpus.is_empty()).then(|| disabled(&vm.vetoed_vcpus));
    let settable = vm.ceiling_settable.map(|_| match &vm.ceiling_obstacle {
        None => "a ceiling of its own can be set (`haltwise apply --vm`).".to_owned(),
        Some(reason) => format!("no ceiling of its own can be set: {reason}."),
    });
    let said = [hidden, stopped, vetoed, settable].into_iter().flatten();
    said.map(|text| (&*vm.name, text))
}

fn findings(document: &mut Document, diagnosis: &Diagnosis) {
    document.heading("Notes");
    if diagnosis.findings.is_empty() {
        document.prose("Nothing.");
    }
    for finding in &diagnosis.findings {
        let (what, why) = (
            Untrusted::from(&finding.what),
            Untrusted::from(&finding.why),
        );
        document.fact(finding.level.as_str(), prose![what, ": ", why]);
        if let Some(remedy) = &finding.remedy {
            document.fact("    do", Untrusted::from(remedy));
        }
    }
}

#[cfg(test)]
mod test {
    use haltwise_core::event::CeilingSource;
    use haltwise_core::recording::Rung;
    use haltwise_document::text::{self, Style};
    use haltwise_host::support::{Finding, Level};
    use unicode_width::UnicodeWidthStr;

    use super::*;
    use crate::doctor::view::{EventSource, HeldCapability, SettingInForce};

    #[test]
    fn a_screen_says_what_is_refused_and_what_to_do() {
        let diagnosis = Diagnosis {
            schema: 1,
            kernel: "5.15.0".into(),
            best_rung: Some(Rung::Tracepoints),
            rungs: vec![EventSource {
                rung: Rung::Bpf,
                refused: Some("load BPF programs: not permitted (needs CAP_BPF)".into()),
                denied: true,
            }],
            capabilities: vec![HeldCapability {
                name: "CAP_CHECKPOINT_RESTORE",
                held: false,
                gives: "--profile: function names of VMMs whose files are deleted",
            }],
            knobs: vec![SettingInForce {
                name: "halt_poll_ns".into(),
                value: "200000".into(),
                binds: "VMs started after it was set",
            }],
            vms: vec![RunningVm {
                identity: None,
                name: "a-long-name-\u{1b}[2J".repeat(5),
                vmm: "qemu",
                pid: 4_711,
                vcpus: 2,
                ceiling_ns: Some(200_000),
                ceiling_source: CeilingSource::Snapshot,
                ceiling_settable: Some(false),
                ceiling_obstacle: Some("its VMM is linked statically".into()),
                window_ns: Some((0, 80_000)),
                vetoed_vcpus: vec![1],
                not_observable: None,
                running: Some(false),
            }],
            vms_unread: None,
            processes_denied: 1,
            findings: vec![Finding {
                level: Level::Warning,
                what: "a VM keeps its ceiling".into(),
                why: "kernels 5.8 to 6.0".into(),
                remedy: Some("restart it".into()),
            }],
        };
        let style = Style {
            width: 80,
            colour: false,
        };
        let text = text::render(&document(&diagnosis, 20), style);
        assert!(text.lines().all(|line| line.width() <= 80), "{text}");
        for part in [
            "bpf: no: load BPF programs: not permitted (needs CAP_BPF)\n",
            "CAP_CHECKPOINT_RESTORE: no; --profile: function names of VMMs whose files are\n",
            "200000 (200 us)  VMs started after it was set\n",
            "fixed when the VM was created 0 ns to 80.0 us\n",
            "disabled host polling on vCPU 1: their",
            "not running: none of its vCPUs is in KVM_RUN",
            "1 process not accessible",
            "warning: a VM keeps its ceiling: kernels 5.8 to 6.0\n    do: restart it\n",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
        assert!(!text.contains('\u{1b}'));
    }
}
