//! Rules about polling windows and their ceilings.

use super::LONG_NS;
use super::cost::SHOWN_FROM_NS_PER_S;
use super::prelude::*;
use crate::account::within::Interval;
use crate::account::worth::{Worth, highest_ceiling};
use crate::hist::{LogHist, bucket_low};

/// A sleep costs at least its wake-up latency, a poll costs the gap. Where the gap is the shorter, polling costs less
/// whatever latency is worth: the ski-rental threshold. A capture does not hold the other costs of switches, so that the
/// count is rather low.
///
/// A wake-up that waits for a busy CPU is no price of sleeping: vCPUs with a median wake-up latency above [`LONG_NS`], and
/// vCPUs on CPUs that other tasks want, are left out.
pub(super) const BREAK_EVEN: Rule = Rule {
    id: "hlt-below-break-even",
    title: "sleeps shorter than a wake-up takes",
    source: "ski rental: Karlin and others, SOSP 1991; wake-up latency as measured here",
    look: look_for_break_even,
};

fn look_for_break_even(evidence: &Evidence<'_>) -> Judgement {
    let polls = |account: &Account| account.unknown.poll_ns;
    if let Some(unfit) = evidence.unfit(polls, "which halts polled was not recorded") {
        return unfit;
    }
    let wanted = |account: &Account| match Contention::of(evidence, account) {
        Contention::Wanted(why) => Some(why),
        _ => None,
    };
    let all: Option<Vec<String>> = evidence.vcpus().map(wanted).collect();
    if let Some(why) = all.and_then(|all| all.into_iter().next()) {
        return Judgement::blind(format!(
            "{why}: wake-up latencies include that wait and do not show what sleeping costs"
        ));
    }
    evidence.each(break_even).into()
}

/// Halts that slept although their gap was at most the break-even, the median wake-up latency.
#[derive(Debug, Clone, Copy)]
pub(super) struct TooSoon {
    pub(super) slept: u64,
    pub(super) share: Option<Share>,
    pub(super) break_even_ns: u64,
    /// The mean gap of those within the break-even.
    gap_ns: f64,
}

/// Counts them. Gaps of successful polls and of halts woken before `schedule()` are short ones
/// too; they are taken off whole.
pub(super) fn slept_too_soon(account: &Account) -> Option<TooSoon> {
    let break_even_ns = account.wake_latency_ns.percentile(0.5)?;
    let gaps = account.gap_ns.count() as f64;
    let short = account.gap_ns.share_up_to(break_even_ns)? * gaps;
    let not_slept = account.halts.saturating_sub(account.waits) as f64;
    let slept = whole((short - not_slept).max(0.0));
    let longer_ns = (gaps - short) * break_even_ns as f64;
    let short_ns = account.gap_ns.sum_within(break_even_ns) as f64 - longer_ns;
    Some(TooSoon {
        slept,
        share: Share::of(slept, account.halts),
        break_even_ns,
        gap_ns: (short_ns / short.max(1.0)).clamp(0.0, break_even_ns as f64),
    })
}

impl TooSoon {
    /// Whether it is a habit, of sleeps that wake as fast as sleeping itself allows.
    pub(super) fn is_habit(&self) -> bool {
        self.break_even_ns <= LONG_NS && self.share.is_some_and(|share| share.is_from(HABIT))
    }

    /// The latency that polling would have spared.
    pub(super) fn cost(&self, guest: &Guest<'_>) -> Cost {
        Cost::latency(guest.per_s(self.slept) * self.break_even_ns as f64)
    }

    /// The time that these polls would have taken.
    pub(super) fn takes(&self, guest: &Guest<'_>) -> Cost {
        Cost::cpu(guest.per_s(self.slept) * self.gap_ns)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count of halts, which is at most their number"
)]
fn whole(count: f64) -> u64 {
    count.round() as u64
}

fn sleeps_too_soon(evidence: &Evidence<'_>, seat: &VcpuEvidence<'_>, account: &Account) -> bool {
    let explained_elsewhere = seat.is_vetoed() || Worth::of(account).is_locked_out();
    !explained_elsewhere
        && account.poll_known.saturating_mul(2) >= account.halts
        && slept_too_soon(account).is_some_and(|it| it.is_habit())
        && !Contention::of(evidence, account).is_wanted()
}

