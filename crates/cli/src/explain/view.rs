//! Results of the rules: each figure with its name, unit and meaning.

use std::collections::BTreeSet;

use haltwise_core::explain::cost::{Cost, Gain, Of, SHOWN_FROM_NS_PER_S};
use haltwise_core::explain::evidence::Evidence;
use haltwise_core::explain::remedy::Remedy;
use haltwise_core::explain::{Blind, Finding, Small, Sure, Who, Withheld, explain, rules_for};
use haltwise_core::ids::VmIndex;
use haltwise_core::recording::{Mode, Roster, Side};
use haltwise_document::figures;

use super::SCHEMA;
use super::load::Loaded;
use super::tune_advice::TuneAdvice;
use crate::figures::Source;
use crate::recommend::recommendation::Summary;

pub(crate) const ABOUT: &[&str] = &[
    "[The rules](rules.md): what each finds, and how costs and evidence are judged.",
    "Times are nanoseconds, and their names end in `_ns`.",
    "`null` means not recorded. It never means zero.",
];

figures! {
    /// Everything that the rules say.
    pub(crate) struct Explanation {
        /// Version of this layout: 2.
        pub(crate) schema: u32 = Number,
        /// How the facts were obtained, and what is missing from them.
        pub(crate) recording: ExplainedRecording = Record(ExplainedRecording::FIGURES),
        /// Nanoseconds of CPU that a nanosecond of wake-up latency is worth, by the goal.
        pub(crate) lambda: f64 = Real,
        /// Recommendation of [`tune`](tune-json.md) by the same goal; fields as in [the report](report-json.md).
        pub(crate) recommendation: Summary = Object,
        /// How many rules were asked.
        pub(crate) rules: usize = Count,
        /// Findings that can be put right: those of a rule together, the rule whose findings cost most by
        /// `weighed_ns_per_s` first, costs that are not known last.
        pub(crate) findings: Vec<RuleFinding> = List(RuleFinding::FIGURES),
        /// Remedies that would do harm here, and are not given.
        pub(crate) withheld: Vec<WithheldRemedy> = List(WithheldRemedy::FIGURES),
        /// Findings of a rule that together cost less are not in `findings`.
        pub(crate) shown_from_ns_per_s: f64 = MeanNanos,
        /// How many these are, of each rule.
        pub(crate) small: Vec<SmallFindings> = List(SmallFindings::FIGURES),
        /// The rules that lacked something, for all or for some; they never say that all is well.
        pub(crate) not_judged: Vec<UnjudgedRule> = List(UnjudgedRule::FIGURES),
    }

    /// How the facts were obtained, and what is missing from them.
    pub(crate) struct ExplainedRecording {
        /// `vms` are those that were asked about.
        #[serde(flatten)]
        pub(crate) source: Source = Flat(Source::FIGURES),
        /// `host`, or `guest`: a guest that recorded its own idle CPUs, which are its one VM.
        pub(crate) side: Side = Word,
        /// Whether each halt is a row (`full`), or halts were counted.
        pub(crate) mode: Mode = Word,
        /// Halts of these VMs.
        pub(crate) halts: u64 = Count,
        /// Halts that could be given to no VM: no rule sees them.
        pub(crate) unplaced: u64 = Count,
        /// Exits were recorded.
        pub(crate) has_exits: bool = Flag,
    }

    pub(crate) struct RuleFinding {
        /// Which rule.
        pub(crate) rule: &'static str = Word,
        /// Condition that the rule finds, in half a line.
        pub(crate) title: &'static str = Word,
        #[serde(flatten)]
        pub(crate) whose: WhoseFinding = Flat(WhoseFinding::FIGURES),
        /// Signature that was seen, with its numbers, in words.
        pub(crate) signature: String = Name,
        /// Where it comes from.
        pub(crate) cause: String = Name,
        /// Remedy: a command or a setting; several are separated by ` Or: `.
        pub(crate) remedy: String = Name,
        /// The same one by one, each with what it costs and when it does harm.
        pub(crate) remedies: Vec<RemedyTerms> = List(RemedyTerms::FIGURES),
        /// Cost of the cause, the most that a remedy can save; `null` where that cannot be computed.
        pub(crate) cost: Option<FindingCost> = Record(FindingCost::FIGURES),
        /// The same as one number, the larger of the two by `lambda`.
        pub(crate) gain: Option<Gain> = Record(GAIN),
        /// `certain`: the recording shows cause and effect; `likely`: other causes are rare; `possible`: one of
        /// several.
        pub(crate) sure: Sure = Word,
        /// Where cause and thresholds come from.
        pub(crate) source: &'static str = Word,
    }

    pub(crate) struct WhoseFinding {
        /// The VM's number in the capture; `null` is the host.
        pub(crate) vm: Option<u32> = Number,
        /// Its name.
        pub(crate) vm_name: Option<String> = Name,
        /// Its vCPUs; empty if all, or if they cannot be distinguished.
        pub(crate) vcpus: Vec<u32> = Words,
    }

    /// Something that can be done.
    pub(crate) struct RemedyTerms {
        /// A command or a setting, in a sentence.
        pub(crate) text: String = Name,
        /// Price of the remedy.
        pub(crate) price: &'static str = Word,
        /// When it does harm.
        pub(crate) harm: &'static str = Word,
    }

    #[derive(Clone, Copy)]
    pub(crate) struct FindingCost {
        #[serde(flatten)]
        pub(crate) cost: Cost = Flat(COST),
        /// Both in nanoseconds of CPU: `cpu_ns_per_s` and `lambda` times `latency_ns_per_s`.
        pub(crate) weighed_ns_per_s: f64 = MeanNanos,
    }

    pub(crate) struct WithheldRemedy {
        /// Which rule.
        pub(crate) rule: &'static str = Word,
        /// Condition that the rule finds.
        pub(crate) title: &'static str = Word,
        #[serde(flatten)]
        pub(crate) whose: WhoseFinding = Flat(WhoseFinding::FIGURES),
        /// Signature that was seen.
        pub(crate) signature: String = Name,
        /// Remedy that must not be applied.
        pub(crate) remedy: String = Name,
        /// Why it would do harm.
        pub(crate) why: String = Name,
    }

    /// Findings of a rule that together cost little.
    pub(crate) struct SmallFindings {
        /// Which rule.
        pub(crate) rule: &'static str = Word,
        /// Condition that the rule finds.
        pub(crate) title: &'static str = Word,
        /// How many.
        pub(crate) findings: usize = Count,
        /// Cost of these findings together.
        pub(crate) cost: FindingCost = Record(FindingCost::FIGURES),
    }

    /// A rule that could not judge.
    pub(crate) struct UnjudgedRule {
        /// Which rule.
        pub(crate) rule: &'static str = Word,
        /// Condition that the rule finds.
        pub(crate) title: &'static str = Word,
        /// Facts that the rule lacked.
        pub(crate) reason: String = Name,
    }
}

