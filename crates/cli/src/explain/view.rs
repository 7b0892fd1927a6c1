//! What the rules say, as data. This is the JSON of `--json`: see `docs/explain-json.md`.

use haltwise_core::explain::evidence::Evidence;
use haltwise_core::explain::registry::RULES;
use haltwise_core::explain::{Blind, Finding, Gain, Sure, explain};
use haltwise_core::ids::VmIndex;
use haltwise_core::recording::{Missing, Mode, Roster, Rung};
use serde::Serialize;

use super::SCHEMA;
use super::load::Loaded;

/// The whole page.
#[derive(Debug, Serialize)]
pub(crate) struct View {
    /// Version of this layout.
    pub(crate) schema: u32,
    pub(crate) recording: RecordingView,
    /// How many rules were asked.
    pub(crate) rules: usize,
    /// The largest gain first; gains that are not known last.
    pub(crate) findings: Vec<FindingView>,
    /// Rules that lacked something.
    pub(crate) not_judged: Vec<BlindView>,
}

/// How the facts were obtained, and what is missing from them.
#[derive(Debug, Serialize)]
pub(crate) struct RecordingView {
    pub(crate) rung: Rung,
    pub(crate) mode: Mode,
    pub(crate) host: String,
    pub(crate) kernel: String,
    /// VMs that were asked about.
    pub(crate) vms: usize,
    pub(crate) duration_ns: u64,
    pub(crate) halts: u64,
    /// Halts that could be given to no VM: no rule sees them.
    pub(crate) unplaced: u64,
    /// Exits were recorded.
    pub(crate) has_exits: bool,
    pub(crate) cut: bool,
    pub(crate) lost: u64,
    pub(crate) missing: Vec<Missing>,
    pub(crate) notes: Vec<String>,
}

/// One thing found.
#[derive(Debug, Serialize)]
pub(crate) struct FindingView {
    pub(crate) rule: &'static str,
    pub(crate) title: &'static str,
    /// The VM's number in the capture; `None` is the host.
    pub(crate) vm: Option<u32>,
    pub(crate) vm_name: Option<String>,
    /// Its vCPUs; empty if all, or if they are not told apart.
    pub(crate) vcpus: Vec<u32>,
    pub(crate) signature: String,
    pub(crate) cause: String,
    pub(crate) remedy: String,
    /// The most that the remedy can bring; `None` where that cannot be computed.
    pub(crate) gain: Option<Gain>,
    pub(crate) sure: Sure,
    pub(crate) source: &'static str,
}

/// A rule that could not judge.
#[derive(Debug, Serialize)]
pub(crate) struct BlindView {
    pub(crate) rule: &'static str,
    pub(crate) title: &'static str,
    pub(crate) reason: String,
}

/// Asks all rules about these VMs.
pub(crate) fn view(loaded: &Loaded, vms: &[VmIndex]) -> View {
    let recording = &loaded.recording;
    let duration_ns = recording.end_ns.saturating_sub(recording.start_ns);
    let evidence = Evidence::new(
        &recording.roster,
        &recording.ledger,
        loaded.exits.as_ref(),
        duration_ns,
        |vm| vms.contains(&vm),
    );
    let explained = explain(&evidence);
    let halts = evidence.guests.iter().map(|guest| guest.account().halts);
    View {
        schema: SCHEMA,
        recording: RecordingView {
            rung: recording.rung,
            mode: recording.mode,
            host: recording.hostname.clone(),
            kernel: recording.kernel.clone(),
            vms: evidence.guests.len(),
            duration_ns,
            halts: halts.fold(0, u64::saturating_add),
            unplaced: recording.ledger.unplaced().halts,
            has_exits: loaded.exits.is_some(),
            cut: recording.cut,
            lost: recording.lost.iter().map(|(_, count)| count).sum(),
            missing: recording.missing.clone(),
            notes: recording.notes.clone(),
        },
        rules: RULES.len(),
        findings: explained
            .findings
            .into_iter()
            .map(|finding| finding_view(&recording.roster, finding))
            .collect(),
        not_judged: explained.blind.into_iter().map(blind_view).collect(),
    }
}

fn finding_view(roster: &Roster, finding: Finding) -> FindingView {
    let Finding { rule, found } = finding;
    let vm = found.who.vm;
    let named = roster.vms.iter().find(|known| Some(known.index) == vm);
    FindingView {
        rule: rule.id,
        title: rule.title,
        vm: vm.map(|vm| vm.0),
        vm_name: named.map(|vm| vm.name.clone()),
        vcpus: found.who.vcpus.iter().map(|vcpu| vcpu.0).collect(),
        signature: found.signature,
        cause: found.cause,
        remedy: found.remedy,
        gain: found.gain,
        sure: found.sure,
        source: rule.source,
    }
}

fn blind_view(blind: Blind) -> BlindView {
    BlindView {
        rule: blind.rule.id,
        title: blind.rule.title,
        reason: blind.reason,
    }
}
