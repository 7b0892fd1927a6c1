//! `haltwise top` in a real terminal, and against the lab's own counts.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

use crate::bench::{Bench, HALTING, LOST_WAKE_UPS, Running, haltwise, json, until_so};
use crate::counted::counted;
use crate::tmux::Tmux;

/// Text on the screen before top starts.
const BEFORE: &str = "this-was-here-before";

/// A command line that runs top on a committed capture.
fn on_capture(name: &str, options: &str) -> String {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/captures");
    let program = haltwise().display();
    format!("{program} top {} {options}", home.join(name).display())
}

/// A terminal whose settings and contents are known, with top running in it.
fn started(width: u16, height: u16, command: &str) -> Option<Tmux> {
    let tmux = Tmux::start(width, height)?;
    tmux.line(&format!("before=$(stty -g); clear; echo {BEFORE}"));
    // Text typed before the shell is ready would stand before the prompt, and wrap.
    tmux.wait("prompt", |screen| {
        screen.starts_with(&format!("{BEFORE}\nshell>"))
    });
    tmux.line(command);
    tmux.wait("full screen", |screen| screen.contains("haltwise top: "));
    tmux.wait_for("q quit");
    assert_eq!(tmux.told("alternate_on"), "1");
    assert_eq!(tmux.told("cursor_flag"), "0");
    Some(tmux)
}

/// Waits for the shell's prompt: what is typed before is typed into top, which discards it as it ends.
fn prompted(tmux: &Tmux) {
    tmux.wait("prompt", |screen| screen.trim_end().ends_with("shell>"));
    assert_eq!(tmux.told("alternate_on"), "0");
}

/// The shell has its terminal back as it was.
fn assert_given_back(tmux: &Tmux, code: &str) {
    prompted(tmux);
    tmux.line("echo ended-with-$?");
    let ended = format!("ended-with-{code}");
    let screen = tmux.wait(&ended, |s| s.contains(BEFORE) && s.contains(&ended));
    assert!(!screen.contains("HALTS/S"), "{screen}");
    assert_eq!(tmux.told("alternate_on"), "0");
    assert_eq!(tmux.told("cursor_flag"), "1");
    tmux.line("test \"$(stty -g)\" = \"$before\" && echo same-$((1 + 1))-settings");
    tmux.wait_for("same-2-settings");
}

/// The number of the program that runs in front, from the shell's only child.
fn top_of(tmux: &Tmux) -> Pid {
    let shell = tmux.told("pane_pid");
    let children = format!("/proc/{shell}/task/{shell}/children");
    let children = std::fs::read_to_string(children).unwrap();
    Pid::from_raw(children.trim().parse().unwrap()).unwrap()
}

#[test]
fn a_capture_is_walked_through() {
    let Some(tmux) = started(80, 24, &on_capture("fleet", "--interval 5ms")) else {
        return;
    };
    tmux.wait_for("1 of 12");
    tmux.press(&["Right", "Right"]);
    let third = tmux.wait_for("3 of 12");
    tmux.press(&["Right"]);
    tmux.wait_for("4 of 12");
    tmux.press(&["Left"]);
    assert_eq!(tmux.wait_for("3 of 12"), third, "there and back");
    tmux.press(&["End"]);
    tmux.wait_for("12 of 12");
    tmux.press(&["Home"]);
    tmux.wait_for("1 of 12");
    tmux.press(&["End", "Enter"]);
    tmux.wait_for("vCPU 0 tid 4712");
    tmux.press(&["Enter"]);
    tmux.wait_for("wake-up p50");
    tmux.press(&["?"]);
    tmux.wait_for("haltwise top: keys");
    tmux.press(&["Escape"]);
    tmux.wait_for("wake-up p50");
    tmux.press(&["Escape"]);
    tmux.wait_for("VCPU");
    tmux.press(&["Escape", "/"]);
    tmux.line("DB");
    let screen = tmux.wait_for("`DB`");
    assert!(
        screen.contains("50.0 us") && !screen.contains("web-1"),
        "{screen}"
    );
    tmux.resize(200, 50);
    tmux.wait_for("HALTS/S OVER TIME");
    tmux.resize(30, 10);
    tmux.wait("narrow screen", |s| {
        s.lines().count() <= 10 && s.contains("HALTS/S")
    });
    tmux.resize(10, 3);
    tmux.wait_for("too small");
    tmux.resize(80, 24);
    tmux.wait_for("`DB`");
    tmux.press(&["q"]);
    assert_given_back(&tmux, "0");
}

