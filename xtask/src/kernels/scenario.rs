//! Lab guests run under `haltwise record` inside a stock kernel, and their three cross-checks are compared.

use std::fmt::Write as _;
use std::path::Path;

use super::check::{Check, Findings};
use super::witness::{self, Expected};
use super::{LIMIT, exits, profile};

/// A name, arguments of `haltwise-lab run`, and what is expected.
type Experiment = (&'static str, &'static str, Expected);

/// One recording, while several experiments come and go. Loading BPF programs takes seconds under
/// emulation, so that there are few recordings.
#[derive(Debug, Clone, Copy)]
struct Recording {
    name: &'static str,
    record: &'static str,
    checks: &'static [Experiment],
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

const ANY: Expected = Expected {
    wake: None,
    polls: true,
    ceiling_ns: None,
};

const fn woken(by: &'static str) -> Expected {
    Expected {
        wake: Some(by),
        ..ANY
    }
}

const CAPPED: Expected = Expected {
    ceiling_ns: Some(70_000),
    ..ANY
};

/// The tracepoints do not say whether KVM polled.
const TRACED: Expected = Expected {
    polls: false,
    ..woken("device")
};

const SEVERAL: &str = "pingpong --vms 2 --vcpus 2 --rounds 100 --gap exp:1ms --host-wait block";
/// Two VMs that stay for a while.
const LINGERING: &str =
    "pingpong --vms 2 --vcpus 2 --rounds 100 --gap exp:1ms --host-wait block --linger 2s";
/// One VM: tracepoints name threads and processes, and cannot tell two VMs of one process apart.
/// Long enough: until a thread is found, here some 160 ms, that source does not see who wakes it.
const ONE: &str = "pingpong --vcpus 2 --rounds 400 --gap exp:1ms --host-wait block";
const SAMPLED: &str = "pingpong --vcpus 2 --rounds 600 --gap exp:1ms --host-wait block";
const CAP: &str = "pingpong --rounds 200 --gap bimodal:0.5:50us:3ms --cap 70us";
const PINGPONG: &str = "pingpong --rounds 300 --gap fixed:2ms";
const TICK: &str = "tick --rounds 200 --gap uniform:500us:3ms";

/// All recordings. Gaps are long, because everything takes ten times as long under emulation.
const RECORDINGS: [Recording; 6] = [
    Recording {
        name: "full",
        record: "--source bpf",
        checks: &[
            ("pingpong", PINGPONG, woken("device")),
            ("pingpong-vms", SEVERAL, woken("device")),
            ("tick", TICK, woken("timer")),
            ("tick-pit", "tick-pit --rounds 100", woken("timer")),
            ("ipi", "ipi --rounds 200", woken("ipi")),
            ("idle", "idle --rounds 20", woken("timer")),
            ("exits", "exits --rounds 20", ANY),
            ("cap", CAP, CAPPED),
        ],
    },
    Recording {
        name: "exits-counted",
        record: "--source bpf --exits=msr,pio,mmio,gpa,hypercall,vector,cpuid",
        checks: &[("primes", "exits --rounds 11", ANY)],
    },
    Recording {
        name: "profile",
        record: "--source bpf --exits --profile 199hz",
        checks: &[("sampled", SAMPLED, ANY)],
    },
    Recording {
        name: "counts",
        record: "--source bpf --mode counts",
        checks: &[("counts", SEVERAL, ANY)],
    },
    Recording {
        name: "stats",
        record: "--source bpf --mode stats --interval 200ms",
        // Until the counters have been read after the last halt.
        checks: &[("stats", LINGERING, ANY)],
    },
    Recording {
        name: "tracepoints",
        record: "--source tracepoints",
        checks: &[("tracepoints", ONE, TRACED)],
    },
];

/// A check for each recording, and one of what is said where there is no KVM, which comes last.
pub(crate) fn checks() -> Vec<Check> {
    let mut checks: Vec<Check> = RECORDINGS.into_iter().map(check_of).collect();
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

fn compare(recording: &Recording, dir: &Path) -> Findings {
    let mut findings = Findings::new();
    for (name, _, expected) in recording.checks {
        findings.push((name, witness::compare(dir, name, expected)));
        if recording.counts_exits() {
            findings.push((name, exits::compare(dir, name)));
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
    for (check, lab, _) in recording.checks {
        // Formatting into a String cannot fail.
        let _ = writeln!(inside, "lab {name}/{check} '{lab}'");
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
