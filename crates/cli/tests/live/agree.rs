//! No document of a recording contradicts another, whatever was recorded and how.

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::bench::{Bench, HALTING, Running, haltwise, has_recorded};
use crate::documents::contradictions;

const WAYS: [(&str, &str); 4] = [
    ("full", "--exits"),
    ("counts", "--mode counts --interval 200ms --exits"),
    ("stats", "--mode stats --interval 200ms"),
    ("tracepoints", "--source tracepoints"),
];

/// Records in each way for so long, and looks for contradictions.
fn records_without_contradiction(bench: &Bench, what: &str, duration: &str) {
    for (way, options) in WAYS {
        let name = format!("{what}-{way}");
        let output = bench.ran(&format!("record --duration {duration} {options} -o {name}"));
        // This kernel may count wake-ups that it does not record.
        has_recorded(&output);
        let wrong = contradictions(haltwise(), &bench.path(&name));
        assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
    }
}

#[test]
fn a_quiet_host() {
    let Some(bench) = Bench::set_up() else { return };
    records_without_contradiction(&bench, "quiet", "1s");
}

#[test]
#[ignore = "long: make test-long"]
fn busy_vms_long_and_short() {
    let Some(bench) = Bench::set_up() else { return };
    let busy = bench.keep_halting("bimodal:0.7:20us:2ms", "agree-busy");
    let idle = bench.keep_halting("fixed:700ms", "agree-idle");
    records_without_contradiction(&bench, "busy", "1500ms");
    records_without_contradiction(&bench, "short", "200ms");
    busy.end(Signal::TERM);
    idle.end(Signal::TERM);
}

#[test]
#[ignore = "long: make test-long"]
fn many_vms() {
    let Some(bench) = Bench::set_up() else { return };
    let mut lab = bench.lab();
    let line = format!("run {HALTING} --gap exp:20ms --vms 60 --name agree-many");
    lab.args(line.split(' '));
    let vms = Running::start(lab.stdout(Stdio::null()));
    // Perhaps not all have begun: who comes while it is recorded must not lead to a contradiction either.
    std::thread::sleep(Duration::from_secs(1));
    records_without_contradiction(&bench, "many", "1s");
    vms.end(Signal::TERM);
}

#[test]
#[ignore = "long: make test-long"]
fn vms_that_come_and_go() {
    let Some(bench) = Bench::set_up() else { return };
    let shuttle = Running::start(
        Command::new("sh")
            .args([
                "-c",
                "while :; do \"$0\" run pingpong --duration 300ms --gap exp:1ms; done",
            ])
            .arg(haltwise().with_file_name("haltwise-lab"))
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    );
    records_without_contradiction(&bench, "passing", "2s");
    shuttle.end(Signal::KILL);
}
