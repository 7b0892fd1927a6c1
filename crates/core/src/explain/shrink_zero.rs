//! `halt_poll_ns_shrink` of 0 on a load in bursts: each long halt throws the window away.
//!
//! With 0 a shrink sets the window to 0 (`shrink_halt_poll_ns`), and growing back from 10 us to
//! 200 us takes six halts, each a sleep. Up to 6.10 that is the default; from 6.11 on it is 2 (commit
//! aeb1b22a). A load is in bursts here if at least two grows follow each shrink, for one grow is the
//! least that any shrink costs, and if a fiftieth of all halts is spent on growing: fewer would not even
//! show in the 98th percentile of the wake-ups.

use super::prelude::*;

pub(super) const RULE: Rule = Rule {
    id: "shrink-0-on-bursts",
    title: "shrink 0 on a load in bursts",
    source: "shrink_halt_poll_ns in virt/kvm/kvm_main.c; default 2 since 6.11 (aeb1b22a)",
    look,
};

const CLIMBS: u64 = 2;

/// Share of the halts that only grow the window again.
const GROWING: f64 = 0.02;

fn look(evidence: &Evidence<'_>) -> Judgement {
    match evidence.param(Parameter::Shrink) {
        Some(0) => {}
        Some(_) => return Judgement::default(),
        None => return Judgement::blind("halt_poll_ns_shrink was not recorded"),
    }
    let halts = |guest: &Guest<'_>| guest.account.halts > 0;
    let moves = |guest: &Guest<'_>| {
        let account = &guest.account;
        account.grows + account.shrinks > 0 || account.unknown.window_ns == 0
    };
    if let Some(unfit) = evidence.unfit(|_| 0, "") {
        return unfit;
    }
    if evidence.guests.iter().any(halts) && !evidence.guests.iter().any(moves) {
        return Judgement::blind("window changes were not recorded");
    }
    evidence.each(of_guest).into()
}

fn is_in_bursts(account: &Account) -> bool {
    account.shrinks > 0
        && account.grows >= account.shrinks.saturating_mul(CLIMBS)
        && Share::of(account.grows, account.halts).is_some_and(|share| share.is_from(GROWING))
}

fn of_guest(evidence: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
    let (who, account) = guest.gather(|_, account| is_in_bursts(account))?;
    let latency = account.wake_latency_ns.percentile(0.5);
    Some(Found {
        who,
        signature: format!(
            "halt_poll_ns_shrink is 0; {} shrinks reset the window ({}), and {} of the halts only grew \
             it again, {:.1} for each shrink.",
            account.shrinks,
            rate(guest.per_s(account.shrinks)),
            percent(account.grows as f64 / account.halts as f64),
            account.grows as f64 / account.shrinks as f64,
        ),
        cause: "One long halt sets the window to 0, and the first halts of the next burst sleep \
                although they are short; with halt_poll_ns_shrink=2, the kernel's default since 6.11, a \
                long halt halves it."
            .to_owned(),
        remedies: vec![Remedy::host_polling(
            evidence,
            Does::HostPollsMore,
            Lever::Parameters,
        )],
        cost: latency.map(|latency| {
            Cost::latency(guest.per_s(account.grows) * latency as f64)
        }),
        sure: Sure::Likely,
    })
}
