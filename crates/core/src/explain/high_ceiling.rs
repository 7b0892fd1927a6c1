//! A ceiling above 1 ms: the vCPU polls through the ticks of an idle guest.
//!
//! The limit is that of the review of dynamic halt polling (D. Matlack, kvm list, 2015-09-01): below
//! 1 ms, since an idle Windows 10 ticks each millisecond, and a ceiling above never lets go.
//!
//! The cost is the time of polls after their first millisecond, for the vCPUs that this ceiling governs: the
//! parameter governs the vCPUs without a ceiling of their own.

use super::prelude::*;
use crate::account::within::Interval;
use crate::hist::{LogHist, bucket_low};

pub(super) const RULE: Rule = Rule {
    id: "ceiling-above-1ms",
    title: "a ceiling above 1 ms",
    source: "D. Matlack's review of dynamic halt polling, kvm list, 2015-09-01",
    look,
};

const LIMIT_NS: u64 = 1_000_000;

fn look(evidence: &Evidence<'_>) -> Judgement {
    let mut found = Vec::new();
    let param = evidence.param(Parameter::HaltPollNs);
    if let Some(ns) = param.filter(|ns| *ns > LIMIT_NS) {
        let mut sum = Account::default();
        for guest in &evidence.guests {
            sum.fold(&governed(guest, CeilingSource::Param));
        }
        found.push(finding(
            evidence,
            (Who::HOST, evidence.interval),
            ns,
            Lever::Parameters,
            &sum,
        ));
    }
    for guest in &evidence.guests {
        for source in [CeilingSource::Cap, CeilingSource::Snapshot] {
            let seats = guest.seats.iter().filter_map(|seat| seat.listed);
            let own = seats.filter(|listed| listed.ceiling_source == source);
            let highest = own.filter_map(|listed| listed.ceiling_ns).max();
            let highest = highest.map(u64::from).filter(|ns| *ns > LIMIT_NS);
            found.extend(highest.map(|ns| {
                let account = governed(guest, source);
                finding(
                    evidence,
                    (guest.whole(), guest.interval),
                    ns,
                    Lever::OwnCeiling,
                    &account,
                )
            }));
        }
    }
    let told = param.is_some() || !found.is_empty();
    let blind = (!told).then(|| "the recording contains no host setting".to_owned());
    Judgement { found, blind }
}

/// The sum of a guest's vCPUs that have their ceiling from there.
fn governed(guest: &Guest<'_>, source: CeilingSource) -> Account {
    let by_it = guest.gather(|seat, account| {
        let listed = seat.listed.map(|listed| listed.ceiling_source);
        let halts = account.ceilings.rows().next_back();
        let halts = halts.map(|(ceiling, _)| ceiling.source);
        // Counts do not tell the ceiling of each halt, the walk over vCPUs does.
        halts.or(listed) == Some(source)
    });
    by_it.map(|(_, account)| account).unwrap_or_default()
}

/// Time of these polls after their first `limit_ns`, and how many lasted longer.
pub(super) fn beyond(polls: &LogHist, limit_ns: u64) -> (u64, u64) {
    polls
        .used()
        .fold((0, 0), |(ns, longer): (u64, u64), (bucket, count)| {
            let over = bucket_low(bucket).saturating_sub(limit_ns);
            let these = if over > 0 { count } else { 0 };
            let over_ns = count.saturating_mul(over);
            (ns.saturating_add(over_ns), longer.saturating_add(these))
        })
}

fn finding(
    evidence: &Evidence<'_>,
    (who, interval): (Who, Interval),
    ceiling_ns: u64,
    lever: Lever,
    account: &Account,
) -> Found {
    let (met_ns, met) = beyond(&account.poll_success_ns, LIMIT_NS);
    let (failed_ns, _) = beyond(&account.poll_fail_ns, LIMIT_NS);
    let over = met_ns.saturating_add(failed_ns);
    let ns_per_s = interval.per_s(over);
    // Each of those that met their wake spared one sleep.
    let latency = account.wake_latency_ns.percentile(0.5);
    let spared = interval.per_s(met) * latency.unwrap_or(0) as f64;
    let remedy = Remedy::host_polling(evidence, Does::HostPollsLess, lever);
    Found {
        who,
        signature: format!(
            "The ceiling is {}; polls took {} of a CPU after their first millisecond.",
            nanos(ceiling_ns),
            percent(ns_per_s / 1e9)
        ),
        cause:
            "A wake-up rarely takes more than 0.1 ms: polling longer costs more than it can save, \
                and for an idle guest with a 1 ms tick KVM polls all the time."
                .to_owned(),
        remedies: vec![remedy.taking(Cost::latency(spared))],
        cost: Some(Cost::cpu(ns_per_s)),
        sure: Sure::Certain,
    }
}
