//! A guest that recorded its own idle CPUs (`record --guest`): what its rules look at beside its halts.
//!
//! Its halts are idle periods, its polls those of cpuidle, and a halt that waits is an entry into HLT. Rules
//! about KVM's settings have nothing to look at there; these have, and [`TICK_STORM`].

use super::ceilings::{beyond, slept_too_soon};
use super::clocks::TICK_STORM;
use super::prelude::*;
use super::remedy::advice;
use super::terms::{GUEST_POLLS_LESS, GUEST_POLLS_MORE};
use crate::kvm::guest::Params;

/// Every rule for such a recording, in the order in which those that could not judge are listed.
pub const RULES: &[Rule] = &[SHORT_HALTS, FAILED_POLLS, STOLEN, LIMIT_STAYS, TICK_STORM];

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

/// The break-even is that of [`super::ceilings`], by the guest's own wake-up latency: from when an IPI was sent, or a timer
/// was due, to the end of the period. A poll would have spared the exit as well, so that the cost is rather low.
const SHORT_HALTS: Rule = Rule {
    id: "guest-hlt-below-break-even",
    title: "HLT entries shorter than a wake-up takes",
    source: "ski rental: Karlin and others, SOSP 1991; drivers/cpuidle/governors/haltpoll.c",
    look: look_for_short_halts,
};

fn look_for_short_halts(evidence: &Evidence<'_>) -> Judgement {
    if let Some(unfit) = evidence.unfit(polls_unknown, POLLS_UNKNOWN) {
        return unfit;
    }
    if let Contention::Wanted(why) = Contention::of(evidence, &evidence.total) {
        return Judgement::blind(format!(
            "{why}: wake-up latencies include that wait and do not show what HLT costs"
        ));
    }
    evidence.each(short_halts).into()
}

fn short_halts(evidence: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
    let params = evidence.in_guest?.params;
    let (who, account) = guest.gather(|_, account| {
        account.poll_known.saturating_mul(2) >= account.halts
            && slept_too_soon(account).is_some_and(|it| it.is_habit())
    })?;
    let too_soon = slept_too_soon(&account)?;
    let in_force = match params {
        None => "the governor is not haltpoll".to_owned(),
        Some(params) if params.guest_halt_poll_ns == 0 => "guest_halt_poll_ns is 0".to_owned(),
        Some(params) => format!(
            "guest_halt_poll_ns is {}",
            nanos(params.guest_halt_poll_ns.into())
        ),
    };
    Some(Found {
        signature: format!(
            "{} of {} idle periods entered HLT although the wake came within {}, the median wake-up \
             latency: {}; {in_force}.",
            percent(too_soon.share.map_or(0.0, |share| share.share)),
            account.halts,
            nanos(too_soon.break_even_ns),
            rate(guest.per_s(too_soon.slept)),
        ),
        cause:
            "Each of them took an exit to the host and longer to wake up than it would have polled."
                .to_owned(),
        remedies: vec![polling(evidence, true).taking(too_soon.takes(guest))],
        cost: Some(too_soon.cost(guest)),
        sure: match params {
            Some(params) if params.guest_halt_poll_ns > 0 => Sure::Likely,
            _ => Sure::Certain,
        },
        who,
    })
}

/// Such a poll spares nothing: the exit and the wake-up follow all the same. What successful polls spare counts as taken
/// by the remedy.
const FAILED_POLLS: Rule = Rule {
    id: "guest-failed-polls",
    title: "polls in the guest that end in HLT all the same",
    source: "haltpoll_select in drivers/cpuidle/governors/haltpoll.c",
    look: |evidence| evidence.each_halting(polls_unknown, POLLS_UNKNOWN, failed_polls),
};

fn failed(account: &Account) -> Option<Share> {
    let failed = account.polled.saturating_sub(account.successful_polls);
    Share::of(failed, account.polled)
}

