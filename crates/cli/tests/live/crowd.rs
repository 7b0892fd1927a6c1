//! VMs that come and go, VMs that are not wanted, a recorder that falls behind or may not record.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use haltwise_capture::capture::Capture;
use rustix::process::Signal;

use crate::bench::{Bench, Running, haltwise, told, until_so};
use crate::counted::counted;

fn halts_of_vm(capture: &Capture, name: &str) -> usize {
    let vms = &capture.info().roster.vms;
    let is_its = |vm| vms.iter().any(|it| it.name == name && it.index == vm);
    let halts = capture.halts().unwrap().map(Result::unwrap);
    halts.filter(|halt| halt.vm.is_some_and(is_its)).count()
}

#[test]
fn a_process_of_many_vms_that_comes_while_recording_is_recorded_whole() {
    let Some(bench) = Bench::set_up() else { return };
    let output = bench.ran(&format!(
        "record -o capture -- {} run tick --vms 300 --rounds 20 --gap fixed:20ms --name many",
        haltwise().with_file_name("haltwise-lab").display()
    ));
    assert!(output.status.success(), "{}", told(&output));
    let capture = bench.capture("capture");
    let names = (0..300).map(|number| format!("many-{number}"));
    let few = names.map(|name| (halts_of_vm(&capture, &name), name));
    // A tick that is late finds the next one pending, and makes no halt.
    let few: Vec<_> = few.filter(|(halts, _)| *halts < 10).collect();
    assert_eq!(few, [], "of 20 halts each");
}

#[test]
fn only_the_vms_asked_for_are_recorded() {
    let Some(bench) = Bench::set_up() else { return };
    let labs = ["wanted", "other"].map(|name| bench.keep_halting("fixed:500us", name));
    for (rung, more) in [("bpf", "--exits=pio"), ("tracepoints", "")] {
        let line = format!("record --source {rung} {more} --vm wanted --duration 1s -o {rung}");
        let output = bench.ran(&line);
        assert!(output.status.success(), "{rung}: {}", told(&output));
        let capture = bench.capture(rung);
        let wanted = halts_of_vm(&capture, "wanted");
        assert!(wanted > 100, "{rung}: {wanted}");
        let all = capture.halts().unwrap().count();
        assert_eq!(wanted, all, "{rung}: others were recorded too");
        let exits = capture.exits().unwrap().map(Result::unwrap);
        let vms: BTreeSet<_> = exits.map(|row| row.vm.unwrap()).collect();
        assert_eq!(vms.len(), usize::from(rung == "bpf"), "{vms:?}");
    }
    drop(labs);
}

#[test]
fn a_vm_that_is_not_there_is_an_error_that_lists_those_that_are() {
    let Some(bench) = Bench::set_up() else { return };
    let output = bench.ran("record --vm no-such-vm -o capture");
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("no VM is `no-such-vm`") && said.contains("hint: "),
        "{said}"
    );
    assert!(
        !bench.path("capture").exists(),
        "nothing was recorded, so nothing is left"
    );
}

#[test]
fn a_recorder_that_falls_behind_counts_what_it_lost() {
    let Some(bench) = Bench::set_up() else { return };
    let recorder = Running::start(
        Command::new(haltwise())
            .args(["record", "-o"])
            .arg(bench.path("capture"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    let begun = bench.path("capture/capture.json");
    until_so("a capture", || begun.exists());
    recorder.signal(Signal::STOP);
    // The ring holds some 190,000 halts; these are 250,000.
    let lab = bench.lab_ran("pingpong --rounds 250000 --gap fixed:1us");
    recorder.signal(Signal::CONT);
    let output = recorder.end(Signal::INT);
    assert_eq!(output.status.code(), Some(5), "{}", told(&output));
    let capture = bench.capture("capture");
    let vcpu = &counted(&lab)[0];
    let counted = vcpu.waits + vcpu.successful;
    let halts = capture.halts().unwrap().map(Result::unwrap);
    let kept = halts.filter(|halt| halt.tid.0 == vcpu.tid).count() as u64;
    let lost: u64 = capture.info().lost.values().sum();
    assert!(lost > 0 && kept > 0, "{kept} recorded, {lost} lost");
    // Other VMs of this machine may have lost some too; none of ours is unaccounted for.
    assert!(
        kept + lost >= counted,
        "{kept} recorded, {lost} lost, {counted} by KVM"
    );
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("Lost: "), "{said}");
}

#[test]
fn without_rights_the_error_says_which_are_needed() {
    let Some(bench) = Bench::set_up() else { return };
    let copy = bench.path("haltwise");
    std::fs::copy(haltwise(), &copy).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(bench.dir.path(), open).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(&copy)
        .args(["record", "--duration", "1s", "-o", "capture-of-nobody"])
        .current_dir("/")
        .output();
    let Ok(output) = output else {
        println!("skipped: setpriv is not installed");
        return;
    };
    assert_eq!(output.status.code(), Some(4), "{}", told(&output));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("not permitted (needs root"), "{said}");
    assert!(said.contains("hint: run as root"), "{said}");
}
