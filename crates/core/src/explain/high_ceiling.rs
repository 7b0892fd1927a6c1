//! A ceiling above 1 ms: the vCPU polls through the ticks of an idle guest.
//!
//! The limit is that of the review of dynamic halt polling (D. Matlack, kvm list, 2015-09-01): below
//! 1 ms, since an idle Windows 10 ticks each millisecond, and a ceiling above never lets go.

use super::evidence::Evidence;
use super::say::{nanos, percent};
use super::{Found, Gain, Judgement, Of, Rule, Sure, Who};
use crate::account::Account;
use crate::event::CeilingSource;
use crate::hist::{LogHist, bucket_low};

pub(super) const RULE: Rule = Rule {
    id: "ceiling-above-1ms",
    title: "a ceiling above 1 ms",
    source: "D. Matlack's review of dynamic halt polling, kvm list, 2015-09-01",
    look,
};

const LIMIT_NS: u64 = 1_000_000;

/// What KVM itself sets on x86, 4.19 to 7.2: `KVM_HALT_POLL_NS_DEFAULT` in `asm/kvm_host.h`.
const DEFAULT_NS: u64 = 200_000;

fn look(evidence: &Evidence<'_>) -> Judgement {
    let mut found = Vec::new();
    let param = evidence.param("halt_poll_ns");
    if let Some(ns) = param.filter(|ns| *ns > LIMIT_NS) {
        let remedy =
            format!("`haltwise apply --set halt_poll_ns={DEFAULT_NS}ns`, or what tune says.");
        found.push(finding(evidence, Who::HOST, ns, remedy, &sum(evidence)));
    }
    for guest in &evidence.guests {
        let own = |seat: &super::evidence::Seat<'_>| {
            let listed = seat.listed?;
            let own = matches!(
                listed.ceiling_source,
                CeilingSource::Cap | CeilingSource::Snapshot
            );
            listed.ceiling_ns.filter(|_| own).map(u64::from)
        };
        let highest = guest.seats.iter().filter_map(own).max();
        if let Some(ns) = highest.filter(|ns| *ns > LIMIT_NS) {
            let remedy = format!(
                "Have the VMM set KVM_CAP_HALT_POLL to {DEFAULT_NS} for this VM. A VM that took its \
                 ceiling from the parameter when it was made (5.8 to 6.0) must be started anew."
            );
            let account = guest.account();
            found.push(finding(evidence, guest.whole(), ns, remedy, &account));
        }
    }
    let told = param.is_some() || !found.is_empty();
    let blind = (!told).then(|| "the recording holds no setting of the host".to_owned());
    Judgement { found, blind }
}

fn sum(evidence: &Evidence<'_>) -> Account {
    use crate::account::seen::Fold;
    let mut sum = Account::default();
    for guest in &evidence.guests {
        sum.fold(&guest.account());
    }
    sum
}

/// Time of these polls after their first millisecond.
fn beyond(polls: &LogHist) -> u64 {
    let rows = polls.counts().iter().enumerate();
    rows.fold(0, |sum: u64, (bucket, &count)| {
        let over = bucket_low(bucket).saturating_sub(LIMIT_NS);
        sum.saturating_add(count.saturating_mul(over))
    })
}

fn finding(
    evidence: &Evidence<'_>,
    who: Who,
    ceiling_ns: u64,
    remedy: String,
    account: &Account,
) -> Found {
    let over = beyond(&account.poll_success_ns).saturating_add(beyond(&account.poll_fail_ns));
    let ns_per_s = evidence.per_s(over);
    Found {
        who,
        signature: format!(
            "The ceiling is {}; polls took {} of a CPU after their first millisecond.",
            nanos(ceiling_ns),
            percent(ns_per_s / 1e9)
        ),
        cause: "A wake-up seldom takes more than a tenth of a millisecond: polling longer costs more \
                than it can spare, and an idle guest that ticks each millisecond is polled for ever."
            .to_owned(),
        remedy,
        gain: (account.poll_known > 0).then_some(Gain {
            of: Of::Cpu,
            ns_per_s,
        }),
        sure: if over > 0 {
            Sure::Certain
        } else {
            Sure::Likely
        },
    }
}
