//! Advice of `tune` from the same halts, for the rules and for the page.

use haltwise_core::explain::in_guest::InGuest;
use haltwise_core::explain::remedy::Advised;
use haltwise_core::parameter::Parameter;
use haltwise_core::tune::advice::Verdict;

use crate::reading::opened::Opened;
use crate::reading::recording::Recording;
use crate::reading::rule;
use crate::recommend::guest::view::GuestTuneResult;
use crate::recommend::guest::{Place, stolen};
use crate::recommend::{Recommendation, Tuned};

#[derive(Debug)]
pub(crate) struct TuneAdvice {
    pub(crate) recommendation: Recommendation,
    pub(crate) advised: Advised,
    /// Governor of a guest that recorded itself, and known facts about its host.
    pub(crate) in_guest: Option<InGuest>,
}

impl TuneAdvice {
    pub(crate) fn of(tuned: &Tuned, opened: &Opened, recording: &Recording) -> Self {
        let in_guest = matches!(tuned, Tuned::Guest(_)).then(|| in_guest(opened, recording));
        let params = in_guest.as_ref().and_then(|it| it.params);
        Self {
            recommendation: Recommendation::of(tuned),
            advised: match tuned {
                Tuned::Host(Ok(made)) => made.advised(),
                Tuned::Guest(Ok(made)) => {
                    advised(made, params.map_or(0, |it| it.guest_halt_poll_ns))
                }
                Tuned::Host(Err(_)) | Tuned::Guest(Err(_)) => Advised::NotAsked,
            },
            in_guest,
        }
    }
}

fn in_guest(opened: &Opened, recording: &Recording) -> InGuest {
    let is_haltpoll = rule::governor(opened).as_deref() == Some("haltpoll");
    let polled_ns = recording.ledger.total().poll_ns().unwrap_or(0);
    InGuest {
        params: is_haltpoll.then(|| rule::in_force(opened)),
        stolen_of_wanted: stolen(opened, polled_ns),
    }
}

fn advised(tuned: &GuestTuneResult, from_ns: u32) -> Advised {
    let is_haltpoll = tuned.basis.governor.as_deref() == Some("haltpoll");
    match (tuned.place, tuned.recommended) {
        _ if tuned.verdict == Verdict::TooShort => Advised::NotAsked,
        (Place::Guest, Some(to)) => Advised::Set {
            from_ns,
            to_ns: to.get(Parameter::GuestHaltPollNs).unwrap_or(0),
            how: match tuned.apply.as_ref().filter(|_| is_haltpoll) {
                Some(apply) => format!("`{apply}` in the guest"),
                None => format!("Boot the guest with `{}`", tuned.command_line.join(" ")),
            },
        },
        (Place::Host, _) => Advised::Host {
            how: match tuned.host_commands.split_last() {
                Some((on_host, [])) => format!("`{on_host}` on the host"),
                Some((on_host, in_guest)) => {
                    format!(
                        "`{}` in the guest, then `{on_host}` on the host",
                        in_guest.join("; ")
                    )
                }
                None => "Poll in the host".to_owned(),
            },
        },
        _ => Advised::Leave,
    }
}
