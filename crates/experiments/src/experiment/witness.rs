//! The same halts and exits as `haltwise` recorded them, held against the lab's own counts.
//!
//! The lab asks its guests and KVM's stats fd; `haltwise` sees tracepoints. Neither knows of the other.
//! Sums over all vCPUs are compared, and the waits by the vCPUs' numbers: not VM by VM, for a VM that
//! lies where an earlier one of this process lay is the same one to an observer outside.

use std::collections::BTreeMap;

use anyhow::anyhow;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::recorder::{Haltwise, Recording};
use haltwise_lab::outcome::VcpuOutcome;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "recorded")]
pub enum Witness {
    /// It recorded, and this is how its counts compare.
    Yes {
        checks: Vec<Check>,
        vcpus: usize,
        lost: u64,
        /// Data that `haltwise` could not record, and why.
        missing: Vec<String>,
    },
    No {
        reason: String,
    },
}

/// A count that both have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    pub what: String,
    /// By the lab: the least and the most that it may be.
    pub lab: (u64, u64),
    pub haltwise: u64,
    /// Whether the second lies within the first.
    pub agrees: bool,
}

impl Check {
    fn new(what: impl Into<String>, low: u64, high: u64, haltwise: u64) -> Self {
        Self {
            what: what.into(),
            lab: (low, high),
            haltwise,
            agrees: (low..=high).contains(&haltwise),
        }
    }

    /// Whether `haltwise` counted what the lab did.
    pub fn is_within(&self) -> bool {
        (self.lab.0..=self.lab.1).contains(&self.haltwise)
    }
}

impl Default for Witness {
    fn default() -> Self {
        let reason = "it failed".to_owned();
        Self::No { reason }
    }
}

impl Witness {
    /// Whether everything that was recorded agrees; `None` if nothing was.
    pub fn agrees(&self) -> Option<bool> {
        match self {
            Self::Yes { checks, .. } => Some(checks.iter().all(Check::is_within)),
            Self::No { .. } => None,
        }
    }
}

#[derive(Debug)]
pub struct Watch(anyhow::Result<(Haltwise, Recording)>);

impl Watch {
    /// Starts to. That it cannot is a finding, not a failure.
    pub fn start(haltwise: &anyhow::Result<Haltwise>) -> Self {
        let haltwise = haltwise.as_ref().map_err(|error| anyhow!("{error:#}"));
        Self(haltwise.and_then(|haltwise| Ok((haltwise.clone(), haltwise.record("counts")?))))
    }

    pub fn end(self, vcpus: &[VcpuOutcome]) -> Witness {
        let compared = self.0.and_then(|(haltwise, mut recording)| {
            recording.end()?;
            let pid = std::process::id().to_string();
            let capture = recording.capture();
            let report = haltwise.ask(&["report", "--vm", &pid], &capture)?;
            let exits = ["report", "--exits", "--rows", "all", "--vm", &pid];
            Ok(compare(vcpus, &report, haltwise.ask(&exits, &capture)))
        });
        compared.unwrap_or_else(|error| Witness::No {
            reason: format!("{error:#}"),
        })
    }
}

/// A count of the lab's of a vCPU; `None` where this kernel's statistics do not have it.
type Counted = fn(&VcpuOutcome) -> Option<u64>;

/// Counts that both have to the unit: what they are, the lab's, and where `haltwise report` has them in an account.
const EXACT: [(&str, Counted, &str); 5] = [
    ("halts that waited", VcpuOutcome::waits, WAITS),
    ("polls", |v| v.stat("halt_attempted_poll"), "/poll/polled"),
    ("polls that succeeded", successful, "/poll/successful"),
    (
        "ns polled with success",
        |v| v.stat("halt_poll_success_ns"),
        "/parts/poll_success_ns",
    ),
    (
        "ns of failed polls",
        |v| v.stat("halt_poll_fail_ns"),
        "/parts/poll_fail_ns",
    ),
];
const WAITS: &str = "/waits";

fn successful(vcpu: &VcpuOutcome) -> Option<u64> {
    vcpu.stat("halt_successful_poll")
}

/// A count of `haltwise report`, over the vCPUs of this number, or over all.
fn recorded(report: &Value, id: Option<u32>, pointer: &str) -> u64 {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let vms = list(&report["vms"]);
    let vcpus = vms.iter().flat_map(|vm| list(&vm["vcpus"]));
    let of = vcpus.filter(|vcpu| id.is_none_or(|id| vcpu["id"] == id));
    of.filter_map(|vcpu| vcpu["account"].pointer(pointer)?.as_u64())
        .sum()
}

