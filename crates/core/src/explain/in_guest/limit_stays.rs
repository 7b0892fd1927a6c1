//! A limit above `guest_halt_poll_ns` that nothing lowers.
//!
//! With `guest_halt_poll_allow_shrink` N a limit that has grown stays, also when `guest_halt_poll_ns` is lowered
//! (`adjust_poll_limit`). Polls that last twice as long as `guest_halt_poll_ns` show it: `poll_idle` looks at the
//! clock in every 201st turn only, so that polls a little above their limit show nothing.

use super::super::high_ceiling::beyond;
use super::super::prelude::*;
use super::super::terms::GUEST_POLLS_LESS;

pub(super) const RULE: Rule = Rule {
    id: "guest-limit-stays",
    title: "polls beyond guest_halt_poll_ns, by a limit that never shrinks",
    source: "adjust_poll_limit in drivers/cpuidle/governors/haltpoll.c; poll_idle in \
             drivers/cpuidle/poll_state.c",
    look: |evidence| evidence.each(of_guest).into(),
};

fn of_guest(evidence: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
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
