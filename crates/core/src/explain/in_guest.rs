//! A guest that recorded its own idle CPUs (`record --guest`): what its rules look at beside its halts.
//!
//! Its halts are idle periods, its polls those of cpuidle, and a halt that waits is an entry into HLT. Rules
//! about KVM's settings have nothing to look at there; these have, and `tick_storm`.

mod failed_polls;
mod limit_stays;
mod short_halts;
mod stolen;

use super::contention::Contention;
use super::evidence::Evidence;
use super::remedy::{Does, Guarded, Remedy};
use super::say::percent;
use super::terms::{GUEST_POLLS_LESS, GUEST_POLLS_MORE};
use super::{Judgement, Rule, tick_storm};
use crate::account::Account;
use crate::kvm::guest::Params;

/// Every rule for such a recording, in the order in which those that could not judge are listed.
pub const RULES: &[Rule] = &[
    short_halts::RULE,
    failed_polls::RULE,
    stolen::RULE,
    limit_stays::RULE,
    tick_storm::RULE,
];

/// From which share of stolen time on no polling in the guest is recommended: of the time in which the guest
/// wanted its CPUs. KVM on s390 stops polling for a vCPU from the same share on (`halt_poll_max_steal`, by default
/// 10 %), where x86 has no such rule.
pub const MOST_STEAL: f64 = 0.1;

/// The governor, and what is known of its host.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InGuest {
    /// Its parameters; `None` if the governor is not haltpoll.
    pub params: Option<Params>,
    /// Of the time in which the guest wanted its CPUs, polling included, the share that its host gave to others;
    /// `None` where that was not recorded.
    pub stolen_of_wanted: Option<f64>,
    /// What `tune` recommends by the same idle periods.
    pub advised: AdvisedInGuest,
}

/// What `tune` recommends for a guest. Rules name no value of a parameter themselves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AdvisedInGuest {
    /// Nothing is known of it.
    #[default]
    NotAsked,
    /// To leave everything.
    Leave,
    /// To set parameters in the guest.
    Set {
        /// `guest_halt_poll_ns` afterwards.
        ceiling_ns: u32,
        /// How, in a sentence without its full stop.
        how: String,
    },
    /// To poll in the host instead.
    Host {
        /// How, in a sentence without its full stop.
        how: String,
    },
}

impl InGuest {
    /// Whether its host gives too much of its time to others.
    pub(super) fn contention(&self) -> Contention {
        match self.stolen_of_wanted {
            Some(share) if share >= MOST_STEAL => Contention::Wanted(format!(
                "the host gives {} of the time in which the guest wants its CPUs to others (steal)",
                percent(share)
            )),
            Some(_) => Contention::Free,
            None => Contention::Unknown,
        }
    }

    fn ceiling_ns(&self) -> u32 {
        self.params.map_or(0, |params| params.guest_halt_poll_ns)
    }

    /// Whether `tune` recommends something else than more, or less, polling in the guest.
    pub(super) fn contradicts(&self, more: bool) -> Option<Guarded> {
        let says = match &self.advised {
            AdvisedInGuest::Leave => Some(
                "tune finds no significantly better setting on the same idle periods".to_owned(),
            ),
            AdvisedInGuest::Host { .. } if more => {
                Some("tune recommends polling in the host instead".to_owned())
            }
            AdvisedInGuest::NotAsked | AdvisedInGuest::Host { .. } => None,
            AdvisedInGuest::Set { ceiling_ns, .. } => {
                let from = self.ceiling_ns();
                let other_way = if more {
                    *ceiling_ns < from
                } else {
                    *ceiling_ns > from
                };
                other_way.then(|| {
                    format!(
                        "on the same idle periods tune recommends guest_halt_poll_ns={ceiling_ns} \
                         instead of {from}"
                    )
                })
            }
        };
        says.map(Guarded::Harms)
    }

    /// One that has the guest poll more or less.
    fn polling(&self, more: bool) -> Remedy {
        let text = match &self.advised {
            AdvisedInGuest::Set { how, .. } | AdvisedInGuest::Host { how }
                if self.contradicts(more).is_none() =>
            {
                format!("{how}, as tune recommends.")
            }
            AdvisedInGuest::NotAsked => {
                "`haltwise tune DIR` finds the setting of haltpoll's parameters, or polling in the \
                 host, that suits these idle periods."
                    .to_owned()
            }
            // Never given: tune says otherwise.
            _ => {
                let way = if more { "more" } else { "less" };
                format!("Parameters of haltpoll with which the guest polls {way}.")
            }
        };
        if more {
            Remedy::new(Does::GuestPolls, text, GUEST_POLLS_MORE)
        } else {
            Remedy::new(Does::GuestPollsLess, text, GUEST_POLLS_LESS)
        }
    }
}

/// What is known of the guest; `None` for a recording of a host, of which these rules are not asked.
fn of<'e>(evidence: &'e Evidence<'_>) -> Option<&'e InGuest> {
    evidence.in_guest.as_ref()
}

/// Asks such a guest about its polls; blind where they were not recorded.
fn of_polls<'a>(
    evidence: &Evidence<'a>,
    look: impl Fn(&InGuest, &Evidence<'a>) -> Judgement,
) -> Judgement {
    let polls = |account: &Account| account.unknown.poll_ns;
    if let Some(unfit) = evidence.unfit(polls, "which idle periods polled was not recorded") {
        return unfit;
    }
    of(evidence).map_or_else(Judgement::default, |inside| look(inside, evidence))
}
