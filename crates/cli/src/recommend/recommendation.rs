//! A recommendation, as every verb, the page and a plan have it.

use haltwise_core::parameter::{Parameter, Values};
use haltwise_core::stats::Interval;
use haltwise_core::tune::advice::Verdict;
use haltwise_core::tune::final_round::Finalist;
use haltwise_core::tune::{Advice, Inputs};
use haltwise_document::figures;
use serde::Serialize;

use super::guest::Place;
use super::view::{OfSide, SettingPoint};
use super::{Tuned, say};
use crate::exit::Failure;
use crate::figures::INTERVAL;
use crate::plan::TuneGoal;

figures! {
    #[derive(Clone)]
    pub(crate) struct Recommendation {
        /// `host` for KVM's parameters, `guest` for those of a guest's governor haltpoll.
        pub(crate) side: &'static str = Word,
        /// Goal that was asked for.
        pub(crate) goal: TuneGoal = Record(TuneGoal::FIGURES),
        /// Verdict on a change of the setting, in a word.
        pub(crate) verdict: Verdict = Word,
        /// Whether a setting is to be written.
        pub(crate) changes: bool = Flag,
        /// Whether any VM follows `halt_poll_ns`; if none does, that parameter is in no plan. `null` for a guest.
        pub(crate) follows: Option<bool> = Flag,
        /// Where to change something for a guest: `guest` (its parameters), `host` (no polling in the guest, and the
        /// setting `host` in its host), `cpu-pm` (the VM's definition: HLT and MWAIT without exits) or `nowhere`; `null`
        /// for a host.
        pub(crate) place: Option<Place> = Word,
        /// Why, in a sentence or two.
        pub(crate) reason: String = Word,
        /// Facts that must be known beside it, each a sentence or two.
        pub(crate) notes: Vec<String> = Words,
        /// The setting in force when recorded.
        pub(crate) in_force: Values = Object,
        /// The setting to write; `null` to leave it, and for a guest if `place` is not `guest`.
        pub(crate) recommended: Option<Values> = Object,
        /// The best setting of KVM in the host for the halts of a guest, if the guest does not poll; it is recommended
        /// if `place` is `host`. `null` for a host.
        pub(crate) host: Option<Values> = Object,
        /// Change of the cost under the best setting found, as a share of the cost in force; `null` for a capture of
        /// counts.
        pub(crate) cost_share: Option<Interval> = Record(INTERVAL),
        /// Figures of what is in force and of the best setting that was found, in this order; none for a capture of
        /// counts.
        pub(crate) figures: Vec<SettingPoint> = List(SettingPoint::FIGURES),
        /// How to write by hand what differs from `in_force`.
        pub(crate) commands: Vec<String> = Words,
    }
}

/// A recommendation, or why there is none, as the JSON of other verbs has it: see `docs/tune-json.md`.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(crate) enum Summary {
    Made(Box<Recommendation>),
    None { why_not: String },
}

impl Recommendation {
    /// Result of a search, which recommends no setting yet.
    pub(super) fn of_search<S: OfSide>(
        inputs: &Inputs,
        in_force: &Finalist<S>,
        advice: &Advice<S>,
    ) -> Self {
        let cost = &advice.goal.aim.cost;
        let point = |of: &Finalist<S>| SettingPoint::new(inputs, of, cost);
        let shown = [in_force].into_iter().chain(&advice.choice);
        let against = advice.against_in_force.as_ref();
        Self {
            cost_share: against.map(|against| against.cost_share),
            figures: shown.map(point).collect(),
            ..Self::leave(
                S::SIDE,
                (TuneGoal::of(&advice.goal), advice.verdict),
                in_force.knobs.values(&inputs.terms),
            )
        }
    }

