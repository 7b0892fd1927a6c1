//! Sentences: what an account says about polling, and under which ceilings it was.

use haltwise_core::account::worth::{NotPolling, Worth};
use haltwise_core::event::CeilingSource;
use haltwise_core::explain::HABIT;
use haltwise_core::stats::Share;
use haltwise_core::stats::total;

use super::quality::is_paused;
use super::view::{AccountFigures, CeilingFigures, ReportedVm};
use crate::number::{count, nanos, nanos_f64, percent, share, three_digits};
use crate::words::{bound, capitalised, ceiling_source};

/// Below this share of the wakes, it matters little what polling costs or spares.
const HARDLY: f64 = 0.05;

/// A median wake-up latency that no mere switch of tasks takes.
const LONG_LATENCY_NS: u64 = 100_000;

/// Does polling pay here? In a few sentences. `vetoed`: the guest switched polling off.
pub(crate) fn verdict(account: &AccountFigures, vetoed: bool) -> String {
    let mut sentences = vec![worth(account, vetoed)];
    sentences.extend(preempted(account).map(|part| {
        let part = share(part);
        format!("{part} of the polls were preempted by another task: the host is overcommitted.")
    }));
    sentences.extend(latency(account));
    sentences.join(" ")
}

/// Remarks of a report of many VMs on one of them, in the same words for all VMs concerned.
pub(crate) fn concerns(vm: &ReportedVm) -> Vec<String> {
    let account = &vm.account;
    let mut said = Vec::new();
    if let Some(reason) = &vm.not_observable {
        said.push(format!(
            "not observable (this does not mean idle): {reason}"
        ));
    } else if is_paused(vm) {
        said.push("not running: paused, not started, or stopped after an error".to_owned());
    } else if account.halts == 0 {
        said.push("no halts".to_owned());
    }
    if account.halts == 0 {
        return said;
    }
    let vetoed = vm.vcpus.iter().any(|vcpu| vcpu.guest_veto == Some(true));
    said.push(in_short(account, vetoed).to_owned());
    if preempted(account).is_some() {
        said.push("polls are preempted: the host is overcommitted".to_owned());
    }
    if waits_for_cpus(account) {
        said.push("woken vCPUs wait for a CPU".to_owned());
    }
    said
}

fn in_short(account: &AccountFigures, vetoed: bool) -> &'static str {
    match account.worth {
        Worth::NoHalts => "no halts",
        Worth::Unknown | Worth::Polling { price: None, .. } => "unknown whether polling pays",
        Worth::InVain { .. } => "polling does not pay: no poll was successful",
        Worth::NotPolling { .. } if vetoed => "the guest disabled host polling",
        Worth::NotPolling { why, .. } => match why {
            NotPolling::Off => "polling is off: the ceiling is 0",
            NotPolling::GapsTooLong => "no halt polls, and a poll would catch few wakes",
            NotPolling::LockedOut => {
                "polling is locked out: gap plus wake-up latency exceeds the ceiling"
            }
            NotPolling::Other => "hardly any halt polls",
        },
        Worth::Polling {
            caught,
            price: Some(price),
            ..
        } if caught < HARDLY && price <= 10.0 => "polling hardly matters",
        Worth::Polling {
            price: Some(price), ..
        } => pays(price),
    }
}

/// The share of polls that were preempted, where that is more than chance.
fn preempted(account: &AccountFigures) -> Option<f64> {
    let preempted = Share::of(account.poll.cut?, account.poll.polled)?;
    preempted.is_from(HABIT).then_some(preempted.share)
}

fn latency(account: &AccountFigures) -> Option<String> {
    waits_for_cpus(account).then(|| {
        format!(
            "{} of the halted time is wake-up latency: woken vCPUs wait for a CPU.",
            share(late(account))
        )
    })
}

fn late(account: &AccountFigures) -> f64 {
    account.parts.wake_latency_ns as f64 / account.halted_ns.max(1) as f64
}

