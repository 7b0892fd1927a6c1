//! What the rules say, as data. This is the JSON of `--json`: see `docs/explain-json.md`.

use haltwise_core::explain::cost::{Cost, Gain, SHOWN_FROM_NS_PER_S};
use haltwise_core::explain::evidence::Evidence;
use haltwise_core::explain::registry::RULES;
use haltwise_core::explain::remedy::Advised;
use haltwise_core::explain::{Blind, Finding, Small, Sure, Who, Withheld, explain};
use haltwise_core::ids::VmIndex;
use haltwise_core::recording::{Missing, Mode, Roster, Rung};
use haltwise_core::stats::total;
use serde::Serialize;

use super::SCHEMA;
use super::load::Loaded;
use crate::exit::Failure;
use crate::recommend::{Recommendation, Recommended};

/// The whole page.
#[derive(Debug, Serialize)]
pub(crate) struct View {
    /// Version of this layout.
    pub(crate) schema: u32,
    pub(crate) recording: RecordingView,
    /// What a nanosecond of wake-up latency is worth in nanoseconds of CPU.
    pub(crate) lambda: f64,
    /// What `tune` recommends for KVM's parameters.
    pub(crate) recommendation: Recommendation,
    /// How many rules were asked.
    pub(crate) rules: usize,
    /// Findings of a rule together, the most expensive rule first; costs that are not known last.
    pub(crate) findings: Vec<FindingView>,
    /// Remedies that would do harm here.
    pub(crate) withheld: Vec<WithheldView>,
    /// Findings of a rule that together cost less than this are counted in `small` only.
    pub(crate) shown_from_ns_per_s: f64,
    /// What costs less.
    pub(crate) small: Vec<SmallView>,
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
    /// Its vCPUs; empty if all, or if they cannot be distinguished.
    pub(crate) vcpus: Vec<u32>,
    pub(crate) signature: String,
    pub(crate) cause: String,
    pub(crate) remedy: String,
    /// What was spent on the cause; `None` where that cannot be computed.
    pub(crate) cost: Option<CostView>,
    /// The same as one number: the larger of the two by the goal.
    pub(crate) gain: Option<Gain>,
    pub(crate) sure: Sure,
    pub(crate) source: &'static str,
}

/// What a finding costs in each second of the recording.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct CostView {
    #[serde(flatten)]
    pub(crate) cost: Cost,
    /// Both in nanoseconds of CPU, by the goal.
    pub(crate) weighed_ns_per_s: f64,
}

/// A remedy that is not given.
#[derive(Debug, Serialize)]
pub(crate) struct WithheldView {
    pub(crate) rule: &'static str,
    pub(crate) title: &'static str,
    pub(crate) vm: Option<u32>,
    pub(crate) vm_name: Option<String>,
    pub(crate) vcpus: Vec<u32>,
    pub(crate) signature: String,
    pub(crate) remedy: String,
    /// What makes it harmful.
    pub(crate) why: String,
}

/// Findings of a rule that together cost little.
#[derive(Debug, Serialize)]
pub(crate) struct SmallView {
    pub(crate) rule: &'static str,
    pub(crate) title: &'static str,
    /// How many.
    pub(crate) findings: usize,
    /// What they cost together.
    pub(crate) cost: CostView,
}

/// A rule that could not judge.
#[derive(Debug, Serialize)]
pub(crate) struct BlindView {
    pub(crate) rule: &'static str,
    pub(crate) title: &'static str,
    pub(crate) reason: String,
}

/// Asks all rules about these VMs. A nanosecond of latency is worth `lambda` of CPU; `recommended` is what
/// `tune` says of KVM's parameters by the same goal.
pub(crate) fn view(
    loaded: &Loaded,
    vms: &[VmIndex],
    lambda: f64,
    recommended: &Result<Recommended, Failure>,
) -> View {
    let recording = &loaded.recording;
    let duration_ns = recording.interval().length_ns();
    let evidence = Evidence::new(
        &recording.roster,
        &recording.ledger,
        loaded.exits.as_ref(),
        recording.interval(),
        |vm| vms.contains(&vm),
    )
    .weighing(lambda)
    .advised((recommended.as_ref()).map_or(Advised::NotAsked, Recommended::advised));
    let explained = explain(&evidence);
    let halts = evidence.guests.iter().map(|guest| guest.account.halts);
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
            lost: total(recording.lost.iter().map(|(_, count)| count)),
            missing: recording.missing.clone(),
            notes: recording.notes.clone(),
        },
        lambda,
        recommendation: Recommendation::of(recommended),
        rules: RULES.len(),
        findings: explained
            .findings
            .into_iter()
            .map(|finding| finding_view(&recording.roster, finding, lambda))
            .collect(),
        withheld: (explained.withheld.into_iter())
            .map(|withheld| withheld_view(&recording.roster, withheld))
            .collect(),
        shown_from_ns_per_s: SHOWN_FROM_NS_PER_S,
        small: (explained.small.into_iter())
            .map(|small| small_view(&small, lambda))
            .collect(),
        not_judged: explained.blind.into_iter().map(blind_view).collect(),
    }
}

/// The VM of a finding: number, name and vCPUs.
fn named(roster: &Roster, who: &Who) -> (Option<u32>, Option<String>, Vec<u32>) {
    let vm = who.vm;
    let named = roster.vms.iter().find(|known| Some(known.index) == vm);
    (
        vm.map(|vm| vm.0),
        named.map(|vm| vm.name.clone()),
        who.vcpus.iter().map(|vcpu| vcpu.0).collect(),
    )
}

fn cost_view(cost: Cost, lambda: f64) -> CostView {
    CostView {
        cost,
        weighed_ns_per_s: cost.weighed(lambda),
    }
}

fn finding_view(roster: &Roster, finding: Finding, lambda: f64) -> FindingView {
    let Finding { rule, found } = finding;
    let (vm, vm_name, vcpus) = named(roster, &found.who);
    let remedies: Vec<String> = found.remedies.into_iter().map(|it| it.text).collect();
    FindingView {
        rule: rule.id,
        title: rule.title,
        vm,
        vm_name,
        vcpus,
        signature: found.signature,
        cause: found.cause,
        remedy: remedies.join(" Or: "),
        cost: found.cost.map(|cost| cost_view(cost, lambda)),
        gain: found.cost.map(|cost| cost.gain(lambda)),
        sure: found.sure,
        source: rule.source,
    }
}

fn withheld_view(roster: &Roster, withheld: Withheld) -> WithheldView {
    let (vm, vm_name, vcpus) = named(roster, &withheld.who);
    WithheldView {
        rule: withheld.rule.id,
        title: withheld.rule.title,
        vm,
        vm_name,
        vcpus,
        signature: withheld.signature,
        remedy: withheld.remedy.text,
        why: withheld.why,
    }
}

fn small_view(small: &Small, lambda: f64) -> SmallView {
    SmallView {
        rule: small.rule.id,
        title: small.rule.title,
        findings: small.findings,
        cost: cost_view(small.cost, lambda),
    }
}

fn blind_view(blind: Blind) -> BlindView {
    BlindView {
        rule: blind.rule.id,
        title: blind.rule.title,
        reason: blind.reason,
    }
}
