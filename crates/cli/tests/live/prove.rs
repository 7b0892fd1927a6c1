//! Proofs on real KVM: what is counted, what is refused, what is kept. No verdict is expected that
//! depends on how fast or busy this machine is.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use haltwise_core::prove::compare::draw;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::bench::{Bench, Running, haltwise, json, ran, told};

/// JSON output of `haltwise prove` for a command that starts the lab.
fn proved(bench: &Bench, options: &str) -> Value {
    let lab = bench.lab();
    let lab = lab.get_program().display();
    let output = ran(&format!(
        "prove --a off --b kvm:max=150us --json {options} -- {lab} run pingpong \
         --rounds 300 --gap uniform:5us:100us --cap {{halt_poll_ns}}"
    ));
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    json(&output)
}

/// Two rounds of nothing but what the lab counts itself.
const EXACT: &str = r"--rounds 2 --warm-up 0 --metric halt_wait_hist\s\((\d+)\sin\sall\)";

/// A load of the lab under the setting of a block.
const PINGPONG: &str = "run pingpong --rounds 100 --cap {halt_poll_ns}";

#[test]
fn every_block_counts_the_halts_of_its_own_vm_and_no_others() {
    let Some(bench) = Bench::set_up() else { return };
    // A VM outside the proof, before and during it.
    let _other = bench.keep_halting("fixed:300us", "other");
    let result = proved(&bench, EXACT);
    let blocks = result["blocks"].as_array().unwrap();
    let order: Vec<&Value> = blocks.iter().map(|block| &block["block"]).collect();
    assert_eq!(json!(order), json!(draw(1, 2).concat()));
    for block in blocks {
        let figures = &block["figures"];
        if block["vms"] != 1 {
            // Its process has ended, and no longer says whose it was.
            println!("skipped: a VM of another test came and went within a block");
            continue;
        }
        assert_eq!(block["lost"], 0, "{block:#}");
        // KVM's own histogram, printed by the lab, is the second cross-check. (Its `halt_wakeup` would not
        // do: it also counts who was woken before schedule().)
        let of_halts = figures["blocks"].as_f64().unwrap() / 100.0;
        let blocks = (block["halts"].as_f64().unwrap() * of_halts).round();
        assert_eq!(Some(blocks), figures["metric"].as_f64(), "{block:#}");
        if block["block"] != "b" {
            assert_eq!(figures["poll-cpu"].as_f64(), Some(0.0), "{block:#}");
            assert_eq!(figures["successful-polls"].as_f64(), Some(0.0), "{block:#}");
        }
    }
    assert_eq!(result["a"]["halt_poll_ns"], 0);
    assert_eq!(result["b"]["halt_poll_ns"], 150_000);
    assert_eq!(result["means"], "vm-ceiling");
    assert_eq!(result["verdict"]["says"], "too-few-rounds");
    assert_eq!(result["partial"], false);
    assert_eq!(result["ledger"], Value::Null);
}

#[test]
fn six_rounds_are_a_proof_that_the_ledger_keeps() {
    let Some(bench) = Bench::set_up() else { return };
    let ledger = bench.path("state/ledger.jsonl");
    // The second time without the command, which may hold a secret.
    for (proofs, more, words) in [(1, "", 9), (2, "--no-command", 0)] {
        let options = format!("--rounds 6 --ledger {} {more}", ledger.display());
        let result = proved(&bench, &options);
        let mode = fs::metadata(&ledger).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(result["command"].as_array().unwrap().len(), words);
        let verdict = result["verdict"]["says"].clone();
        assert_ne!(verdict, "too-few-rounds");
        let kept = ran(&format!(
            "prove --history --json --ledger {}",
            ledger.display()
        ));
        assert_eq!(kept.status.code(), Some(0), "{}", told(&kept));
        let kept = json(&kept);
        // Whether the noise decides here hangs on the machine: each is counted, in one place or the other.
        let summary = &kept["summary"];
        let counted = [&summary["proofs"], &summary["inconclusive"]["proofs"]];
        let counted = counted.iter().map(|it| it.as_u64().unwrap()).sum::<u64>();
        assert_eq!(counted, proofs);
        let last = kept["entries"].as_array().unwrap().last().unwrap();
        assert_eq!(last["verdict"]["says"], verdict);
        assert_eq!(last["command"], result["command"]);
        // Nothing polls under A, so A is predicted without doubt: no successful polls, all blocks.
        let of_a = last["predictions"].as_array().unwrap().iter();
        let polls = of_a.filter(|kept| kept["of"] == "a" && kept["figure"] == "successful-polls");
        for kept in polls {
            assert_eq!(kept["predicted"].as_f64(), Some(0.0));
            assert_eq!(kept["within"], true);
        }
    }
}