fn break_even(evidence: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
    let (who, account) = guest.gather(|seat, account| sleeps_too_soon(evidence, seat, account))?;
    let too_soon = slept_too_soon(&account)?;
    let ceiling = highest_ceiling(&account);
    let ceiling_ns = ceiling.map(|ceiling| u64::from(ceiling.ns));
    let in_force = match ceiling_ns {
        Some(0) => "polling is off (ceiling 0)".to_owned(),
        Some(ns) => format!("the ceiling is {}", nanos(ns)),
        None => "the ceiling in force is unknown".to_owned(),
    };
    // For a window to grow the whole halt must be shorter than the ceiling: gap and latency.
    let too_low = ceiling_ns.is_some_and(|ns| ns < too_soon.break_even_ns.saturating_mul(2));
    let lever = Lever::of(&account);
    let remedy = Remedy::host_polling(evidence, Does::HostPollsMore, lever);
    Some(Found {
        signature: format!(
            "{} of {} halts slept although the wake came within {}, the median wake-up latency: {}; \
             {in_force}.",
            percent(too_soon.share.map_or(0.0, |share| share.share)),
            account.halts,
            nanos(too_soon.break_even_ns),
            rate(guest.per_s(too_soon.slept)),
        ),
        cause: if too_low {
            "Each of them took longer to wake up than it would have polled."
        } else {
            "Each of them took longer to wake up than it would have polled; longer halts between them \
             keep the window small."
        }
        .to_owned(),
        remedies: vec![remedy.taking(too_soon.takes(guest))],
        cost: Some(too_soon.cost(guest)),
        sure: match ceiling_ns {
            Some(0) => Sure::Certain,
            Some(_) if too_low => Sure::Likely,
            _ => Sure::Possible,
        },
        who,
    })
}

/// KVM grows a window if the whole halt, wake-up latency included, was shorter than the ceiling: a window of 0 stays
/// where gaps fit under the ceiling and halts do not. The thresholds are those of [`Worth`].
pub(super) const LOCK_OUT: Rule = Rule {
    id: "lock-out",
    title: "polling locked out by the wake-up latency",
    source: "kvm_vcpu_halt in virt/kvm/kvm_main.c: it compares whole halts with the ceiling",
    look: |evidence| {
        let ceilings = |account: &Account| account.unknown.ceiling_ns;
        evidence.each_halting(ceilings, "ceilings of halts were not recorded", lock_out)
    },
};

fn is_locked_out(account: &Account) -> bool {
    let limit = highest_ceiling(account).map_or(0, |ceiling| u64::from(ceiling.ns));
    Worth::of(account).is_locked_out()
        && gaps_within(account, limit).is_some_and(|share| share.is_from(HABIT))
}

fn lock_out(evidence: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
    // Where growing is off no ceiling would help.
    if evidence.param(Parameter::Grow) == Some(0) {
        return None;
    }
    let (who, account) =
        guest.gather(|seat, account| !seat.is_vetoed() && is_locked_out(account))?;
    let ceiling_ns = u64::from(highest_ceiling(&account)?.ns);
    let within = gaps_within(&account, ceiling_ns)?.share;
    let latency = account.wake_latency_ns.percentile(0.5)?;
    let halts = guest.per_s(account.halts);
    // Time that these gaps would have polled: each gap within the ceiling, and nothing beyond.
    let beyond_ns = (1.0 - within) * account.gap_ns.count() as f64 * ceiling_ns as f64;
    let polled_ns = (account.gap_ns.sum_within(ceiling_ns) as f64 - beyond_ns).max(0.0);
    let takes = Cost::cpu(polled_ns * guest.per_s(1));
    let remedy = Remedy::host_polling(evidence, Does::HostPollsMore, Lever::of(&account));
    Some(Found {
        signature: format!(
            "{} of the gaps are within the ceiling of {} (median gap {}), but gap plus wake-up latency \
             ({} median) is not; {} of {} halts polled.",
            percent(within),
            nanos(ceiling_ns),
            nanos(account.gap_ns.percentile(0.5).unwrap_or(0)),
            nanos(latency),
            account.polled,
            account.halts,
        ),
        cause: format!(
            "KVM compares whole halts with the ceiling, {} of them. Each is too long, so the window \
             stays at 0 and polling never starts. With a ceiling above gap plus latency it would.",
            rate(halts)
        ),
        remedies: vec![remedy.taking(takes)],
        cost: Some(Cost::latency(halts * within * latency as f64)),
        // Where CPUs are wanted, latencies are long for another reason.
        sure: match Contention::of(evidence, &account) {
            Contention::Wanted(_) => Sure::Possible,
            _ => Sure::Certain,
        },
        who,
    })
}

/// An idle Windows 10 ticks each millisecond, and a ceiling above never lets go. The cost is the time of polls after
/// their first millisecond, of the vCPUs that this ceiling governs.
pub(super) const HIGH_CEILING: Rule = Rule {
    id: "ceiling-above-1ms",
    title: "a ceiling above 1 ms",
    source: "D. Matlack's review of dynamic halt polling, kvm list, 2015-09-01",
    look: look_for_high_ceilings,
};

const LIMIT_NS: u64 = 1_000_000;