fn waits_for_cpus(account: &AccountFigures) -> bool {
    let median = account.wake_latency_ns.map(|spread| spread.p50);
    median > Some(LONG_LATENCY_NS) && late(account) > 0.5
}

fn worth(account: &AccountFigures, vetoed: bool) -> String {
    match account.worth {
        Worth::NoHalts => "No halt was seen.".to_owned(),
        Worth::Unknown if account.poll.successful > 0 => format!(
            "Unknown whether polling pays: {} successful polls were recorded, failed polls were not.",
            count(account.poll.successful)
        ),
        Worth::Unknown => {
            "Unknown whether polling pays: the time polled was not recorded.".to_owned()
        }
        Worth::InVain { poll_ns } => format!(
            "Polling does not pay here: {}{} of CPU went into it, and no poll was successful.",
            bound(account.poll.bound),
            nanos(poll_ns)
        ),
        Worth::NotPolling { .. } if vetoed => {
            "KVM does not poll: the guest disabled host polling (MSR_KVM_POLL_CONTROL).".to_owned()
        }
        Worth::NotPolling { why, gaps_within } => not_polling(account, why, gaps_within),
        Worth::Polling {
            caught,
            cost_ns,
            spared_ns,
            price,
        } => {
            let at_most = bound(account.poll.bound);
            let each = format!(
                "Each successful poll cost {at_most}{} of CPU",
                nanos_f64(cost_ns)
            );
            let (Some(spared), Some(price)) = (spared_ns, price) else {
                let why = match account.waits {
                    0 => "no halt slept",
                    _ => "wake-up latency was not recorded",
                };
                return format!(
                    "Polls were successful at {} of the halts. {each}; what a sleep would have cost is unknown: \
                     {why}.",
                    share(caught)
                );
            };
            let first = if caught < HARDLY && price <= 10.0 {
                "Polling hardly matters: polls".to_owned()
            } else {
                format!("{}. Polls", capitalised(pays(price)))
            };
            format!(
                "{first} were successful at {} of the halts. {each} and avoided a sleep with a wake-up latency of {} \
                 (median): at most {} ns of CPU for each ns of latency.",
                share(caught),
                nanos(spared),
                three_digits(price)
            )
        }
    }
}

/// A balanced goal gives a ns of CPU for a ns of latency; one that wants latency alone gives ten.
fn pays(price: f64) -> &'static str {
    if price <= 1.0 {
        "polling pays"
    } else if price <= 10.0 {
        "polling pays only where latency matters more than CPU"
    } else {
        "polling hardly pays"
    }
}

fn not_polling(account: &AccountFigures, why: NotPolling, gaps_within: Option<f64>) -> String {
    let ceiling = account.ceilings.last().map_or(0, |ceiling| ceiling.ns);
    let ceiling = nanos(u64::from(ceiling));
    let gaps = match gaps_within {
        None => "an unknown share".to_owned(),
        Some(none) if none <= 0.0 => "none".to_owned(),
        Some(part) => share(part),
    };
    match why {
        NotPolling::Off => {
            let short = short_gaps(account).unwrap_or_default();
            format!("Polling is off: the ceiling is 0.{short}")
        }
        NotPolling::GapsTooLong => format!(
            "No halt polls, and a poll would catch few wakes: {gaps} of the gaps are within the \
             ceiling of {ceiling}."
        ),
        NotPolling::LockedOut => format!(
            "Polling is locked out: {gaps} of the gaps are within the ceiling of {ceiling}, but gap \
             plus wake-up latency is longer. KVM compares the whole halt with the ceiling, so the \
             window never grows from 0."
        ),
        NotPolling::Other if account.ceilings.is_empty() => {
            "Hardly any halt polls; the ceiling in force is unknown.".to_owned()
        }
        NotPolling::Other => format!(
            "Hardly any halt polls, although {gaps} of the gaps are within the ceiling of {ceiling}: \
             the guest may have disabled host polling, or growing is disabled."
        ),
    }
}