fn failed_polls(evidence: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
    let (who, account) =
        guest.gather(|_, account| failed(account).is_some_and(|share| share.is_from(HABIT)))?;
    let failed_ns = guest.per_s(account.poll_fail_ns.sum());
    Some(Found {
        signature: format!(
            "{} of {} polls ended by their limit and entered HLT; they took {} of a CPU, {} each (median).",
            percent(failed(&account).map_or(0.0, |share| share.share)),
            account.polled,
            percent(failed_ns / 1e9),
            nanos(account.poll_fail_ns.percentile(0.5).unwrap_or(0)),
        ),
        cause:
            "The next wake comes later than the limit: the CPU polls, and then exits to the host \
                nevertheless."
                .to_owned(),
        remedies: vec![polling(evidence, false).taking(guest.spared(&account))],
        cost: Some(Cost::cpu(failed_ns)),
        sure: Sure::Certain,
        who,
    })
}

/// KVM ends a poll of its own when another task wants the CPU; of a guest's poll it knows nothing, and the vCPU looks busy
/// to the host's scheduler. The cost is the time polled, which another task waited for.
const STOLEN: Rule = Rule {
    id: "guest-polls-stolen-time",
    title: "polling in a guest whose CPU time is stolen",
    source: "halt_poll_max_steal in arch/s390/kvm; kvm_vcpu_can_poll in include/linux/kvm_host.h",
    look: |evidence| match evidence.in_guest.map(|inside| inside.contention()) {
        Some(Contention::Unknown) => Judgement::blind("steal time was not recorded"),
        _ => evidence.each(stolen).into(),
    },
};

fn stolen(evidence: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
    let Contention::Wanted(why) = evidence.in_guest?.contention() else {
        return None;
    };
    let (who, account) = guest.gather(|_, account| account.polled > 0)?;
    let polled_ns = guest.per_s(account.poll_ns()?);
    Some(Found {
        signature: format!(
            "Polling took {} of a CPU, and {why}.",
            percent(polled_ns / 1e9)
        ),
        cause: "The host is overcommitted, and it cannot end a poll of the guest when another task wants \
                the CPU."
            .to_owned(),
        remedies: vec![polling(evidence, false)],
        cost: Some(Cost::cpu(polled_ns)),
        sure: Sure::Certain,
        who,
    })
}

/// With `guest_halt_poll_allow_shrink` N a limit that has grown stays, also when `guest_halt_poll_ns` is lowered. Polls that
/// last twice as long as `guest_halt_poll_ns` show it: `poll_idle` looks at the clock in every 201st turn only.
const LIMIT_STAYS: Rule = Rule {
    id: "guest-limit-stays",
    title: "polls beyond guest_halt_poll_ns, by a limit that never shrinks",
    source: "adjust_poll_limit in drivers/cpuidle/governors/haltpoll.c; poll_idle in \
             drivers/cpuidle/poll_state.c",
    look: |evidence| evidence.each(limit_stays).into(),
};

fn limit_stays(evidence: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
    let params = evidence.in_guest?.params.filter(|it| !it.allow_shrink)?;
    let limit_ns = u64::from(params.guest_halt_poll_ns);
    let (who, account) = guest.gather(|_, account| account.polled > 0)?;
    let each = [&account.poll_success_ns, &account.poll_fail_ns];
    let each = each.map(|polls| beyond(polls, limit_ns.saturating_mul(2)));
    let (ns, longer) = each.iter().fold((0_u64, 0_u64), |sum, of| {
        (sum.0.saturating_add(of.0), sum.1.saturating_add(of.1))
    });
    if longer < ENOUGH_EVENTS {
        return None;
    }
    let beyond_ns = guest.per_s(ns);
    Some(Found {
        signature: format!(
            "guest_halt_poll_ns is {}, and {longer} polls lasted more than twice as long: {} of a CPU.",
            nanos(limit_ns),
            percent(beyond_ns / 1e9)
        ),
        cause: "guest_halt_poll_allow_shrink is N: a limit that has grown stays, also after \
                guest_halt_poll_ns was lowered."
            .to_owned(),
        remedies: vec![Remedy::under(
            Does::GuestPollsLess,
            "`haltwise apply --set guest_halt_poll_allow_shrink=Y` in the guest: long idle times then \
             shrink the limit.",
            GUEST_POLLS_LESS,
        )],
        cost: Some(Cost::cpu(beyond_ns)),
        sure: Sure::Certain,
        who,
    })
}
