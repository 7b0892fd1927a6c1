//! `haltwise` without a verb on a VM that runs, and without the right to record.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use serde_json::Value;

use crate::bench::{Bench, gets_a_cpu, haltwise, has_recorded, json, ran, told};

/// The answer for a VM; partial where a recorder of another test took the machine.
fn now(bench: &Bench, line: &str) -> Value {
    let mut command = Command::new(haltwise());
    command.arg("--json").args(line.split(' '));
    let output = command.env("TMPDIR", bench.dir.path()).output().unwrap();
    has_recorded(&output);
    json(&output)
}

#[test]
fn an_answer_names_the_vm_and_keeps_its_capture_for_others() {
    let Some(bench) = Bench::set_up() else { return };
    let _vm = bench.keep_halting("fixed:500us", "now-subject");
    let answer = now(&bench, "--for 1s --vm now-subject");
    let capture = answer["capture"]
        .as_str()
        .unwrap_or_else(|| panic!("{answer}"));
    let kept = bench.dir.path().to_str().unwrap();
    assert!(capture.starts_with(kept), "{capture}");

    let reported = bench.page(&format!("report --json {capture}"));
    let vms = reported["vms"].as_array().unwrap();
    assert_eq!(vms.len(), 1, "{reported}");
    assert_eq!(vms[0]["name"], "now-subject");
    assert!(
        vms[0]["account"]["halts"].as_u64() > Some(100),
        "{reported}"
    );
    assert_eq!(
        answer["poll_cpu_percent"],
        reported["host"]["account"]["poll"]["cpu_percent"]
    );
    // The answer from the capture is the same.
    assert_eq!(answer, now(&bench, &format!("--capture {capture}")));
}

/// Nothing is asserted of how much CPU time the vCPU gets: others may use its CPU.
#[test]
fn a_vcpu_that_never_halts_is_named_with_the_cpu_time_of_its_vm() {
    let Some(bench) = Bench::set_up() else { return };
    let _vm = bench.guest("now-spins", "cpuid --rounds 4000000000");
    let answer = now(&bench, "--for 5s --vm now-spins");
    assert_eq!(answer["halts"], 0, "{answer}");
    let vms = answer["vms"].as_array().unwrap();
    assert_eq!(vms.len(), 1, "{answer}");
    assert!(
        vms[0]["cpu"]["cpu_percent"].as_f64() > Some(0.0),
        "{answer}"
    );
    let findings = answer["findings"].as_array().unwrap().iter();
    let rules: Vec<&Value> = findings.map(|it| &it["rule"]).collect();
    assert_eq!(rules, ["guest-never-halts"], "{answer}");

    let capture = answer["capture"].as_str().unwrap();
    let text = String::from_utf8(ran(&format!("--capture {capture}")).stdout).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    for said in [
        "spins: now-spins: vCPU 0 ran ",
        "and never halted. No setting of KVM helps: look in the guest, or for a lost interrupt.",
    ] {
        assert!(text.contains(said), "{text}");
    }
}

#[test]
fn who_may_not_record_is_told_what_is_known_and_what_to_run() {
    if Bench::set_up().is_none() {
        return;
    }
    // Without a verb: this ends before it records.
    let mut bare = Command::new(haltwise());
    let Ok(output) = bare.uid(65_534).gid(65_534).output() else {
        println!("skipped: another user may not run {}", haltwise().display());
        return;
    };
    assert_eq!(output.status.code(), Some(4), "{}", told(&output));
    let known = String::from_utf8_lossy(&output.stdout);
    assert!(known.contains("halt_poll_ns = "), "{known}");
    let hint = String::from_utf8_lossy(&output.stderr);
    assert!(hint.contains("hint: run `sudo haltwise`"), "{hint}");

    let mut as_json = Command::new(haltwise());
    as_json.arg("--json").uid(65_534).gid(65_534);
    let output = as_json.output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", told(&output));
    let known = json(&output);
    assert!(known["recording"].is_null() && known["capture"].is_null());
    let parameters = known["outside"]["parameters"].as_array().unwrap();
    let named = |name: &str| parameters.iter().any(|it| it["name"] == name);
    assert!(named("halt_poll_ns"), "{known}");
    assert!(known["advice"].as_str().unwrap().contains("sudo haltwise"));
}

/// Nearly all polls of a VM that is woken each 125 us are met, so that few of its halts sleep, and those were disturbed. What
/// is answered is the same each time, or that it is not known; and no interval excludes another. Not asked for goal latency: what
/// longer polls catch there is what disturbs the host, which differs from one second to the next.
#[test]
fn at_rest_a_steady_vm_that_is_asked_again_gets_the_same_answer() {
    let Some(bench) = Bench::set_up() else { return };
    let _vm = bench.keep_halting("fixed:125us", "now-steady");
    let mut answers = Vec::new();
    for _ in 0..6 {
        let answer = now(&bench, "--for 3s --vm now-steady");
        if gets_a_cpu() {
            answers.push(answer);
        }
    }
    // Others that come between two looks take the CPU from its polls, and what polling costs is another then.
    let polled = |answer: &Value| answer["poll_cpu_percent"].as_f64().unwrap_or(0.0);
    let most = answers.iter().map(polled).fold(0.0, f64::max);
    answers.retain(|answer| polled(answer) >= 0.9 * most);
    if answers.len() < 6 {
        let taken = 6 - answers.len();
        println!("skipped: other tasks took the CPU in {taken} of 6 recordings");
    }
    for goal in 0..2 {
        let of = |answer: &Value| answer["goals"][goal].clone();
        let known = (answers.iter().map(of)).filter(|it| it["verdict"] == "change");
        let known: Vec<Value> = known.collect();
        let ends = |name| {
            let known = known.iter();
            known.filter_map(move |it| it["cost_share"][name].as_f64())
        };
        let low = ends("low").fold(f64::NEG_INFINITY, f64::max);
        let high = ends("high").fold(f64::INFINITY, f64::min);
        assert!(low <= high, "{known:#?}");
        let same = |it: &Value| it["advice"] == known[0]["advice"];
        assert!(known.iter().all(same), "{known:#?}");
    }
}
