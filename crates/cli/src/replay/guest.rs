//! Value of a policy of the guest, in words: what it saves, from which price of an exit it costs less
//! than polling in the host, and how far it polled on where other tasks wanted the CPU.

use super::view::{GuestPolling, HaltCosts, HaltGroup, PlayedPolicy};
use crate::number::{count, nanos_f64, percent};
use crate::prices::price::Price;

/// Value of the policy, in words; `None` for a policy of the host.
pub(super) fn worth(group: &HaltGroup, played: &PlayedPolicy, price: &Price) -> Option<String> {
    let in_guest = played.in_guest.as_ref()?;
    let row = &played.from_zero;
    let spared = format!(
        "{} polls in the guest: {} exits instead of {}{}.",
        played.policy,
        count(row.hlt_exits + row.timer_exits),
        count(group.halts),
        ipis(group, row),
    );
    let sentences = [
        Some(spared),
        break_even(in_guest, price),
        contended(group, row),
    ];
    let said: Vec<String> = sentences.into_iter().flatten().collect();
    Some(said.join(" "))
}

fn ipis(group: &HaltGroup, row: &HaltCosts) -> String {
    // Under every policy of the host each wake by another CPU needs its IPI. A guest that was recorded may have
    // polled, and spared some.
    let of_host = group.played.iter().find(|it| it.in_guest.is_none());
    let all = of_host.map_or(group.recorded.ipis, |it| it.from_zero.ipis);
    if all < row.ipis || all == 0 {
        return String::new();
    }
    format!(", {} IPIs instead of {}", count(row.ipis), count(all))
}

fn break_even(in_guest: &GuestPolling, price: &Price) -> Option<String> {
    let host = in_guest.against.as_ref()?;
    let ns = in_guest.exit_break_even_ns?;
    let than = format!("It costs less than {host}, the cheapest policy of the host here,");
    if ns <= 0.0 {
        return Some(format!("{than} whatever an exit costs."));
    }
    let known = match price.exit_cpu_ns {
        None => "; the cost of an exit is unknown",
        Some(_) => "",
    };
    let ns = nanos_f64(ns);
    Some(format!(
        "{than} if an exit (or an IPI) takes more than {ns}{known}."
    ))
}

fn contended(group: &HaltGroup, row: &HaltCosts) -> Option<String> {
    let share = percent(row.contended_polls as f64, group.halts as f64);
    (row.contended_polls > 0).then(|| {
        format!(
            "In {share} of the halts it goes on polling when another task wants the CPU. KVM cannot \
             end a guest's poll, so that task has to wait, and wake-ups may be later than shown here."
        )
    })
}
