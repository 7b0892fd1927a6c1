//! Sources that this host allows, and what to know about the rest.
//!
//! Looks and judges nothing away: a source that is refused says which right or which part of the kernel
//! it lacks. It loads, mounts and changes nothing; the sources themselves have the last word.

pub(crate) mod rights;
mod traps;

use std::fmt;

use haltwise_core::event::Knob;
use haltwise_core::kvm::{Distributor, Version};
use haltwise_core::recording::Rung;
use rustix::thread::CapabilitySet;
use serde::Serialize;

pub use self::rights::{CAPABILITIES, Rights};
use crate::root::{Root, RootError};
use crate::tracefs::{self, Standing};
use crate::{knob, params};

haltwise_core::names! {
    pub enum Level {
        Good = "good",
        Note = "note",
        Warning = "warning",
        Problem = "problem",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub level: Level,
    pub what: String,
    pub why: String,
    pub remedy: Option<String>,
}

impl Finding {
    pub(crate) fn new(
        level: Level,
        what: impl Into<String>,
        why: &str,
        remedy: Option<&str>,
    ) -> Self {
        Self {
            level,
            what: what.into(),
            why: why.to_owned(),
            remedy: remedy.map(str::to_owned),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)?;
        self.remedy
            .as_ref()
            .map_or(Ok(()), |remedy| write!(f, "; {remedy}"))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("{what}: not offered by this kernel")]
    Unsupported { what: &'static str },
    #[error("{what}: not permitted (needs {need})")]
    Denied {
        what: &'static str,
        need: &'static str,
    },
}

#[derive(Debug, Clone)]
pub struct Support {
    pub rights: Rights,
    pub kernel: KernelRelease,
    pub knobs: Vec<Knob>,
    pub bpf: Result<(), Refusal>,
    pub tracepoints: Result<(), Refusal>,
    pub findings: Vec<Finding>,
}

impl Support {
    pub fn best_rung(&self) -> Option<Rung> {
        if self.bpf.is_ok() {
            Some(Rung::Bpf)
        } else if self.tracepoints.is_ok() {
            Some(Rung::Tracepoints)
        } else {
            None
        }
    }
}

pub fn inspect(root: &Root, time_ns: u64) -> Result<Support, RootError> {
    let kernel = KernelRelease::read(root)?;
    let rights = Rights::read(root)?;
    let knobs = params::read(root, time_ns)?;
    let mut findings = traps::by_version(&kernel);
    findings.extend(traps::by_settings(&kernel, &knobs));
    let lines = knob::lines(root);
    let dead = knob::without_effect(&lines).into_iter();
    findings.extend(dead.map(|remark| remark.finding));
    findings.extend(kvm(root));
    findings.extend(own_rights(rights));
    Ok(Support {
        rights,
        bpf: bpf(root, &kernel, rights),
        tracepoints: tracepoints(root, rights),
        kernel,
        knobs,
        findings,
    })
}

fn offered(is_there: bool, what: &'static str) -> Result<(), Refusal> {
    is_there.then_some(()).ok_or(Refusal::Unsupported { what })
}

fn permitted(may: bool, what: &'static str, need: &'static str) -> Result<(), Refusal> {
    may.then_some(()).ok_or(Refusal::Denied { what, need })
}

const NOT_LOCKED: &str = "a kernel that is not locked down for confidentiality";

fn bpf(root: &Root, kernel: &KernelRelease, rights: Rights) -> Result<(), Refusal> {
    offered(root.exists("sys/module/kvm"), "find KVM")?;
    let walks = kernel.is_from(5, 8) || kernel.has_backports();
    offered(walks, "walk open files with BPF (5.8)")?;
    let has_types = root.exists("sys/kernel/btf/vmlinux");
    offered(has_types, "read the kernel's types (CONFIG_DEBUG_INFO_BTF)")?;
    let has_types = !is_loaded_as_module(root, "kvm") || root.exists("sys/kernel/btf/kvm");
    let what = "read the types of module kvm (CONFIG_DEBUG_INFO_BTF_MODULES)";
    offered(has_types, what)?;
    let is_open = !is_confidential(root);
    permitted(is_open, "read kernel memory with BPF", NOT_LOCKED)?;
    let may_load = rights.may_load_bpf();
    permitted(may_load, "load BPF programs", "CAP_BPF and CAP_PERFMON")
}

fn tracepoints(root: &Root, rights: Rights) -> Result<(), Refusal> {
    let has_events = rights.perf_event_paranoid.is_some();
    offered(has_events, "open perf events (CONFIG_PERF_EVENTS)")?;
    permitted(!is_confidential(root), "read tracepoints", NOT_LOCKED)?;
    permitted(
        rights.may_trace(),
        "read tracepoints of the whole host",
        "CAP_PERFMON, or kernel.perf_event_paranoid = -1",
    )?;
    match tracefs::standing(root) {
        Standing::Mounted(at) => {
            let is_there = root.exists(format!("{at}/events/kvm/kvm_vcpu_wakeup"));
            offered(is_there, "find tracepoint kvm:kvm_vcpu_wakeup")
        }
        Standing::Mountable => permitted(
            rights.has(CapabilitySet::SYS_ADMIN),
            "mount tracefs",
            "CAP_SYS_ADMIN, or `mount -t tracefs tracefs /sys/kernel/tracing` by root",
        ),
        Standing::Closed(_) => permitted(false, "read tracefs", "root, or CAP_DAC_READ_SEARCH"),
        Standing::Unsupported => offered(false, "find tracefs (CONFIG_TRACING)"),
    }
}

fn is_loaded_as_module(root: &Root, name: &str) -> bool {
    root.text("proc/modules").is_ok_and(|text| {
        text.lines()
            .any(|line| line.split(' ').next() == Some(name))
    })
}

fn is_confidential(root: &Root) -> bool {
    root.text("sys/kernel/security/lockdown")
        .is_ok_and(|text| text.contains("[confidentiality]"))
}

fn kvm(root: &Root) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !root.exists("sys/module/kvm") {
        findings.push(Finding::new(
            Level::Problem,
            "KVM is not loaded",
            "no VM can run on this host",
            Some("modprobe kvm_intel or kvm_amd, and enable virtualisation in the firmware"),
        ));
    } else if !root.exists("dev/kvm") {
        findings.push(Finding::new(
            Level::Problem,
            "/dev/kvm is not there",
            "VMMs cannot start VMs",
            Some("modprobe kvm_intel or kvm_amd"),
        ));
    }
    if params::vendor_module(root) == Some("kvm_pvm") {
        findings.push(Finding::new(
            Level::Note,
            "KVM virtualises in software here (kvm_pvm)",
            "halts, polling and wake-ups are real; guest code runs far slower than on hardware",
            None,
        ));
    }
    let path = root.path("sys/module/kvm/parameters/halt_poll_ns");
    if let Ok(metadata) = path.metadata()
        && metadata.permissions().readonly()
    {
        findings.push(Finding::new(
            Level::Note,
            "KVM's parameters cannot be written on this kernel",
            "built so; settings can be studied but not applied while it runs",
            Some("set them on the kernel command line: kvm.halt_poll_ns=…"),
        ));
    }
    findings
}

fn own_rights(rights: Rights) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !rights.has(CapabilitySet::SYS_PTRACE | CapabilitySet::DAC_READ_SEARCH) {
        findings.push(Finding::new(
            Level::Warning,
            "other users' processes are not accessible",
            "their VMs may be recorded without a name, or not found at all",
            Some("run with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH, or as root"),
        ));
    }
    if !rights.initial_pid_namespace {
        findings.push(Finding::new(
            Level::Warning,
            "we run in a PID namespace of our own",
            "the kernel's events name threads by other numbers than /proc does here",
            Some("run in the host's PID namespace (docker --pid=host, hostPID: true)"),
        ));
    }
    findings
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelRelease {
    pub version: Version,
    pub text: String,
}

impl KernelRelease {
    pub fn read(root: &Root) -> Result<Self, RootError> {
        const PATH: &str = "proc/sys/kernel/osrelease";
        let text = root.value(PATH)?;
        Self::parse(&text).ok_or_else(|| root.malformed(PATH, &text, "a kernel's release"))
    }

    /// Reads a release as `uname -r` prints it.
    pub fn parse(text: &str) -> Option<Self> {
        Some(Self {
            version: text.parse().ok()?,
            text: crate::discovery::printable(text)?,
        })
    }

    pub fn is_from(&self, major: u32, minor: u32) -> bool {
        self.version >= Version::new(major, minor)
    }

    /// Whether a distributor keeps an old number and carries newer code under it.
    pub fn has_backports(&self) -> bool {
        Distributor::of(&self.text).is_some_and(|it| it.keeps_number)
    }
}

impl fmt::Display for KernelRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}