#[test]
fn every_way_out_gives_the_terminal_back() {
    let command = on_capture("fleet", "");
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let Some(tmux) = started(80, 24, &command) else {
            return;
        };
        kill_process(top_of(&tmux), signal).unwrap();
        assert_given_back(&tmux, "0");
    }
    let Some(tmux) = started(80, 24, &command) else {
        return;
    };
    tmux.press(&["C-c"]);
    assert_given_back(&tmux, "0");
}

#[test]
fn it_steps_aside_for_the_shell_and_comes_back() {
    let Some(tmux) = started(80, 24, &on_capture("fleet", "")) else {
        return;
    };
    tmux.press(&["C-z"]);
    tmux.wait("shell", |s| s.contains(BEFORE) && !s.contains("HALTS/S"));
    prompted(&tmux);
    tmux.line("fg");
    tmux.wait_for("q quit");
    assert_eq!(tmux.told("alternate_on"), "1");
    tmux.press(&["q"]);
    assert_given_back(&tmux, "0");
}

#[test]
fn it_ends_when_its_terminal_goes_away() {
    let Some(tmux) = started(80, 24, &on_capture("fleet", "")) else {
        return;
    };
    let top = top_of(&tmux);
    tmux.hang_up();
    until_so("the end of top", || test_kill_process(top).is_err());
    // Where the hang-up does not reach it, reading its terminal must end it.
    let home = tempfile::tempdir().unwrap();
    let code = home.path().join("code");
    let top = on_capture("fleet", "");
    let ignoring = format!("trap '' HUP; sh -c '{top}; echo $? >{}'", code.display());
    let Some(tmux) = started(80, 24, &ignoring) else {
        return;
    };
    tmux.hang_up();
    let ended = || std::fs::read_to_string(&code).unwrap_or_default();
    until_so("the end of top", || ended().ends_with('\n'));
    assert_eq!(ended(), "1\n");
}

#[test]
fn live_vms_come_and_go() {
    let Some(bench) = Bench::set_up() else { return };
    let live = format!("{} top --interval 200ms", haltwise().display());
    let Some(tmux) = started(80, 24, &live) else {
        return;
    };
    // A confined recorder redraws, too.
    tmux.press(&["C-l"]);
    // Other VMs may run on this host.
    tmux.press(&["/"]);
    tmux.line("t-and-go");
    tmux.wait_for("`t-and-go`");
    let there = |screen: &str, name: &str| screen.contains(name);
    let guest = format!("{HALTING} --gap fixed:2ms --vcpus 2");
    let first = bench.guest("first-and-go", &guest);
    tmux.wait_for("first-and-go");
    let second = bench.keep_halting("fixed:3ms", "next-and-go");
    tmux.wait("both", |s| {
        there(s, "first-and-go") && there(s, "next-and-go")
    });
    drop(second.end(Signal::TERM));
    tmux.wait("one", |s| {
        there(s, "first-and-go") && !there(s, "next-and-go")
    });
    tmux.press(&["Enter"]);
    tmux.wait("both vCPUs", |s| {
        there(s, "vCPU 0 tid") && there(s, "vCPU 1 tid")
    });
    tmux.press(&["Enter"]);
    tmux.wait_for("Wake-up p99");
    drop(first.end(Signal::TERM));
    tmux.wait_for("was not present in this interval");
    tmux.press(&["q"]);
    assert_given_back(&tmux, "0");
}

