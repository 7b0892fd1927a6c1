//! Sentences: what an account says about polling, and under which ceilings it was.

use haltwise_core::account::worth::{NotPolling, Worth};
use haltwise_core::event::CeilingSource;

use super::view::{AccountView, CeilingView, VmView};
use crate::number::{nanos, nanos_f64, percent, share, three_digits};
use crate::words::ceiling_source;

/// Below this share of the wakes, it matters little what polling costs or spares.
const HARDLY: f64 = 0.05;

/// From this share of cut polls on, the host has too few CPUs for its vCPUs.
const MANY_CUTS: f64 = 0.2;

/// A median wake-up latency that no mere switch of tasks takes.
const LONG_LATENCY_NS: u64 = 100_000;

/// Does polling pay here? In a few sentences. `vetoed`: the guest switched polling off.
pub(crate) fn verdict(account: &AccountView, vetoed: bool) -> String {
    let mut sentences = vec![worth(account, vetoed)];
    sentences.extend(cuts(account));
    sentences.extend(latency(account));
    sentences.join(" ")
}

fn cuts(account: &AccountView) -> Option<String> {
    let polled = account.poll.polled.max(1);
    let cut = account.poll.cut? as f64 / polled as f64;
    (cut > MANY_CUTS).then(|| {
        format!(
            "{} of the polls were cut because another task wanted the CPU: more wants to run here \
             than there are CPUs.",
            share(cut)
        )
    })
}

fn latency(account: &AccountView) -> Option<String> {
    let median = account.wake_latency_ns?.p50;
    let part = account.parts.wake_latency_ns as f64 / account.halted_ns.max(1) as f64;
    (median > LONG_LATENCY_NS && part > 0.5).then(|| {
        format!(
            "{} of the halted time is wake-up latency: vCPUs that were woken wait for a CPU.",
            share(part)
        )
    })
}

fn worth(account: &AccountView, vetoed: bool) -> String {
    match account.worth {
        Worth::NoHalts => "No halt was seen.".to_owned(),
        Worth::Unknown => {
            "Whether polling pays cannot be told: the halts do not say how long they polled."
                .to_owned()
        }
        Worth::InVain { poll_ns } => format!(
            "Polling does not pay here: {} of CPU went into it, and no poll caught a wake.",
            nanos(poll_ns)
        ),
        Worth::NotPolling { .. } if vetoed => {
            "Nothing is polled: the guest switched host polling off.".to_owned()
        }
        Worth::NotPolling { why, gaps_within } => not_polling(account, why, gaps_within),
        Worth::Polling {
            caught,
            cost_ns,
            spared_ns,
            price,
        } => {
            let each = format!("Each wake caught cost {} of CPU", nanos_f64(cost_ns));
            let (Some(spared), Some(price)) = (spared_ns, price) else {
                return format!(
                    "Polling caught {} of the wakes. {each}; what a sleep would have cost instead \
                     cannot be told, for none was seen.",
                    share(caught)
                );
            };
            let caught = if caught < HARDLY && price <= 10.0 {
                format!(
                    "Polling hardly matters here: it caught {} of the wakes.",
                    share(caught)
                )
            } else {
                format!("{}. It caught {} of the wakes.", pays(price), share(caught))
            };
            format!(
                "{caught} {each} and spared a sleep that takes {} to wake from (median): at most \
                 {} ns of CPU for each ns of latency.",
                nanos(spared),
                three_digits(price)
            )
        }
    }
}

/// A balanced goal gives a ns of CPU for a ns of latency; one that wants latency alone gives ten.
fn pays(price: f64) -> &'static str {
    if price <= 1.0 {
        "Polling pays here"
    } else if price <= 10.0 {
        "Polling pays here only where latency matters more than CPU"
    } else {
        "Polling hardly pays here"
    }
}

fn not_polling(account: &AccountView, why: NotPolling, gaps_within: Option<f64>) -> String {
    let ceiling = account.ceilings.last().map_or(0, |ceiling| ceiling.ns);
    let ceiling = nanos(u64::from(ceiling));
    let gaps = match gaps_within {
        None => "an unknown share".to_owned(),
        Some(none) if none <= 0.0 => "none".to_owned(),
        Some(part) => share(part),
    };
    match why {
        NotPolling::Off => match short_gaps(account) {
            Some(short) => format!("Polling is off: the ceiling is 0. {short}"),
            None => "Polling is off: the ceiling is 0.".to_owned(),
        },
        NotPolling::GapsTooLong => format!(
            "Nothing is polled, and there is little to catch: {gaps} of the gaps are within the \
             ceiling of {ceiling}."
        ),
        NotPolling::LockedOut => format!(
            "Polling is locked out: {gaps} of the gaps are within the ceiling of {ceiling}, but \
             with the wake-up latency the halts are longer than it, and KVM judges whole halts, so \
             the window never grows from 0. A ceiling above gap and latency would let it start."
        ),
        NotPolling::Other if account.ceilings.is_empty() => {
            "Hardly any halt polls; the ceiling in force is not known.".to_owned()
        }
        NotPolling::Other => format!(
            "Hardly any halt polls, although {gaps} of the gaps are within the ceiling of \
             {ceiling}: the guest may have switched polling off, or growing is disabled."
        ),
    }
}

/// What a poll of 50 us could reach, from the histogram of gaps.
fn short_gaps(account: &AccountView) -> Option<String> {
    const SHORT_NS: u64 = 1 << 16;
    let rows = &account.gap_histogram;
    let all: u64 = rows.iter().map(|row| row.count).sum();
    let short = rows.iter().filter(|row| row.high_ns < SHORT_NS);
    let short: u64 = short.map(|row| row.count).sum();
    (all > 0).then(|| {
        format!(
            "{} of the gaps are shorter than {}.",
            percent(short as f64, all as f64),
            nanos(SHORT_NS)
        )
    })
}

/// `200 us (module parameter)`, or several with their shares.
pub(crate) fn ceilings(vm: &VmView) -> String {
    let mut seen: Vec<&CeilingView> = vm.account.ceilings.iter().collect();
    seen.sort_by_key(|ceiling| std::cmp::Reverse(ceiling.halts));
    match &seen[..] {
        [] => "not known".to_owned(),
        [only] => one_ceiling(only.ns, only.source),
        more => {
            let all: u64 = more.iter().map(|ceiling| ceiling.halts).sum();
            let one = |ceiling: &&CeilingView| {
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
