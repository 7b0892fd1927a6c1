//! What a recording shows that can be put right: signature, cause, remedy, gain, and how sure that is.
//!
//! A rule is a file and one line in [`registry`]. It looks at the [`Evidence`]: the halt accounts, the
//! exits where they were recorded, the settings and the host. It answers with what it found, or with
//! what it lacks to judge. A rule that lacks something never says that all is well.
//!
//! | module | holds |
//! |---|---|
//! | [`evidence`] | what rules look at: guests with their accounts |
//! | [`registry`] | all rules |
//!
//! Thresholds that several rules share are here; each rule documents its own.

mod apic_writes;
mod break_even;
pub mod evidence;
mod framebuffer;
mod guest_veto;
mod high_ceiling;
mod hyperv_timers;
mod ipi_storm;
mod lock_out;
mod not_observable;
mod over_commitment;
mod pause_loop;
mod port_polling;
pub mod registry;
mod say;
mod shrink_zero;
mod tick_storm;

use serde::Serialize;

use crate::ids::{VcpuId, VmIndex};
use evidence::Evidence;

/// Fewer halts than these are not judged: a share of a fifth of 100 is known to 4 points (binomial
/// standard error), of fewer halts worse than that.
const ENOUGH_HALTS: u64 = 100;

/// From this share of the halts on, something is a habit of the load: the share from which
/// [`crate::account::worth`] too says that there is something to catch.
const HABIT: f64 = 0.2;

/// From so many in a second on, exits or wakes are a storm: at the 2 us that an exit and the work
/// around it cost at the least (about 2000 cycles for the way out and in alone, `SplitX`, 2011), a
/// thousand of them take 0.2 % of a CPU, and a Linux guest's busiest tick (HZ=1000) comes as often.
const STORM_PER_S: f64 = 1_000.0;

/// A rule.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Its name, for scripts; it never changes.
    pub id: &'static str,
    /// What it finds, in half a line.
    pub title: &'static str,
    /// Where cause and thresholds come from.
    pub source: &'static str,
    /// Looks.
    pub look: fn(&Evidence<'_>) -> Judgement,
}

/// What a rule answers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Judgement {
    /// What it found.
    pub found: Vec<Found>,
    /// Why it could not look, at all or at somebody.
    pub blind: Option<String>,
}

impl Judgement {
    /// Lacks something, for this reason.
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

/// One thing that a rule found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// At whom.
    pub who: Who,
    /// What was seen, with its numbers.
    pub signature: String,
    /// Where it comes from.
    pub cause: String,
    /// What to do: a command or a setting.
    pub remedy: String,
    /// What that should bring, where it can be computed.
    pub gain: Option<Gain>,
    /// How sure cause and remedy are.
    pub sure: Sure,
}

/// Whom something concerns.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
pub struct Who {
    /// The VM; `None` is the host.
    pub vm: Option<VmIndex>,
    /// Its vCPUs; empty if all, or if they are not told apart.
    pub vcpus: Vec<VcpuId>,
}

impl Who {
    /// The host.
    pub const HOST: Self = Self {
        vm: None,
        vcpus: Vec::new(),
    };
}

/// What a remedy should bring, at most: it is what the recording shows was spent, and a remedy seldom
/// saves all of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Gain {
    /// Of what.
    pub of: Of,
    /// Nanoseconds of it in each second of the recording.
    pub ns_per_s: f64,
}

/// What there is to gain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Of {
    /// CPU time of the host.
    Cpu,
    /// Time that woken vCPUs wait until they run.
    Latency,
}

/// How sure a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sure {
    /// The recording itself shows cause and effect.
    Certain,
    /// The signature has other causes too, but rarely.
    Likely,
    /// One of several causes; look before changing anything.
    Possible,
}

impl Sure {
    /// The word printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Certain => "certain",
            Self::Likely => "likely",
            Self::Possible => "possible",
        }
    }
}

/// Something found, by which rule.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The rule.
    pub rule: &'static Rule,
    /// What it found.
    pub found: Found,
}

/// A rule that could not judge.
#[derive(Debug, Clone)]
pub struct Blind {
    /// The rule.
    pub rule: &'static Rule,
    /// What it lacks.
    pub reason: String,
}

/// What all rules say.
#[derive(Debug, Clone, Default)]
pub struct Explained {
    /// What was found: the largest gain first, gains that are not known last; among equals the
    /// surest first.
    pub findings: Vec<Finding>,
    /// The rules that lacked something, in their order.
    pub blind: Vec<Blind>,
}

/// Asks every rule.
///
/// A nanosecond of CPU and one of latency count alike, as for `tune`'s goal `balanced`.
pub fn explain(evidence: &Evidence<'_>) -> Explained {
    let mut explained = Explained::default();
    for rule in registry::RULES {
        let judgement = (rule.look)(evidence);
        let found = judgement.found.into_iter();
        explained
            .findings
            .extend(found.map(|found| Finding { rule, found }));
        let blind = judgement.blind.map(|reason| Blind { rule, reason });
        explained.blind.extend(blind);
    }
    explained.findings.sort_by(|a, b| {
        let gain = |it: &Finding| it.found.gain.map_or(0.0, |gain| gain.ns_per_s);
        gain(b)
            .total_cmp(&gain(a))
            .then(a.found.sure.cmp(&b.found.sure))
    });
    explained
}

#[cfg(test)]
mod test;
