//! Polls in the guest that end by their limit, with HLT after them.
//!
//! Such a poll spares nothing: the exit and the wake-up follow all the same. From a fifth of the polls on it is a
//! habit of the load. What it costs is their time; what successful polls spare counts as taken by the remedy.

use super::super::prelude::*;
use super::{POLLS_UNKNOWN, polling, polls_unknown};

pub(super) const RULE: Rule = Rule {
    id: "guest-failed-polls",
    title: "polls in the guest that end in HLT all the same",
    source: "haltpoll_select in drivers/cpuidle/governors/haltpoll.c",
    look: |evidence| evidence.each_halting(polls_unknown, POLLS_UNKNOWN, of_guest),
};

fn failed(account: &Account) -> Option<Share> {
    let failed = account.polled.saturating_sub(account.successful_polls);
    Share::of(failed, account.polled)
}

fn of_guest(evidence: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
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