fn look_for_high_ceilings(evidence: &Evidence<'_>) -> Judgement {
    let mut found = Vec::new();
    let param = evidence.param(Parameter::HaltPollNs);
    if let Some(ns) = param.filter(|ns| *ns > LIMIT_NS) {
        let mut sum = Account::default();
        for guest in &evidence.guests {
            sum.fold(&governed(guest, CeilingSource::Param));
        }
        found.push(high_ceiling(
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
                high_ceiling(
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

fn high_ceiling(
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

/// With 0 a shrink sets the window to 0, and growing back from 10 us to 200 us takes six halts, each a sleep. A load is
/// in bursts if at least two grows follow each shrink (one is the least that any shrink costs), and if a fiftieth of all
/// halts is spent on growing: fewer would not show in the 98th percentile of the wake-ups.
pub(super) const SHRINK_ZERO: Rule = Rule {
    id: "shrink-0-on-bursts",
    title: "shrink 0 on a load in bursts",
    source: "shrink_halt_poll_ns in virt/kvm/kvm_main.c; default 2 since 6.11 (aeb1b22a)",
    look: look_for_shrink_zero,
};

const CLIMBS: u64 = 2;

/// Share of the halts that only grow the window again.
const GROWING: f64 = 0.02;

fn look_for_shrink_zero(evidence: &Evidence<'_>) -> Judgement {
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
    evidence.each(shrink_zero).into()
}

fn is_in_bursts(account: &Account) -> bool {
    account.shrinks > 0
        && account.grows >= account.shrinks.saturating_mul(CLIMBS)
        && Share::of(account.grows, account.halts).is_some_and(|share| share.is_from(GROWING))
}

fn shrink_zero(evidence: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
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

/// Inside the guest all is idle, outside its VMM burns a core: each poll is met by the next tick, timer or packet, so
/// that failed polls do not show it. Polling buys the wake-up latency that was spared.
pub(super) const UNSEEN_POLLING: Rule = Rule {
    id: "unseen-polling",
    title: "an idle guest whose halts the host polls through",
    source: "kvm_vcpu_halt in virt/kvm/kvm_main.c; firecracker#3043, openmediavault-kvm#22",
    look: |evidence| {
        let polls = |account: &Account| account.halts.saturating_sub(account.poll_known);
        evidence.each_halting(
            polls,
            "whether halts polled was not recorded",
            unseen_polling,
        )
    },
};

/// At least this share of the polls is met, with certainty.
const MET: f64 = 0.9;

/// The guest runs for less of the time than this.
const IDLE: f64 = 0.2;

/// And polling takes at least this much of a vCPU's time: more than the guest itself.
const POLLED: f64 = 0.2;

fn unseen_polling(evidence: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
    let span_ns = guest.interval.length_ns().max(1) as f64;
    let (who, account) = guest.gather(|_, account| {
        let runs = 1.0 - account.halted_ns() as f64 / span_ns;
        let polled = account.poll_ns().unwrap_or(0) as f64 / span_ns;
        let met = Share::of(account.successful_polls, account.polled);
        met.is_some_and(|met| met.is_from(MET)) && runs < IDLE && polled >= POLLED
    })?;
    let polled_ns = guest.per_s(account.poll_ns().unwrap_or(0));
    if polled_ns < SHOWN_FROM_NS_PER_S {
        return None;
    }
    let vcpus = who.vcpus.len() as f64;
    let ran = vcpus - guest.per_s(account.halted_ns()) / 1e9;
    let met = guest.per_s(account.successful_polls);
    // Without sleeps here, the wake-up latency is not known: the latency elsewhere on this host stands for it.
    let latencies = [&account.wake_latency_ns, &evidence.total.wake_latency_ns];
    let wakes = latencies.iter().find_map(|it| it.percentile(0.5));
    let spared = match wakes {
        Some(ns) => format!("each spared the guest some {}", nanos(ns)),
        None => "what each spared is not known, since no halt slept".to_owned(),
    };
    let less = Remedy::host_polling(evidence, Does::HostPollsLess, Lever::of(&account));
    Some(Found {
        who,
        signature: format!(
            "Polling took {} of a CPU, the guest's own work {}; {} of the polls were met, {}, and {spared}.",
            percent(polled_ns / 1e9),
            percent(ran.max(0.0)),
            percent(Share::of(account.successful_polls, account.polled).map_or(0.0, |it| it.share)),
            rate(met),
        ),
        cause: "The guest is nearly idle and wakes often; KVM polls through the gaps and shows the VMM as \
                busy. Inside the guest nothing of it can be seen."
            .to_owned(),
        remedies: vec![less.taking(Cost::latency(met * wakes.unwrap_or(0) as f64))],
        cost: Some(Cost::cpu(polled_ns)),
        sure: match Contention::of(evidence, &account) {
            Contention::Wanted(_) => Sure::Certain,
            _ => Sure::Likely,
        },
    })
}
