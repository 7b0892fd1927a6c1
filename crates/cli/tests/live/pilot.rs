//! The pilot on VMs of the lab: what it decides is true of them.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use super::bench::{Bench, Running, haltwise, until};
use super::ceilings::{Host, in_kernel_by};

pub(crate) mod daemon;

/// A VM that is woken each 125 us polls for all of its halts under a ceiling of 200 us.
fn woken(bench: &Bench, name: &str) -> Running {
    let mut lab = bench.lab();
    lab.args(["run", "tick", "--name", name, "--vcpus", "2"])
        .args("--gap uniform:112us:138us --duration 120s --timeout 120s".split(' '))
        .stdout(Stdio::null());
    let vm = Running::start(&mut lab);
    Bench::wait_for(name);
    vm
}

fn pilot(host: &Host, vm: &str, more: &[&str]) -> Running {
    let mut command = Command::new(haltwise());
    command
        .args(["pilot", "--vm", vm, "--goal", "density", "--root"])
        .arg(host.0.path())
        .args(["--for", "30s", "--json"])
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Running::start(&mut command)
}

/// Waits for a decision of that kind. On a host whose CPUs are wanted by others no poll lasts, and none is made.
fn decided(pilot: &mut Running, kind: &str) -> Option<String> {
    let mut lines = BufReader::new(pilot.stderr()).lines().map(Result::unwrap);
    let line = lines.find(|line| line.starts_with(kind));
    if line.is_none() {
        println!(
            "skipped: the pilot decided nothing; other work takes the CPUs on which the VM would poll"
        );
    }
    line
}

/// It says what it would do, of the VM that is meant, and changes nothing.
#[test]
#[ignore = "long: make test-long"]
fn it_observes_and_says_what_it_would_do() {
    let Some(bench) = Bench::set_up() else { return };
    let host = Host::new();
    let vm = woken(&bench, "observed");
    let before = in_kernel_by("observed");
    let mut running = pilot(
        &host,
        "observed",
        &["--wake-latency", "30us", "--switch-cpu", "10us"],
    );
    let line = decided(&mut running, "would-try");
    let output = running.end(Signal::TERM);
    assert!(output.status.success(), "{output:?}");
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    let ours = |it: &&Value| it["vm"] == "observed";
    let of_vm = status["vms"].as_array().unwrap().iter().find(ours).unwrap();
    assert!(
        of_vm["latency_mean_ns"].is_u64(),
        "it was looked at: {of_vm}"
    );
    assert_eq!(status["decisions"]["tried"], 0, "{status}");
    assert_eq!(in_kernel_by("observed"), before);
    drop(vm);
    let Some(line) = line else {
        return;
    };
    assert!(line.contains("VM observed (pid "), "{line}");
    assert!(line.contains("halt_poll_ns 200 us -> "), "{line}");
    assert!(of_vm["would_set_ns"].as_u64().unwrap() < 200_000, "{of_vm}");
}
