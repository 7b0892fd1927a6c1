//! A costs table: the figures of a capture, with who they belong to. What reads and writes it is elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Half;
use super::grid::Kind;
use super::play::Figures;
use crate::identity::Identity;
use crate::kvm::Knobs;

/// The host of a capture, and the capture.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Host {
    /// Its name; empty where it was not kept.
    pub name: String,
    /// The day on which the capture began (UTC, `2026-11-25`); `None` where its calendar time is not known.
    pub date: Option<String>,
    /// When it began, in nanoseconds since 1970; 0 where that is not known.
    pub start_unix_ns: u64,
    /// When it ended, likewise.
    pub end_unix_ns: u64,
    /// The kernel whose algorithm was replayed, with what it carries of later ones.
    pub kernel: String,
    /// `uname -r`.
    pub kernel_release: String,
    pub arch: String,
    /// The CPU's name, where known.
    pub cpu_model: Option<String>,
    pub cpus: u32,
    /// CPU time of one block and wake, in nanoseconds.
    pub switch_cpu_ns: u64,
    /// Where that comes from: `calibrated`, `given`, `assumed`, `bounded`.
    pub switch_cpu_source: String,
    /// Labels that the operator gives to the host: keys and values.
    pub labels: BTreeMap<String, String>,
}

/// A VM, or the halts that belong to none that is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct VmOf {
    pub name: Option<String>,
    pub vmm: Option<String>,
    /// Other names of the VM.
    pub identity: Identity,
    /// vCPUs that halted.
    pub vcpus: u32,
    /// Name that the operator gives to the VM's kind.
    pub class: Option<String>,
    /// Its goal, where it has one of its own: `density`, `balanced` or `latency`.
    pub goal: Option<String>,
    /// A ceiling of its own, which no module parameter reaches.
    pub own_ceiling_ns: Option<u32>,
}

impl VmOf {
    /// Key that distinguishes the VM from others on its host: its UUID, or its name.
    pub fn key(&self) -> &str {
        let uuid = self.identity.uuid.as_deref();
        uuid.or(self.name.as_deref()).unwrap_or_default()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub host: Arc<Host>,
    pub vm: Arc<VmOf>,
    pub kind: Kind,
    /// The parameters, of those kinds that have them.
    pub knobs: Option<Knobs>,
    /// Which half of the time.
    pub half: Half,
    pub figures: Figures,
}

/// The text of labels: `key=value` by comma, in order of keys.
pub fn labels_text(labels: &BTreeMap<String, String>) -> Option<String> {
    let each = labels.iter().map(|(key, value)| format!("{key}={value}"));
    let text = each.collect::<Vec<_>>().join(",");
    (!text.is_empty()).then_some(text)
}

/// The inverse of [`labels_text`]; what is no `key=value` is left out.
pub fn labels_of(text: &str) -> BTreeMap<String, String> {
    let each = text.split(',').filter_map(|label| label.rsplit_once('='));
    each.map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// The rows of a capture's VMs, VM by VM.
pub fn rows(
    host: &Arc<Host>,
    vms: impl IntoIterator<Item = (VmOf, super::VmCosts)>,
) -> impl Iterator<Item = Row> {
    vms.into_iter().flat_map(|(vm, costs)| {
        let (host, vm) = (Arc::clone(host), Arc::new(vm));
        costs.lines.into_iter().flat_map(move |line| {
            let (host, vm) = (Arc::clone(&host), Arc::clone(&vm));
            let halves = Half::ALL.into_iter().zip(line.halves);
            halves.map(move |(half, figures)| Row {
                host: Arc::clone(&host),
                vm: Arc::clone(&vm),
                kind: line.kind,
                knobs: line.knobs,
                half,
                figures,
            })
        })
    })
}
