//! Entries into HLT although the wake came sooner than a wake-up takes.
//!
//! The break-even is that of [`super::super::break_even`], by the guest's own wake-up latency: from when an IPI
//! was sent, or a timer was due, to the end of the period. A poll would have spared the exit as well, which is not
//! in the cost here, so that it is rather low.

use super::super::break_even::slept_too_soon;
use super::super::prelude::*;
use super::{POLLS_UNKNOWN, polling, polls_unknown};

pub(super) const RULE: Rule = Rule {
    id: "guest-hlt-below-break-even",
    title: "HLT entries shorter than a wake-up takes",
    source: "ski rental: Karlin and others, SOSP 1991; drivers/cpuidle/governors/haltpoll.c",
    look,
};

fn look(evidence: &Evidence<'_>) -> Judgement {
    if let Some(unfit) = evidence.unfit(polls_unknown, POLLS_UNKNOWN) {
        return unfit;
    }
    if let Contention::Wanted(why) = Contention::of(evidence, &evidence.total) {
        return Judgement::blind(format!(
            "{why}: wake-up latencies include that wait and do not show what HLT costs"
        ));
    }
    evidence.each(of_guest).into()
}

fn of_guest(evidence: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
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
