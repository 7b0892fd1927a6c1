//! Sentences: what an account says about polling, and who set a ceiling.

use haltwise_core::account::worth::{NotPolling, Worth};
use haltwise_core::event::CeilingSource;

use super::number::{nanos, nanos_f64, percent, scaled, share, three_digits};
use super::view::{AccountView, CeilingView, VmView};

/// Does polling pay here? In one or two sentences.
pub(crate) fn worth(account: &AccountView) -> String {
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
        Worth::NotPolling { why, gaps_within } => not_polling(account, why, gaps_within),
        Worth::Polling {
            caught,
            cost_ns,
            spared_ns,
            price,
        } => {
            let caught = format!(
                "Polling caught {} of the wakes. Each wake caught cost {} of CPU",
                share(caught),
                nanos_f64(cost_ns)
            );
            match (spared_ns, price) {
                (Some(spared), Some(price)) => format!(
                    "{} {caught} and spared a sleep that takes {} to wake from (median): at most \
                     {} ns of CPU for each ns of latency.",
                    pays(price),
                    nanos(spared),
                    three_digits(price)
                ),
                _ => format!(
                    "{caught}; what a sleep would have cost instead cannot be told, for none was \
                     seen."
                ),
            }
        }
    }
}

/// The weights of DESIGN's goals: balanced takes a ns of CPU for a ns of latency, latency takes ten.
fn pays(price: f64) -> &'static str {
    if price <= 1.0 {
        "Polling pays here."
    } else if price <= 10.0 {
        "Polling pays here only where latency matters more than CPU."
    } else {
        "Polling hardly pays here."
    }
}

fn not_polling(account: &AccountView, why: NotPolling, gaps_within: Option<f64>) -> String {
    let ceiling = account.ceilings.last().map_or(0, |ceiling| ceiling.ns);
    let ceiling = nanos(u64::from(ceiling));
    let gaps = gaps_within.map_or_else(|| "an unknown share".to_owned(), share);
    match why {
        NotPolling::Off => match short_gaps(account) {
            Some(short) => format!("Polling is off: the ceiling is 0. {short}"),
            None => "Polling is off: the ceiling is 0.".to_owned(),
        },
        NotPolling::GapsTooLong => format!(
            "Nothing is polled, and little could be caught: only {gaps} of the gaps are within the \
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
        [] => listed_ceilings(vm),
        [only] => one_ceiling(only.ns, only.source),
        more => {
            let all: u64 = more.iter().map(|ceiling| ceiling.halts).sum();
            let told: Vec<String> = more
                .iter()
                .take(3)
                .map(|ceiling| {
                    format!(
                        "{} for {} of halts",
                        one_ceiling(ceiling.ns, ceiling.source),
                        percent(ceiling.halts as f64, all as f64)
                    )
                })
                .collect();
            let rest = match more.len() - told.len() {
                0 => String::new(),
                n => format!(", and {n} more"),
            };
            format!("changed: {}{rest}", told.join(", "))
        }
    }
}

/// What the vCPUs themselves said when the VM was looked at, where halts do not tell.
fn listed_ceilings(vm: &VmView) -> String {
    let mut listed: Vec<(u32, CeilingSource)> = Vec::new();
    for vcpu in &vm.vcpus {
        if let Some(ns) = vcpu.ceiling_ns {
            listed.push((ns, vcpu.ceiling_source));
        }
    }
    listed.dedup();
    match listed[..] {
        [] => "not known".to_owned(),
        [(ns, source), ..] => one_ceiling(ns, source),
    }
}

fn one_ceiling(ns: u32, source: CeilingSource) -> String {
    format!("{} ({})", nanos(u64::from(ns)), ceiling_source(source))
}

/// Who set a ceiling.
pub(crate) fn ceiling_source(source: CeilingSource) -> &'static str {
    match source {
        CeilingSource::Param => "module parameter",
        CeilingSource::Cap => "the VM's own cap",
        CeilingSource::Snapshot => "fixed when the VM was made",
        CeilingSource::Unknown => "set by whom is not known",
    }
}

/// `3 vCPUs`, `1 vCPU`.
pub(crate) fn plural(n: usize, one: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{} {one}{s}", scaled(n as f64))
}
