//! Lab guests run under `haltwise record` inside a stock kernel, and their three cross-checks are compared.

use std::fmt::Write as _;
use std::path::Path;

use super::check::{Check, Findings};
use super::witness::{self, Expected};
use super::{LIMIT, exits, profile};

#[derive(Debug)]
struct Experiment {
    name: &'static str,
    /// Arguments of `haltwise-lab run`.
    lab: &'static str,
    expected: Expected,
}

/// One recording, while several experiments come and go. Loading BPF programs takes seconds under
/// emulation, so that there are few recordings.
#[derive(Debug)]
struct Recording {
    name: &'static str,
    record: &'static str,
    checks: Vec<Experiment>,
}

impl Recording {
    /// Whether it counts exits too, with all that is to be compared of them.
    fn counts_exits(&self) -> bool {
        self.record.contains("--exits=")
    }

    fn takes_samples(&self) -> bool {
        self.record.contains("--profile")
    }
}

const fn check(name: &'static str, lab: &'static str, wake: Option<&'static str>) -> Experiment {
    Experiment {
        name,
        lab,
        expected: Expected {
            wake,
            polls: true,
            ceiling_ns: None,
        },
    }
}

/// Two VMs that stay for a while.
const LINGERING: &str =
    "pingpong --vms 2 --vcpus 2 --rounds 100 --gap exp:1ms --host-wait block --linger 2s";

/// All recordings. Gaps are long, because everything takes ten times as long under emulation.
fn recordings() -> Vec<Recording> {
    let mut capped = check(
        "cap",
        "pingpong --rounds 200 --gap bimodal:0.5:50us:3ms --cap 70us",
        None,
    );
    capped.expected.ceiling_ns = Some(70_000);
    let several = "pingpong --vms 2 --vcpus 2 --rounds 100 --gap exp:1ms --host-wait block";
    // One VM: tracepoints name threads and processes, and cannot tell two VMs of one process apart.
    // Long enough: until a thread is found, here some 160 ms, that source does not see who wakes it.
    let one = "pingpong --vcpus 2 --rounds 400 --gap exp:1ms --host-wait block";
    let mut plain = check("tracepoints", one, Some("device"));
    // The tracepoints do not say whether KVM polled.
    plain.expected.polls = false;
    vec![
        Recording {
            name: "full",
            record: "--source bpf",
            checks: vec![
                check(
                    "pingpong",
                    "pingpong --rounds 300 --gap fixed:2ms",
                    Some("device"),
                ),
                check("pingpong-vms", several, Some("device")),
                check(
                    "tick",
                    "tick --rounds 200 --gap uniform:500us:3ms",
                    Some("timer"),
                ),
                check("tick-pit", "tick-pit --rounds 100", Some("timer")),
                check("ipi", "ipi --rounds 200", Some("ipi")),
                check("idle", "idle --rounds 20", Some("timer")),
                check("exits", "exits --rounds 20", None),
                capped,
            ],
        },
        Recording {
            name: "exits-counted",
            record: "--source bpf --exits=msr,pio,mmio,gpa,hypercall,vector,cpuid",
            checks: vec![check("primes", "exits --rounds 11", None)],
        },
        Recording {
            name: "profile",
            record: "--source bpf --exits --profile 199hz",
            checks: vec![check(
                "sampled",
                "pingpong --vcpus 2 --rounds 600 --gap exp:1ms --host-wait block",
                None,
            )],
        },
        Recording {
            name: "counts",
            record: "--source bpf --mode counts",
            checks: vec![check("counts", several, None)],
        },
        Recording {
            name: "stats",
            record: "--source bpf --mode stats --interval 200ms",
            // Until the counters have been read after the last halt.
            checks: vec![check("stats", LINGERING, None)],
        },
        Recording {
            name: "tracepoints",
            record: "--source tracepoints",
            checks: vec![plain],
        },
    ]
}

/// A check for each recording, and one of what is said where there is no KVM, which comes last.
pub(crate) fn checks() -> Vec<Check> {
    let mut checks: Vec<Check> = recordings().into_iter().map(check_of).collect();
    let script = include_str!("without_kvm.sh").to_owned();
    checks.push(Check::new("without-kvm", script, LIMIT, |_| {
        Findings::new()
    }));
    checks
}

fn check_of(recording: Recording) -> Check {
    let (name, script) = (recording.name, script(&recording));
    Check::new(name, script, LIMIT, move |left| {
        compare(&recording, &left.out_dir.join(name))
    })
}

/// Findings about each guest of a recording.
fn compare(recording: &Recording, dir: &Path) -> Findings {
    let mut findings = Findings::new();
    for check in &recording.checks {
        let halts = witness::compare(dir, check.name, &check.expected);
        findings.push((check.name, halts));
        if recording.counts_exits() {
            findings.push((check.name, exits::compare(dir, check.name)));
        }
    }
    if recording.takes_samples() {
        findings.push(("samples", profile::compare(dir)));
    }
    findings
}

/// Shell that makes a recording of this name, while other shell runs guests of the lab.
pub(super) fn recording(name: &str, record: &str, inside: &str) -> String {
    format!(
        "cat >/run/{name}.sh <<'END'\n. /lab.sh\n{inside}END\n\
         record {name} '{record}'\n"
    )
}

/// Leaves a folder with `record.json`, `report.json`, the capture, and for each guest what the lab found.
fn script(recording: &Recording) -> String {
    let (name, exits) = (recording.name, recording.counts_exits());
    let mut inside = String::new();
    if exits {
        // A VM whose interrupt was lost has made exits, too: it is not tried again in the same recording.
        inside.push_str("tries=1\n");
    }
    for check in &recording.checks {
        // Formatting into a String cannot fail.
        let _ = writeln!(inside, "lab {name}/{} '{}'", check.name, check.lab);
    }
    let mut text = String::from(". /lab.sh\n");
    if exits {
        text.push_str("second_count\n");
    }
    text.push_str(&self::recording(name, recording.record, &inside));
    let _ = writeln!(text, "ask {name} report");
    if exits {
        let _ = writeln!(text, "keep_second_count /out/{name}/kernel_hist");
        let _ = writeln!(text, "ask {name} exits");
    }
    if recording.takes_samples() {
        let _ = writeln!(
            text,
            "ask {name} profile\n\
             haltwise report --profile --folded - /out/{name}/capture >/out/{name}/folded \
             || wrong \"report --profile --folded {name} returned $?\""
        );
    }
    text.push_str("exit $failed\n");
    text
}
