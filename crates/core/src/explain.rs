//! Problems that a recording shows and that can be corrected: signature, cause, remedy, gain, and certainty.
//!
//! A rule is a constant and a line in [`RULES`]. It looks at the [`Evidence`] and answers with what it found, or with
//! what it lacks to judge. A rule that lacks something never says that all is well.
//!
//! A share counts as evidence with its interval ([`crate::stats::Share`]): a rule asks whether it is above a
//! threshold whatever chance did, so that a few events show nothing. Thresholds that several rules share are
//! here; each rule documents its own.

mod ceilings;
mod clocks;
pub mod contention;
pub mod cost;
mod cpus;
mod devices;
pub mod evidence;
mod exits;
mod guests;
pub mod in_guest;
mod prelude;
pub mod remedy;
pub mod terms;

use serde::Serialize;

use crate::ids::{VcpuId, VmIndex};
use cost::Cost;
use evidence::Evidence;
use remedy::{Guarded, Remedy};

/// From this share of the halts on, something is a habit of the load: the share from which
/// [`crate::account::worth`] too says that there is something to catch.
pub const HABIT: f64 = 0.2;

/// From so many in a second on, exits or wakes are a storm: at the 2 us that an exit and the work
/// around it cost at the least (about 2000 cycles for the way out and in alone, `SplitX`, 2011), a
/// thousand of them take 0.2 % of a CPU, and a Linux guest's busiest tick (HZ=1000) comes as often.
const STORM_PER_S: f64 = 1_000.0;

/// A wake-up latency above that of sleeping itself: the deepest state of Skylake and Ice Lake servers (C6)
/// takes at most 133 and 170 us to leave (`drivers/idle/intel_idle.c`), a switch some 10.
const LONG_NS: u64 = 200_000;

pub const NEVER_HALTS: &str = "guest-never-halts";

#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Its name, for scripts; it never changes.
    pub id: &'static str,
    /// Short description of the finding, in half a line.
    pub title: &'static str,
    /// Where cause and thresholds come from.
    pub source: &'static str,
    pub look: fn(&Evidence<'_>) -> Judgement,
}

/// Every rule for a host, in the order in which those that could not judge are listed.
pub const RULES: &[Rule] = &[
    ceilings::BREAK_EVEN,
    ceilings::LOCK_OUT,
    ceilings::HIGH_CEILING,
    ceilings::SHRINK_ZERO,
    cpus::OVER_COMMITMENT,
    cpus::BUSY_SIBLING,
    cpus::DEEP_IDLE,
    guests::GUEST_VETO,
    guests::NOT_OBSERVABLE,
    clocks::TICK_STORM,
    guests::IPI_STORM,
    clocks::WITHOUT_STIMER,
    exits::APIC_WRITES,
    exits::PAUSE_LOOP,
    devices::PORT_POLLING,
    devices::FRAMEBUFFER,
    ceilings::UNSEEN_POLLING,
    guests::NEVER_HALTS_RULE,
    devices::HPET,
    devices::VMM_DEVICES,
    devices::VMM_THREADS,
    clocks::TIMER_EXITS,
    exits::PAGE_FAULTS,
    exits::UNKNOWN_EXITS,
    cpus::SCHED_EXT,
    cpus::IDLE_HLT_RULE,
];