#[test]
fn a_vm_that_runs_is_measured_under_what_is_in_force() {
    let Some(bench) = Bench::set_up() else { return };
    let running = bench.keep_halting("fixed:300us", "in-force");
    let output =
        ran("prove --a current --b current --rounds 2 --duration 200ms --json --vm in-force");
    assert!(output.status.success(), "{}", told(&output));
    drop(running);
    let result = json(&output);
    assert_eq!(result["means"], "in-force");
    assert_eq!(result["design"]["vms"], 1);
    for block in result["blocks"].as_array().unwrap() {
        assert!(block["halts"].as_u64().unwrap() > 0, "{block:#}");
        assert_eq!(block["notes"], json!([]), "{block:#}");
    }
}

#[test]
fn what_goes_wrong_is_said_with_its_block() {
    let Some(bench) = Bench::set_up() else { return };
    let shell = |script: &str| {
        let output = Command::new(haltwise())
            .args(["prove", "--a", "off", "--b", "kvm:max=50us"])
            .args(["--", "sh", "-c", script, "sh", "{halt_poll_ns}"])
            .arg(bench.lab().get_program())
            .arg(bench.dir.path())
            .output()
            .unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
        String::from_utf8(output.stderr).unwrap()
    };
    let lab = "\"$2\" run pingpong --rounds 100";
    for (script, reason) in [
        (
            "echo oh no; exit 7".to_owned(),
            "block 1 (round 1, A): `sh` failed: exit status: 7; it said: oh no",
        ),
        ("exit 0".to_owned(), "started no VM that was seen to halt"),
        (
            format!("{lab} --cap 30us; : $1"),
            "every halt was under another ceiling than 0 ns, such as 30.0 us (the VM's own cap)",
        ),
        // The fourth run fails: the first round is whole, and one round is not enough to show.
        (
            format!("echo >>\"$3/runs\"; test $(wc -l <\"$3/runs\") -lt 4 && {lab} --cap $1"),
            "block 4 (round 2, ",
        ),
    ] {
        let said = shell(&script);
        assert!(
            said.contains(reason) && said.contains("hint: "),
            "{script}: {said}"
        );
    }
}

fn lines(file: &Path) -> usize {
    fs::read_to_string(file).map_or(0, |text| text.lines().count())
}

#[test]
fn an_interrupt_keeps_whole_rounds_and_leaves_nothing_running() {
    let Some(bench) = Bench::set_up() else { return };
    let (begun, ledger) = (bench.path("begun"), bench.path("ledger.jsonl"));
    // The ninth block never ends by itself: the third round is not whole.
    let script = "echo $$ >>\"$1\"; n=$(wc -l <\"$1\"); shift; test $n -lt 9 || exec sleep 1000; exec \"$@\"";
    let running = Running::start(
        Command::new(haltwise())
            .args("prove --a off --b kvm:max=50us --json --ledger".split(' '))
            .arg(&ledger)
            .args(["--", "sh", "-c", script, "sh"])
            .arg(&begun)
            .arg(bench.lab().get_program())
            .args(PINGPONG.split(' '))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    while lines(&begun) < 9 {
        std::thread::yield_now();
    }
    let output = running.end(Signal::INT);
    assert_eq!(output.status.code(), Some(5), "{}", told(&output));
    let result = json(&output);
    assert_eq!(result["partial"], true);
    assert_eq!(result["ended_by"], "SIGINT");
    assert_eq!(result["design"]["rounds"], 2);
    assert_eq!(result["blocks"].as_array().unwrap().len(), 8);
    assert!(!ledger.exists(), "too few rounds for the ledger");
    let pids = fs::read_to_string(&begun).unwrap();
    let last: i32 = pids.lines().last().unwrap().parse().unwrap();
    let last = rustix::process::Pid::from_raw(last).unwrap();
    assert!(rustix::process::test_kill_process(last).is_err());
}

#[test]
fn a_command_that_fails_later_keeps_the_rounds_before() {
    let Some(bench) = Bench::set_up() else { return };
    let begun = bench.path("begun");
    let script = "echo $$ >>\"$1\"; test $(wc -l <\"$1\") -lt 8 || exit 9; shift; exec \"$@\"";
    let output = Command::new(haltwise())
        .args(["prove", "--a", "off", "--b", "kvm:max=50us"])
        .args(["--", "sh", "-c", script, "sh"])
        .arg(&begun)
        .arg(bench.lab().get_program())
        .args(PINGPONG.split(' '))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let [page, said] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    for (said, part) in [
        (page, "Partial: ended by an error after 2 of 12 rounds."),
        (said.clone(), "error: block 8 (round 3, "),
        (said, "`sh` failed: exit status: 9; it printed nothing"),
    ] {
        assert!(said.contains(part), "{said}");
    }
}

/// A setting that has no effect here is refused before anything is written.
#[test]
fn what_cannot_be_measured_in_this_guest_is_refused() {
    let governor = fs::read_to_string("/sys/devices/system/cpu/cpuidle/current_governor_ro");
    if governor.is_ok_and(|it| it.trim() == "haltpoll") {
        println!("skipped: parameters of haltpoll have an effect here");
        return;
    }
    let output = ran("prove --a off --b guest_halt_poll_ns=1234us --yes");
    let said = told(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("have no effect"), "{said}");
}
