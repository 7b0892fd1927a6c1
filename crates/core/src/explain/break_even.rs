//! Halts shorter than the break-even that slept all the same.
//!
//! A sleep costs at least its wake-up latency; a poll costs the gap. Where the gap is the shorter of
//! the two, polling would have cost less than sleeping, whatever latency is worth: the ski-rental
//! threshold (Karlin and others, SOSP 1991). The other costs of switches are not in a capture, so the
//! true break-even is rather higher, and the count here rather low.
//!
//! A wake-up that waits for a busy CPU is no price of sleeping: polling would take that CPU from
//! another task. So vCPUs with a median wake-up latency above [`LONG_NS`] are left out, and those whose CPUs
//! other tasks want.

use super::LONG_NS;
use super::prelude::*;
use crate::account::worth::{Worth, highest_ceiling};

pub(super) const RULE: Rule = Rule {
    id: "hlt-below-break-even",
    title: "sleeps shorter than a wake-up takes",
    source: "ski rental: Karlin and others, SOSP 1991; wake-up latency as measured here",
    look,
};

fn look(evidence: &Evidence<'_>) -> Judgement {
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
    evidence.each(of_guest).into()
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

fn is_it(evidence: &Evidence<'_>, seat: &VcpuEvidence<'_>, account: &Account) -> bool {
    let explained_elsewhere = seat.is_vetoed() || Worth::of(account).is_locked_out();
    !explained_elsewhere
        && account.poll_known.saturating_mul(2) >= account.halts
        && slept_too_soon(account).is_some_and(|it| it.is_habit())
        && !Contention::of(evidence, account).is_wanted()
}

fn of_guest(evidence: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
    let (who, account) = guest.gather(|seat, account| is_it(evidence, seat, account))?;
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