/// Watches while the lab runs, and ends the interval when it has ended.
fn watched(bench: &Bench, options: &str, lab: &str) -> (Value, Value) {
    let mut top = Running::start(
        Command::new(haltwise())
            .args(["top", "--once", "--json", "--interval", "10m"])
            .args(options.split_whitespace())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    let mut said = String::new();
    BufReader::new(top.stderr()).read_line(&mut said).unwrap();
    assert!(said.starts_with("Watching "), "{said}");
    let ran = bench.lab_ran(lab);
    let output = top.end(Signal::INT);
    let shown = json(&output);
    let code = if shown["lost_in_all"] == 0 { 0 } else { 5 };
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    (shown, ran)
}

/// The one of a list whose field has this value.
fn with<'a>(list: &'a Value, field: &str, value: impl Into<Value>) -> &'a Value {
    let value = value.into();
    let mut list = list.as_array().unwrap().iter();
    list.find(|it| it[field] == value).unwrap()
}

/// Without BPF every halt comes one by one, and none is left behind in a buffer.
#[test]
fn one_interval_agrees_with_the_labs_own_counts() {
    const GUESTS: [&str; 3] = [
        "pingpong --rounds 3000 --gap exp:60us --name seen",
        "ipi --rounds 2000 --vcpus 3 --name seen",
        "tick --rounds 1000 --gap uniform:100us:1ms --name seen",
    ];
    for (options, guests) in [
        ("--mode counts", &GUESTS[..]),
        ("--mode full", &GUESTS),
        ("--source tracepoints", &GUESTS[..1]),
    ] {
        for guest in guests {
            let Some(bench) = Bench::set_up() else { return };
            let (shown, lab) = watched(&bench, options, guest);
            // Some kernels count wake-ups, also of other tests' VMs, that are not recorded.
            let is_perf = shown["rung"] == "tracepoints";
            let lost = shown["lost_by_place"].as_array().unwrap();
            let is_known = |it: &Value| is_perf && it["place"] == LOST_WAKE_UPS;
            assert!(lost.iter().all(is_known), "{lost:?}");
            assert_eq!(shown["mode"] == "counts", options == "--mode counts");
            let vms = shown["vms"].as_array().unwrap().iter();
            let vcpus: Vec<&Value> = vms.flat_map(|vm| vm["vcpus"].as_array().unwrap()).collect();
            for counted in counted(&lab) {
                let vcpu = vcpus.iter().find(|it| it["tid"] == counted.tid).unwrap();
                let what = format!("{options} {guest}: {counted:?}\n{vcpu}");
                assert_eq!(vcpu["waits"], counted.waits, "{what}");
                if is_perf {
                    continue;
                }
                let parts = &vcpu["parts"];
                assert_eq!(parts["poll_fail_ns"], counted.fail_ns, "{what}");
                assert_eq!(parts["poll_success_ns"], counted.success_ns, "{what}");
                if shown["mode"] == "counts" {
                    assert_eq!(vcpu["polled"], counted.attempted, "{what}");
                    assert_eq!(vcpu["successful_polls"], counted.successful, "{what}");
                }
                // Every HLT is one halt, except where an interrupt was already pending.
                let halts = vcpu["halts"].as_u64().unwrap();
                assert!(halts <= counted.hlts && halts >= counted.waits, "{what}");
            }
        }
    }
}

/// The lab's exits guest, where KVM tells of no exits: every port write returns to the VMM.
#[test]
fn exits_are_counted_when_they_are_asked_for() {
    let Some(bench) = Bench::set_up() else { return };
    let guest = "exits --rounds 3 --name seen-to-exit";
    let (shown, _) = watched(&bench, "--exits", guest);
    let vm = with(&shown["vms"], "name", "seen-to-exit");
    let reasons = vm["exits"]["reasons"].as_array().unwrap();
    assert!(vm["exits"]["count"].as_u64().unwrap() > 0, "{vm}");
    assert!(!reasons.is_empty(), "{vm}");
    let (shown, _) = watched(&bench, "", guest);
    assert_eq!(shown["total"]["exits"], Value::Null);
}
