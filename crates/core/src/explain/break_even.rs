//! Halts shorter than the break-even that slept all the same.
//!
//! A sleep costs at least its wake-up latency; a poll costs the gap. Where the gap is the shorter of
//! the two, polling would have cost less than sleeping, whatever latency is worth: the ski-rental
//! threshold (Karlin and others, SOSP 1991). What switches cost besides is not in a capture, so the
//! true break-even is rather higher, and the count here rather low.
//!
//! A wake-up that waits for a busy CPU is no price of sleeping: polling would take that CPU from
//! somebody. So vCPUs with a median wake-up latency above [`LONG_NS`] are left out, and those whose
//! polls are cut, and all where tasks of the host wait for a CPU.
//!
//! For a window to grow, the whole halt must be shorter than the ceiling: gap and latency, so twice the
//! break-even for the longest of these halts.

use super::evidence::{Evidence, Guest, Seat};
use super::say::{nanos, percent, rate, round_up};
use super::{ENOUGH_HALTS, Found, Gain, HABIT, Judgement, Of, Rule, Sure};
use crate::account::Account;
use crate::account::worth::{NotPolling, Worth, highest_ceiling};
use crate::event::CeilingSource;

pub(super) const RULE: Rule = Rule {
    id: "hlt-below-break-even",
    title: "halts shorter than a wake-up takes, and slept through",
    source: "ski rental: Karlin and others, SOSP 1991; wake-up latency as measured here",
    look,
};

/// A median wake-up latency above that of sleeping itself: the deepest state of Skylake and Ice Lake
/// servers (C6) takes at most 133 and 170 us to leave (`drivers/idle/intel_idle.c`), a switch some 10.
const LONG_NS: u64 = 200_000;

fn look(evidence: &Evidence<'_>) -> Judgement {
    let polls = |account: &Account| account.unknown.poll_ns;
    if let Some(unfit) = evidence.unfit(polls, "the recording does not tell which halts polled") {
        return unfit;
    }
    let pressure = evidence.ledger.host.cpu_pressure();
    if let Some(share) = pressure.filter(|share| *share >= HABIT) {
        return Judgement::blind(format!(
            "some task waited for a CPU for {} of the time: wake-up latencies tell of that wait, not \
             of what sleeping costs",
            percent(share)
        ));
    }
    evidence.each(|guest| of_guest(evidence, guest)).into()
}

/// Halts that slept although their gap was at most the median wake-up latency.
///
/// Gaps of successful polls and of halts that turned back before they slept are short ones too; they
/// are taken off whole.
fn slept_too_soon(account: &Account) -> Option<(u64, u64)> {
    let break_even = account.wake_latency_ns.percentile(0.5)?;
    let short = account.gap_ns.share_up_to(break_even)? * account.gap_ns.count() as f64;
    let not_slept = account.halts.saturating_sub(account.waits) as f64;
    let slept = (short - not_slept).max(0.0);
    Some((whole(slept), break_even))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count of halts, which is at most their number"
)]
fn whole(count: f64) -> u64 {
    count.round() as u64
}

fn is_it(seat: &Seat<'_>, account: &Account) -> bool {
    let explained_elsewhere = seat.is_vetoed()
        || matches!(
            Worth::of(account),
            Worth::NotPolling {
                why: NotPolling::LockedOut,
                ..
            }
        );
    let cut = account.poll_cuts as f64 >= HABIT * account.polled.max(1) as f64;
    let slept = slept_too_soon(account).filter(|(_, break_even)| *break_even <= LONG_NS);
    let slept = slept.map_or(0, |(slept, _)| slept);
    account.halts >= ENOUGH_HALTS
        && !explained_elsewhere
        && !cut
        && account.poll_known.saturating_mul(2) >= account.halts
        && slept as f64 >= HABIT * account.halts as f64
}

fn of_guest(evidence: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
    let (who, account) = guest.gather(is_it)?;
    let (slept, break_even) = slept_too_soon(&account)?;
    let ceiling = highest_ceiling(&account);
    let wanted = round_up(break_even.saturating_mul(2));
    let ceiling_ns = ceiling.map(|ceiling| u64::from(ceiling.ns));
    let in_force = match ceiling_ns {
        Some(0) => "polling is off (ceiling 0)".to_owned(),
        Some(ns) => format!("the ceiling is {}", nanos(ns)),
        None => "the ceiling in force is not known".to_owned(),
    };
    let too_low = ceiling_ns.is_some_and(|ns| ns < wanted);
    let remedy = match ceiling.map(|ceiling| ceiling.source) {
        Some(CeilingSource::Cap) if too_low => format!(
            "Have the VMM set KVM_CAP_HALT_POLL to {wanted} for this VM; `haltwise tune DIR \
             --ceiling-only` weighs that against the CPU it takes."
        ),
        _ if too_low => format!(
            "`haltwise apply --set halt_poll_ns={wanted}ns`; `haltwise tune DIR` weighs that against \
             the CPU it takes."
        ),
        _ => "`haltwise tune DIR`: the ceiling would do, but longer halts between these keep the \
              window small."
            .to_owned(),
    };
    Some(Found {
        signature: format!(
            "{} of {} halts slept although the wake came within {}, the median wake-up latency: {}; \
             {in_force}.",
            percent(slept as f64 / account.halts as f64),
            account.halts,
            nanos(break_even),
            rate(evidence.per_s(slept)),
        ),
        cause: "Each of them gave its CPU away and took longer to wake than it would have polled."
            .to_owned(),
        remedy,
        gain: Some(Gain {
            of: Of::Latency,
            ns_per_s: evidence.per_s(slept) * break_even as f64,
        }),
        sure: match ceiling_ns {
            Some(0) => Sure::Certain,
            Some(_) if too_low => Sure::Likely,
            _ => Sure::Possible,
        },
        who,
    })
}