    /// The recommendation to leave what is in force.
    pub(super) fn leave(
        side: &'static str,
        (goal, verdict): (TuneGoal, Verdict),
        in_force: Values,
    ) -> Self {
        Self {
            side,
            goal,
            verdict,
            changes: false,
            follows: None,
            place: None,
            reason: String::new(),
            notes: Vec::new(),
            in_force,
            recommended: None,
            host: None,
            cost_share: None,
            figures: Vec::new(),
            commands: Vec::new(),
        }
    }

    /// Whether every recorded VM has a ceiling of its own.
    pub(crate) fn reaches_no_vm(&self) -> bool {
        self.follows == Some(false)
    }

    /// The ceiling that VMs with one of their own are to have; no parameter of the host.
    pub(crate) fn own_ceiling_ns(&self) -> Option<u32> {
        let changes = self.beyond_in_force().filter(|_| self.reaches_no_vm())?;
        changes.get(Parameter::HaltPollNs)
    }

    /// The parameters that differ from those in force, where a setting is recommended.
    pub(crate) fn beyond_in_force(&self) -> Option<Values> {
        let setting = self.recommended?;
        Some(setting.beyond(&self.in_force))
    }

    pub(crate) fn what(&self) -> String {
        let what = match (self.place, self.beyond_in_force()) {
            (Some(Place::Host), _) => {
                let host = say::parameters(&self.host.unwrap_or_default());
                return format!(
                    "Poll in the host instead: {host}; unload cpuidle_haltpoll in the guest"
                );
            }
            (Some(Place::CpuPm), _) => {
                "Give the VM CPUs of its own, and HLT and MWAIT without exits (cpu-pm)"
            }
            (Some(Place::Guest | Place::Nowhere), Some(changes)) => {
                return format!("Set {} in the guest", say::parameters(&changes));
            }
            (None, Some(changes)) => return self.what_on_host(changes),
            (None, None) if self.verdict == Verdict::NothingFollows => {
                "No single setting reaches these VMs"
            }
            (_, None) if self.verdict == Verdict::Unproven => {
                "Keep the current setting until a change is proved"
            }
            (_, None) => "Keep the current setting",
        };
        what.to_owned()
    }

    fn what_on_host(&self, mut changes: Values) -> String {
        let Some(ceiling_ns) = self.own_ceiling_ns() else {
            return format!("Set {}", say::parameters(&changes));
        };
        changes.set(Parameter::HaltPollNs, None);
        let ceiling = format!(
            "Set the VMs' own ceiling (KVM_CAP_HALT_POLL) to {}",
            say::time(ceiling_ns)
        );
        if changes.is_empty() {
            ceiling
        } else {
            format!("{ceiling}, and {}", say::parameters(&changes))
        }
    }

    /// The recommendation with its goal and its reason.
    pub(crate) fn text(&self) -> String {
        format!("{} (goal {}). {}", self.what(), self.goal.name, self.reason)
    }
}

impl Summary {
    pub(crate) fn of(tuned: &Result<Tuned, Failure>) -> Self {
        match tuned {
            Ok(tuned) => Self::Made(Box::new(tuned.recommendation().clone())),
            Err(failure) => Self::None {
                why_not: why_not(failure),
            },
        }
    }

    pub(crate) fn what(&self) -> String {
        match self {
            Self::Made(made) => made.what(),
            Self::None { .. } => "No setting can be recommended".to_owned(),
        }
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Self::Made(made) => made.text(),
            Self::None { why_not } => format!("{}: {why_not}.", self.what()),
        }
    }

    /// The same where a table beside it has the effect of a change.
    pub(crate) fn text_beside_figures(&self) -> String {
        match self {
            Self::Made(made) if made.changes => {
                let Some(share) = &made.cost_share else {
                    return self.text();
                };
                let (what, goal) = (made.what(), &made.goal.name);
                let [change, interval] = [say::change(share.value), say::interval(share)];
                format!("{what} (goal {goal}): a halt costs {change} ({interval})")
            }
            _ => self.text(),
        }
    }
}

pub(crate) fn why_not(failure: &Failure) -> String {
    format!("{:#}", failure.error)
}
