//! Data kept of real tools' output, against committed texts.

use std::fs;
use std::path::Path;

use haltwise_capture::import::GivenSettings;
use haltwise_core::event::{CeilingSource, Halt};
use haltwise_core::parameter::{Parameter, Values};
use haltwise_core::recording::Rung;

use super::{Made, capture_of};

fn told() -> GivenSettings {
    GivenSettings {
        parameters: Values::default()
            .with(Parameter::HaltPollNs, 200_000)
            .with(Parameter::Grow, 2),
        ..GivenSettings::default()
    }
}

fn dump(made: &Made) -> String {
    let (imported, info) = (&made.imported, made.capture.info());
    let host = &info.host;
    let mut lines = vec![format!(
        "{} {} {} CPUs",
        host.kernel_release, host.arch, host.cpus
    )];
    let vms = info.roster.vms.iter();
    lines
        .extend(vms.map(|it| format!("vm {} {} pid {} {}", it.index, it.name, it.key.pid, it.vmm)));
    let vcpus = info.roster.vcpus.iter();
    lines.extend(vcpus.map(|it| format!("vcpu {}/{} tid {}", it.vm, it.id, it.tid)));
    let knobs = info.knobs.iter();
    lines.extend(knobs.map(|it| format!("knob {} {}", it.name, it.value)));
    let missing = info.missing.iter();
    lines.extend(missing.map(|it| format!("missing {}: {}", it.field, it.reason)));
    lines.extend(besides(made));
    let skipped = imported.skipped.iter();
    lines.extend(skipped.map(|(why, count)| format!("skipped {count} {}", why.as_str())));
    lines.push(
        "start halt vm/vcpu tid waited window next ceiling change poll latency wake".to_owned(),
    );
    lines.extend(made.halts.iter().map(halt_line));
    lines.join("\n") + "\n"
}

fn halt_line(halt: &Halt) -> String {
    let known = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
    let narrow = |value: Option<u32>| known(value.map(u64::from));
    let cut = match halt.poll_cut {
        Some(true) => " cut",
        Some(false) => "",
        None => " cut unknown",
    };
    format!(
        "{} {} {}/{} {} {} {} {} {} {} {}{cut} {} {}",
        halt.start_ns,
        halt.halt_ns,
        narrow(halt.vm.map(|vm| vm.0)),
        narrow(halt.vcpu.map(|vcpu| vcpu.0)),
        halt.tid,
        if halt.waited { "wait" } else { "poll" },
        narrow(halt.window_ns),
        narrow(halt.window_next_ns),
        narrow(halt.ceiling_ns),
        halt.change.as_str(),
        known(halt.poll_ns),
        known(halt.wake_latency_ns),
        halt.wake,
    )
}

/// Data that is no halt: exits, idle states, vCPUs that spin.
fn besides(made: &Made) -> Vec<String> {
    let (capture, mut lines) = (&made.capture, Vec::new());
    for exits in capture.exits().unwrap().map(Result::unwrap) {
        let recorded = capture.info().exits.clone().unwrap();
        let name = exits.cause.name(&recorded.names());
        let place = exits.vcpu.map_or(u32::MAX, |vcpu| vcpu.0);
        let (count, times, ns) = (
            exits.count,
            exits.handling_ns.count(),
            exits.handling_ns.sum(),
        );
        lines.push(format!("exits {place} {name} {count}, {times} of {ns} ns"));
    }
    let idle = capture.idle_states().unwrap().map(Result::unwrap);
    lines.extend(idle.map(|it| format!("idle {} {}, {} ns", it.name, it.entries, it.residency_ns)));
    let spinning = made.imported.spinning.iter();
    lines.extend(spinning.map(|it| format!("{it:?}")));
    lines
}

/// Halts, their sum, and calls of grow and of shrink, counted without anything of ours.
fn counted(text: &str) -> (u64, u64, u64, u64) {
    let (mut halts, mut sum, mut grows, mut shrinks) = (0, 0, 0, 0);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if line.contains("kvm_vcpu_wakeup: ") {
            halts += 1;
            let ns = line
                .split_once(" time ")
                .or(line.split_once("ns="))
                .unwrap()
                .1;
            let ns = ns.split_once('(').map_or(ns, |(_, decimal)| decimal);
            let end = ns.find(|c: char| !c.is_ascii_digit()).unwrap();
            sum += ns[..end].parse::<u64>().unwrap();
        } else if line.contains("kvm_halt_poll_ns: ") {
            let is = |words: &[&str]| u64::from(words.iter().any(|word| line.contains(word)));
            grows += is(&["(grow ", "grow=1 ", "grow=(1)"]);
            shrinks += is(&["(shrink ", "grow=0 ", "grow=(0)"]);
        }
    }
    (halts, sum, grows, shrinks)
}

#[test]
fn samples_are_imported_as_committed() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import");
    let mut seen = 0;
    for entry in fs::read_dir(home.join("samples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        seen += 1;
        let text = fs::read_to_string(&path).unwrap();
        let made = capture_of(text.as_bytes(), told()).unwrap();
        let (imported, capture, halts) = (&made.imported, &made.capture, &made.halts);
        assert_eq!(capture.info().rung, Rung::Import);
        let changes: Vec<_> = capture
            .window_changes()
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let grows = changes.iter().filter(|change| change.grow).count() as u64;
        let got = (
            imported.halts,
            halts.iter().map(|halt| halt.halt_ns).sum(),
            grows,
            changes.len() as u64 - grows,
        );
        assert_eq!(got, counted(&text), "{}", path.display());
        for halt in halts.iter().filter(|halt| halt.ceiling_ns.is_some()) {
            assert_eq!(
                (halt.ceiling_ns, halt.ceiling_source),
                (Some(200_000), CeilingSource::Param)
            );
        }
        as_committed(&path, &dump(&made));
    }
    assert_eq!(seen, 13);
}

#[test]
fn cases_are_read_or_refused_as_committed() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import/cases");
    for entry in fs::read_dir(cases).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read(&path).unwrap();
        let got = match capture_of(&text, told()) {
            Ok(made) => dump(&made),
            Err(error) => format!("error: {error}\n"),
        };
        as_committed(&path, &got);
    }
}

fn as_committed(sample: &Path, got: &str) {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import/expected");
    let expected = home.join(sample.file_name().unwrap());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&expected, got).unwrap();
    } else {
        let committed = fs::read_to_string(&expected).unwrap_or_default();
        assert_eq!(got, committed, "{}", sample.display());
    }
}
