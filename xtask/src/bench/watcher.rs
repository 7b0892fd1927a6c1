//! Who watches while the guest runs: nobody, haltwise in each form, perf, trace-cmd.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::run::Programs;
use crate::tool;

/// The events that haltwise's tracepoint source stands on, for the peers.
const EVENTS: &[&str] = &[
    "kvm:kvm_vcpu_wakeup",
    "kvm:kvm_halt_poll_ns",
    "sched:sched_waking",
    "sched:sched_switch",
];
/// KVM's own of these: halts and windows, without what woke a vCPU.
const KVM_EVENTS: &[&str] = &["kvm:kvm_vcpu_wakeup", "kvm:kvm_halt_poll_ns"];

/// One way of watching.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watcher {
    Nobody,
    Haltwise {
        rung: &'static str,
        mode: &'static str,
    },
    /// `perf record` of these events.
    Perf(&'static [&'static str]),
    TraceCmd,
}

impl Watcher {
    pub(crate) const ALL: [Self; 9] = [
        Self::Nobody,
        Self::Haltwise {
            rung: "bpf",
            mode: "full",
        },
        Self::Haltwise {
            rung: "bpf",
            mode: "counts",
        },
        Self::Haltwise {
            rung: "bpf",
            mode: "stats",
        },
        Self::Haltwise {
            rung: "tracepoints",
            mode: "full",
        },
        Self::Haltwise {
            rung: "tracepoints",
            mode: "counts",
        },
        Self::Perf(EVENTS),
        Self::Perf(KVM_EVENTS),
        Self::TraceCmd,
    ];

    pub(crate) fn name(self) -> String {
        match self {
            Self::Nobody => "nobody".into(),
            Self::Haltwise { rung, mode } => format!("haltwise {rung} {mode}"),
            Self::Perf(events) => format!("perf record, {} events", events.len()),
            Self::TraceCmd => "trace-cmd record".into(),
        }
    }

    /// Why it cannot watch here, if so: found out by letting it.
    pub(crate) fn obstacle(self, programs: &Programs) -> Option<String> {
        let folder = tempfile::tempdir().ok()?;
        let started = self.start(programs, folder.path().to_owned());
        match started.and_then(Watching::stop) {
            Ok(_) => None,
            Err(error) => Some(format!("{error:#}").replace('\n', " ")),
        }
    }

    fn command(self, programs: &Programs, out: &Path) -> Option<Command> {
        let mut command = Command::new("taskset");
        // Beside the lab's own thread, not on the vCPU's CPU: who shares that stops its polling.
        command.args(["-c", "0"]);
        match self {
            Self::Nobody => return None,
            Self::Haltwise { rung, mode } => {
                command
                    .arg(&programs.haltwise)
                    .args(["record", "--source", rung, "--mode", mode]);
                command.arg("-o").arg(out.join("capture"));
            }
            Self::Perf(events) => {
                command
                    .args(["perf", "record", "--quiet", "-a", "-o"])
                    .arg(out.join("perf.data"));
                command.args(events.iter().flat_map(|event| ["-e", event]));
            }
            Self::TraceCmd => {
                command
                    .args(["trace-cmd", "record", "-q", "-o"])
                    .arg(out.join("trace.dat"));
                command.args(EVENTS.iter().flat_map(|event| ["-e", event]));
            }
        }
        Some(command)
    }

    /// Starts watching, and waits until it does.
    pub(crate) fn start(self, programs: &Programs, out: PathBuf) -> Result<Watching> {
        let command = self.command(programs, &out);
        let is_haltwise = matches!(self, Self::Haltwise { .. });
        watch(command, &self.name(), out, is_haltwise)
    }
}

/// Starts a watcher, if there is one, and waits until it watches. Its data lies below `out`.
pub(crate) fn watch(
    command: Option<Command>,
    name: &str,
    out: PathBuf,
    is_haltwise: bool,
) -> Result<Watching> {
    let Some(mut command) = command else {
        return Ok(Watching { child: None, out });
    };
    let said = out.join("said");
    let log = std::fs::File::create(&said).context("create a log")?;
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .with_context(|| format!("start {name}"))?;
    let mut watching = Watching {
        child: Some(child),
        out,
    };
    let deadline = Instant::now() + Duration::from_secs(15);
    let ready = |watching: &Watching| {
        if is_haltwise {
            std::fs::read_to_string(&said).is_ok_and(|text| text.contains("Recording"))
        } else {
            watching.bytes() > 0
        }
    };
    while !ready(&watching) {
        if watching.has_ended() || Instant::now() > deadline {
            let text = std::fs::read_to_string(&said).unwrap_or_default();
            bail!("{name} does not watch: {}", text.trim());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    // perf and trace-cmd do not say when they are attached.
    std::thread::sleep(Duration::from_millis(300));
    Ok(watching)
}

pub(crate) struct Watching {
    child: Option<Child>,
    out: PathBuf,
}

impl Watching {
    fn has_ended(&mut self) -> bool {
        self.child
            .as_mut()
            .is_some_and(|child| matches!(child.try_wait(), Ok(Some(_))))
    }

    /// Ends it with SIGINT and waits; bytes it left on disk.
    pub(crate) fn stop(mut self) -> Result<u64> {
        if let Some(mut child) = self.child.take() {
            let id = child.id().to_string();
            tool::run(Command::new("kill").args(["-INT", &id]))?;
            child.wait().context("wait for the watcher")?;
        }
        Ok(self.bytes())
    }

    /// Bytes of everything below its folder that holds data.
    fn bytes(&self) -> u64 {
        fn below(folder: &Path) -> u64 {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            entries
                .filter(|entry| entry.file_name() != "said")
                .map(|entry| match entry.metadata() {
                    Ok(data) if data.is_dir() => below(&entry.path()),
                    Ok(data) => data.len(),
                    Err(_) => 0,
                })
                .sum()
        }
        below(&self.out)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}