/// The rules that are asked of a recording.
pub fn rules_for(evidence: &Evidence<'_>) -> &'static [Rule] {
    if evidence.in_guest.is_some() {
        in_guest::RULES
    } else {
        RULES
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Judgement {
    pub found: Vec<Found>,
    /// Why it could not look, at all or at some of the guests.
    pub blind: Option<String>,
}

impl Judgement {
    fn blind(reason: impl Into<String>) -> Self {
        Self {
            found: Vec::new(),
            blind: Some(reason.into()),
        }
    }
}

impl From<Vec<Found>> for Judgement {
    fn from(found: Vec<Found>) -> Self {
        Self { found, blind: None }
    }
}

impl From<Option<Found>> for Judgement {
    fn from(found: Option<Found>) -> Self {
        Self::from(Vec::from_iter(found))
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub who: Who,
    /// Observation, with its numbers.
    pub signature: String,
    pub cause: String,
    /// Possible remedies, each independent of the others.
    pub remedies: Vec<Remedy>,
    /// Cost of the cause, and so the most that a remedy can save; `None` where that cannot be computed.
    pub cost: Option<Cost>,
    pub sure: Sure,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
pub struct Who {
    /// The VM; `None` is the host.
    pub vm: Option<VmIndex>,
    /// Its vCPUs; empty if all, or if they cannot be distinguished.
    pub vcpus: Vec<VcpuId>,
}

impl Who {
    pub const HOST: Self = Self {
        vm: None,
        vcpus: Vec::new(),
    };
}

crate::names! {
    /// How sure a finding is.
    pub enum Sure {
        /// The recording itself shows cause and effect.
        Certain = "certain",
        /// The signature has other causes too, but rarely.
        Likely = "likely",
        /// One of several causes; look before changing anything.
        Possible = "possible",
    }
}

impl Sure {
    fn likely_if(is_likely: bool) -> Self {
        if is_likely {
            Self::Likely
        } else {
            Self::Possible
        }
    }
}

#[derive(Debug, Clone)]
pub struct Finding {
    pub rule: &'static Rule,
    /// Finding of the rule, with only the remedies that may be given.
    pub found: Found,
}

/// A remedy that would do harm here, and is not given.
#[derive(Debug, Clone)]
pub struct Withheld {
    pub rule: &'static Rule,
    pub who: Who,
    pub signature: String,
    pub remedy: Remedy,
    pub why: String,
}

/// Findings of a rule that together cost too little to be shown.
#[derive(Debug, Clone)]
pub struct Small {
    pub rule: &'static Rule,
    pub findings: usize,
    pub cost: Cost,
}

#[derive(Debug, Clone)]
pub struct Blind {
    pub rule: &'static Rule,
    pub reason: String,
}

#[derive(Debug, Clone, Default)]
pub struct Explained {
    /// Problems found that can be corrected. Findings of a rule stand together; the rule whose findings cost
    /// most comes first, one whose cost is not known last.
    pub findings: Vec<Finding>,
    pub withheld: Vec<Withheld>,
    /// Rules whose findings together cost less than [`cost::SHOWN_FROM_NS_PER_S`], the most expensive first.
    pub small: Vec<Small>,
    /// The rules that lacked something, in their order.
    pub blind: Vec<Blind>,
}

pub fn explain(evidence: &Evidence<'_>) -> Explained {
    let mut explained = Explained::default();
    let mut by_rule: Vec<Vec<Finding>> = Vec::new();
    for rule in rules_for(evidence) {
        let Judgement { found, blind } = (rule.look)(evidence);
        let blind = blind.map(|reason| Blind { rule, reason });
        explained.blind.extend(blind);
        if let Some(cost) = too_small(evidence, &found) {
            explained.small.push(Small {
                rule,
                findings: found.len(),
                cost,
            });
            continue;
        }
        let found = found.into_iter();
        let safe = found.filter_map(|found| guard(evidence, rule, found, &mut explained.withheld));
        by_rule.push(safe.collect());
    }
    let cost = |it: &Finding| it.found.cost.map(|cost| cost.weighed(evidence.weight));
    for findings in &mut by_rule {
        findings.sort_by(|a, b| {
            let by_cost = cost(b).unwrap_or(-1.0).total_cmp(&cost(a).unwrap_or(-1.0));
            by_cost.then(a.found.sure.cmp(&b.found.sure))
        });
    }
    let sum = |findings: &[Finding]| findings.iter().filter_map(cost).sum::<f64>();
    by_rule.sort_by(|a, b| sum(b).total_cmp(&sum(a)));
    explained.findings = by_rule.into_iter().flatten().collect();
    let weighed = |it: &Small| it.cost.weighed(evidence.weight);
    (explained.small).sort_by(|a, b| weighed(b).total_cmp(&weighed(a)));
    explained
}

/// Total cost of the findings of a rule, if the cost is known and too low to be shown.
fn too_small(evidence: &Evidence<'_>, found: &[Found]) -> Option<Cost> {
    let costs: Option<Vec<Cost>> = found.iter().map(|found| found.cost).collect();
    let cost = Cost::sum(costs.filter(|costs| !costs.is_empty())?.into_iter());
    (cost.weighed(evidence.weight) < cost::SHOWN_FROM_NS_PER_S).then_some(cost)
}

/// Leaves the remedies of a finding that do no harm; `None` if it has none.
fn guard(
    evidence: &Evidence<'_>,
    rule: &'static Rule,
    mut found: Found,
    withheld: &mut Vec<Withheld>,
) -> Option<Finding> {
    let remedies = std::mem::take(&mut found.remedies);
    for mut remedy in remedies {
        match remedy.guarded(evidence, &found) {
            Guarded::Given => found.remedies.push(remedy),
            Guarded::Doubtful(what) => {
                found.sure = Sure::Possible;
                remedy.text =
                    format!("{} Not if {what}, which was not recorded.", remedy.text).into();
                found.remedies.push(remedy);
            }
            Guarded::Harms(why) => withheld.push(Withheld {
                rule,
                who: found.who.clone(),
                signature: found.signature.clone(),
                remedy,
                why,
            }),
        }
    }
    (!found.remedies.is_empty()).then_some(Finding { rule, found })
}

#[cfg(test)]
mod test;
