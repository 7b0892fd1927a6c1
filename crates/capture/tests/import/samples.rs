//! Data kept of real tools' output, against committed texts.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use haltwise_capture::import::GivenSettings;
use haltwise_core::event::CeilingSource;
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
    let (imported, capture, halts) = (&made.imported, &made.capture, &made.halts);
    let mut text = String::new();
    let info = capture.info();
    let host = &info.host;
    writeln!(
        text,
        "{} {} {} CPUs",
        host.kernel_release, host.arch, host.cpus
    )
    .unwrap();
    for vm in &info.roster.vms {
        writeln!(
            text,
            "vm {} {} pid {} {}",
            vm.index, vm.name, vm.key.pid, vm.vmm
        )
        .unwrap();
    }
    for vcpu in &info.roster.vcpus {
        writeln!(text, "vcpu {}/{} tid {}", vcpu.vm, vcpu.id, vcpu.tid).unwrap();
    }
    for knob in &info.knobs {
        writeln!(text, "knob {} {}", knob.name, knob.value).unwrap();
    }
    for missing in &info.missing {
        writeln!(text, "missing {}: {}", missing.field, missing.reason).unwrap();
    }
    besides(made, &mut text);
    for (why, count) in &imported.skipped {
        writeln!(text, "skipped {count} {}", why.as_str()).unwrap();
    }
    let known = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
    text += "start halt vm/vcpu tid waited window next ceiling change poll latency wake\n";
    for halt in halts {
        writeln!(
            text,
            "{} {} {}/{} {} {} {} {} {} {} {}{} {} {}",
            halt.start_ns,
            halt.halt_ns,
            known(halt.vm.map(|vm| vm.0.into())),
            known(halt.vcpu.map(|vcpu| vcpu.0.into())),
            halt.tid,
            if halt.waited { "wait" } else { "poll" },
            known(halt.window_ns.map(u64::from)),
            known(halt.window_next_ns.map(u64::from)),
            known(halt.ceiling_ns.map(u64::from)),
            halt.change.as_str(),
            known(halt.poll_ns),
            match halt.poll_cut {
                Some(true) => " cut",
                Some(false) => "",
                None => " cut unknown",
            },
            known(halt.wake_latency_ns),
            halt.wake,
        )
        .unwrap();
    }
    text
}

/// Writes data that is no halt: exits, idle states, vCPUs that spin.
fn besides(made: &Made, text: &mut String) {
    let (imported, capture) = (&made.imported, &made.capture);
    let info = capture.info();
    for exits in capture.exits().unwrap().map(Result::unwrap) {
        let name = exits.cause.name(&info.exits.clone().unwrap().names());
        let (place, times) = (
            exits.vcpu.map_or(u32::MAX, |vcpu| vcpu.0),
            exits.handling_ns,
        );
        let (count, ns) = (exits.count, times.sum());
        writeln!(
            text,
            "exits {place} {name} {count}, {} of {ns} ns",
            times.count()
        )
        .unwrap();
    }
    for state in capture.idle_states().unwrap().map(Result::unwrap) {
        let (entries, ns) = (state.entries, state.residency_ns);
        writeln!(text, "idle {} {entries}, {ns} ns", state.name).unwrap();
    }
    for spinning in &imported.spinning {
        writeln!(text, "{spinning:?}").unwrap();
    }
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