pub fn compare(vcpus: &[VcpuOutcome], report: &Value, exits: anyhow::Result<Value>) -> Witness {
    let mut missing = Vec::new();
    let mut checks = halt_checks(vcpus, report, &mut missing);
    match exits {
        Ok(exits) => exit_checks(vcpus, &exits, &mut checks, &mut missing),
        Err(error) => missing.push(format!("exits: {error:#}")),
    }
    Witness::Yes {
        checks,
        vcpus: vcpus.len(),
        lost: report["recording"]["lost"].as_u64().unwrap_or(0),
        missing,
    }
}

fn halt_checks(vcpus: &[VcpuOutcome], report: &Value, missing: &mut Vec<String>) -> Vec<Check> {
    let sum = |of: Counted| vcpus.iter().map(of).sum::<Option<u64>>();
    let mut checks = Vec::new();
    for (what, of, pointer) in EXACT {
        match sum(of) {
            Some(lab) => checks.push(Check::new(what, lab, lab, recorded(report, None, pointer))),
            None => missing.push(format!("{what}: this kernel's statistics do not have them")),
        }
    }
    let mut waits_of: BTreeMap<u32, u64> = BTreeMap::new();
    for vcpu in vcpus {
        *waits_of.entry(vcpu.id).or_default() += vcpu.waits().unwrap_or(0);
    }
    for (id, waits) in waits_of.iter().filter(|_| waits_of.len() > 1) {
        let what = format!("halts that waited, vCPUs {id}");
        let told = recorded(report, Some(*id), WAITS);
        checks.push(Check::new(what, *waits, *waits, told));
    }
    if let (Some(exits), Some(waits), Some(polls)) =
        (sum(halt_exits), sum(VcpuOutcome::waits), sum(successful))
    {
        // A HLT with an interrupt pending is an exit, and no halt.
        let least = waits.saturating_add(polls).min(exits);
        let told = recorded(report, None, "/halts");
        checks.push(Check::new("halts", least, exits, told));
    }
    checks
}

/// Returns of `KVM_RUN` to the VMM by KVM's names (`KVM_EXIT_IO`), the last one included, by which the guest ended.
pub(crate) fn userspace(vcpu: &VcpuOutcome) -> BTreeMap<&'static str, u64> {
    let mut userspace = BTreeMap::from([("KVM_EXIT_IO", 1)]);
    for (name, count) in &vcpu.exits {
        let kind = match name.split('-').next() {
            Some("pio") => "KVM_EXIT_IO",
            Some("mmio") => "KVM_EXIT_MMIO",
            Some("user") => "KVM_EXIT_HLT",
            Some("irq") => "KVM_EXIT_IRQ_WINDOW_OPEN",
            // Counted by the guest: they never reach the VMM.
            _ => continue,
        };
        *userspace.entry(kind).or_default() += count;
    }
    userspace
}

/// KVM's `halt_exits`. A HLT that exits to the VMM is not among them.
fn halt_exits(vcpu: &VcpuOutcome) -> Option<u64> {
    let to_vmm = userspace(vcpu).get("KVM_EXIT_HLT").copied().unwrap_or(0);
    // KVM counts a HLT before it knows who handles it.
    Some(vcpu.stat("halt_exits")?.saturating_sub(to_vmm))
}

fn exit_checks(
    vcpus: &[VcpuOutcome],
    exits: &Value,
    checks: &mut Vec<Check>,
    missing: &mut Vec<String>,
) {
    let mut counted: BTreeMap<&str, u64> = BTreeMap::new();
    for (kind, count) in vcpus.iter().flat_map(userspace) {
        *counted.entry(kind).or_default() += count;
    }
    let rows = exits["userspace"].as_array().cloned().unwrap_or_default();
    for (kind, count) in &counted {
        let recorded = rows.iter().filter(|row| row["name"] == **kind);
        let recorded = recorded.filter_map(|row| row["count"].as_u64()).sum();
        let what = format!("exits to the VMM, {kind}");
        checks.push(Check::new(what, *count, *count, recorded));
    }
    if let Some(other) = exits["total"]["other"].as_u64().filter(|other| *other > 0) {
        missing.push(format!(
            "{other} exits found no room in the recorder's table"
        ));
    }
    if exits["total"]["exits"] == 0 {
        missing.push("exits from the guest: this host's KVM tells of none".to_owned());
    }
}
