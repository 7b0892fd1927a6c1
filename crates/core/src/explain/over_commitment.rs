//! Polling where other tasks want the CPU.
//!
//! KVM stops a poll as soon as another task is runnable on its CPU (`kvm_vcpu_can_poll`:
//! `single_task_running`), so cut polls are counted evidence of more work than CPUs. A fifth of the
//! polls, or somebody waiting for a CPU for a fifth of the time, is a habit and no accident. IBM's
//! network study found polling to do harm where CPUs are highly over-committed.

use super::evidence::{Evidence, Guest};
use super::say::percent;
use super::{ENOUGH_HALTS, Found, Gain, HABIT, Judgement, Of, Rule, Sure};
use crate::account::Account;

pub(super) const RULE: Rule = Rule {
    id: "over-committed-polling",
    title: "polling on CPUs that others want",
    source: "kvm_vcpu_can_poll in include/linux/kvm_host.h; IBM, KVM network study",
    look,
};

/// From this share of one CPU on, polling is worth a word. KVM cuts a poll at once when another task
/// comes, so many cut polls may have taken next to nothing from anybody.
const POLLED: f64 = 0.01;

fn look(evidence: &Evidence<'_>) -> Judgement {
    let polls = |account: &Account| account.unknown.poll_ns;
    if let Some(unfit) = evidence.unfit(polls, "the recording does not tell which halts polled") {
        return unfit;
    }
    evidence.each(|guest| of_guest(evidence, guest)).into()
}

fn cut_share(account: &Account) -> f64 {
    account.poll_cuts as f64 / account.polled.max(1) as f64
}

fn of_guest(evidence: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
    let pressure = evidence.ledger.host.cpu_pressure();
    let pressed = pressure.is_some_and(|share| share >= HABIT);
    let (who, account) = guest
        .gather(|_, account| account.polled > 0 && (pressed || cut_share(account) >= HABIT))?;
    if account.polled < ENOUGH_HALTS {
        return None;
    }
    let poll_ns = account.poll_ns()?;
    let polled = evidence.per_s(poll_ns) / 1e9;
    let cut = cut_share(&account);
    if polled < POLLED {
        return None;
    }
    let waited = match pressure {
        Some(share) => format!(
            "some task of the host waited for a CPU for {} of the time",
            percent(share)
        ),
        None => "how long tasks waited for a CPU is not known".to_owned(),
    };
    Some(Found {
        who,
        signature: format!(
            "{} of the polls were cut because another task wanted the CPU; {waited}; polling took {} \
             of a CPU.",
            percent(cut),
            percent(polled),
        ),
        cause: "There are more runnable vCPUs and tasks than CPUs: what one vCPU polls, another \
                waits for, and its wake-up latency grows."
            .to_owned(),
        remedy: "Fewer vCPUs on these CPUs, or no polling: `haltwise apply --set halt_poll_ns=0`."
            .to_owned(),
        gain: Some(Gain {
            of: Of::Cpu,
            ns_per_s: evidence.per_s(poll_ns),
        }),
        sure: match (cut >= HABIT, pressed) {
            (true, true) => Sure::Certain,
            (true, false) => Sure::Likely,
            (false, _) => Sure::Possible,
        },
    })
}
