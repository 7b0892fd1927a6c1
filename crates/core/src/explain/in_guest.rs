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
use super::remedy::{Does, Remedy, advice};
use super::say::percent;
use super::terms::{GUEST_POLLS_LESS, GUEST_POLLS_MORE};
use super::{Rule, tick_storm};
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
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct InGuest {
    /// Its parameters; `None` if the governor is not haltpoll.
    pub params: Option<Params>,
    /// Share of the time in which the guest wanted its CPUs, polling included, that its host gave to others;
    /// `None` where that was not recorded.
    pub stolen_of_wanted: Option<f64>,
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
}

fn polling(evidence: &Evidence<'_>, more: bool) -> Remedy {
    let text = advice(evidence, more);
    if more {
        Remedy::with_text(Does::GuestPolls, text, GUEST_POLLS_MORE)
    } else {
        Remedy::with_text(Does::GuestPollsLess, text, GUEST_POLLS_LESS)
    }
}

/// Idle periods of which it is not known whether they polled, and why that keeps from judging.
fn polls_unknown(account: &Account) -> u64 {
    account.unknown.poll_ns
}

const POLLS_UNKNOWN: &str = "which idle periods polled was not recorded";