figures! {
    /// Cost of a cause, in each second of the recording.
    const COST: Cost {
        /// CPU time of the host.
        cpu_ns_per_s: f64 = MeanNanos,
        /// Time that woken vCPUs waited until they ran.
        latency_ns_per_s: f64 = MeanNanos,
    }
}

figures! {
    const GAIN: Gain {
        /// `cpu` of the host, or `latency` of vCPUs that were woken.
        of: Of = Word,
        /// Nanoseconds of it in each second of the recording.
        ns_per_s: f64 = MeanNanos,
    }
}

/// Asks all rules about these VMs. A nanosecond of latency is worth `lambda` of CPU; `told` is what `tune` says by
/// the same goal.
pub(crate) fn view(loaded: &Loaded, vms: &[VmIndex], lambda: f64, told: TuneAdvice) -> Explanation {
    let recording = &loaded.recording;
    let vms: BTreeSet<VmIndex> = vms.iter().copied().collect();
    let (exits, interval) = (loaded.exits.as_ref(), recording.interval());
    let is_asked = |vm| vms.contains(&vm);
    let evidence = Evidence {
        weight: lambda,
        advised: told.advised,
        in_guest: told.in_guest,
        ..Evidence::new(
            &recording.info.roster,
            &recording.ledger,
            exits,
            interval,
            is_asked,
        )
    };
    let explained = explain(&evidence);
    let small = |it: Small| SmallFindings {
        rule: it.rule.id,
        title: it.rule.title,
        findings: it.findings,
        cost: cost_view(it.cost, lambda),
    };
    let unjudged = |it: Blind| UnjudgedRule {
        rule: it.rule.id,
        title: it.rule.title,
        reason: it.reason,
    };
    let halts = evidence.guests.iter().map(|guest| guest.account.halts);
    Explanation {
        schema: SCHEMA,
        recording: ExplainedRecording {
            source: Source {
                vms: evidence.guests.len(),
                ..Source::of(recording)
            },
            side: recording.reported.side,
            mode: recording.reported.mode,
            halts: halts.fold(0, u64::saturating_add),
            unplaced: recording.ledger.unplaced().halts,
            has_exits: loaded.exits.is_some(),
        },
        lambda,
        recommendation: told.recommendation,
        rules: rules_for(&evidence).len(),
        findings: explained
            .findings
            .into_iter()
            .map(|finding| finding_view(&recording.info.roster, finding, lambda))
            .collect(),
        withheld: (explained.withheld.into_iter())
            .map(|withheld| withheld_view(&recording.info.roster, withheld))
            .collect(),
        shown_from_ns_per_s: SHOWN_FROM_NS_PER_S,
        small: explained.small.into_iter().map(small).collect(),
        not_judged: explained.blind.into_iter().map(unjudged).collect(),
    }
}