/// Share of the gaps that a poll of about 50 us could cover, from the histogram of gaps.
fn short_gaps(account: &AccountFigures) -> Option<String> {
    const SHORT_NS: u64 = 1 << 16;
    let rows = &account.gap_histogram;
    let all = total(rows.iter().map(|row| row.count));
    let short = rows.iter().filter(|row| row.high_ns < SHORT_NS);
    let short = total(short.map(|row| row.count));
    (all > 0).then(|| {
        format!(
            " {} of the gaps are shorter than {}.",
            percent(short as f64, all as f64),
            nanos(SHORT_NS)
        )
    })
}

/// `200 us (module parameter)`, or several with their shares.
pub(crate) fn ceilings(vm: &ReportedVm) -> String {
    let mut seen: Vec<&CeilingFigures> = vm.account.ceilings.iter().collect();
    seen.sort_by_key(|ceiling| std::cmp::Reverse(ceiling.halts));
    match &seen[..] {
        [] => "not known".to_owned(),
        [only] => one_ceiling(only.ns, only.source),
        more => {
            let all = total(more.iter().map(|ceiling| ceiling.halts));
            let one = |ceiling: &&CeilingFigures| {
                let told = one_ceiling(ceiling.ns, ceiling.source);
                match ceiling.halts {
                    0 => told,
                    n => format!("{told} for {} of halts", percent(n as f64, all as f64)),
                }
            };
            let told: Vec<String> = more.iter().take(3).map(one).collect();
            let rest = match more.len() - told.len() {
                0 => String::new(),
                n => format!(", and {n} more"),
            };
            format!("several: {}{rest}", told.join(", "))
        }
    }
}

fn one_ceiling(ns: u32, source: CeilingSource) -> String {
    format!("{} ({})", nanos(u64::from(ns)), ceiling_source(source))
}

#[cfg(test)]
mod test {
    use haltwise_core::account::Account;
    use haltwise_core::event::{Halt, HaltCounts};
    use haltwise_core::hist::LogHist;

    use super::*;
    use crate::report::build::{Time, account_view};

    fn says(account: &Account) -> String {
        verdict(
            &account_view(account, &Time::of(account.parts, 1_000_000_000, 1)),
            false,
        )
    }

    /// Polls that were preempted, and as many that met their wake.
    fn polls(preempted: u64, met: u64) -> Account {
        let mut account = Account::default();
        for nth in 0..preempted + met {
            account.halt(&Halt {
                halt_ns: 60_000,
                waited: nth < preempted,
                poll_ns: Some(20_000),
                window_ns: Some(50_000),
                wake_latency_ns: Some(if nth < preempted { 5_000 } else { 0 }),
                poll_cut: Some(nth < preempted),
                ..Halt::default()
            });
        }
        account
    }

    #[test]
    fn a_handful_of_preempted_polls_is_no_overcommitted_host() {
        let overcommitted = |preempted, met| says(&polls(preempted, met)).contains("overcommitted");
        assert!(!overcommitted(1, 0) && !overcommitted(30, 60) && !overcommitted(22, 80));
        assert!(overcommitted(40, 60) && overcommitted(1_000, 0));
    }

    /// Stats mode tells how many halts slept, and of none how late it woke.
    #[test]
    fn sleeps_of_unknown_latency_are_not_said_to_be_none() {
        let hist = |ns, count| {
            let mut hist = LogHist::default();
            (0..count).for_each(|_| hist.record(ns));
            hist
        };
        let counted = |waited| {
            let mut account = Account::default();
            account.counts(&HaltCounts {
                interval_ns: 1_000_000_000,
                halts: 1_000,
                waited,
                polled: Some(1_000),
                successful_polls: Some(1_000 - waited),
                halt_ns: hist(50_000, 1_000),
                poll_success_ns: hist(20_000, 1_000 - waited),
                poll_fail_ns: hist(10_000, waited),
                ..HaltCounts::default()
            });
            says(&account)
        };
        let some = counted(259);
        assert!(some.contains("wake-up latency was not recorded"), "{some}");
        assert!(counted(0).contains("no halt slept"), "{}", counted(0));
    }
}