fn whose(roster: &Roster, who: &Who) -> WhoseFinding {
    let named = roster.vms.iter().find(|known| Some(known.index) == who.vm);
    WhoseFinding {
        vm: who.vm.map(|vm| vm.0),
        vm_name: named.map(|vm| vm.name.clone()),
        vcpus: who.vcpus.iter().map(|vcpu| vcpu.0).collect(),
    }
}

fn cost_view(cost: Cost, lambda: f64) -> FindingCost {
    FindingCost {
        cost,
        weighed_ns_per_s: cost.weighed(lambda),
    }
}

fn finding_view(roster: &Roster, finding: Finding, lambda: f64) -> RuleFinding {
    let Finding { rule, found } = finding;
    let terms = |remedy: Remedy| RemedyTerms {
        text: remedy.text.into_owned(),
        price: remedy.terms.price,
        harm: remedy.terms.harm,
    };
    let remedies: Vec<_> = found.remedies.into_iter().map(terms).collect();
    let texts: Vec<&str> = remedies.iter().map(|it| it.text.as_str()).collect();
    RuleFinding {
        rule: rule.id,
        title: rule.title,
        whose: whose(roster, &found.who),
        signature: found.signature,
        cause: found.cause,
        remedy: texts.join(" Or: "),
        remedies,
        cost: found.cost.map(|cost| cost_view(cost, lambda)),
        gain: found.cost.map(|cost| cost.gain(lambda)),
        sure: found.sure,
        source: rule.source,
    }
}

fn withheld_view(roster: &Roster, withheld: Withheld) -> WithheldRemedy {
    WithheldRemedy {
        rule: withheld.rule.id,
        title: withheld.rule.title,
        whose: whose(roster, &withheld.who),
        signature: withheld.signature,
        remedy: withheld.remedy.text.into_owned(),
        why: withheld.why,
    }
}
