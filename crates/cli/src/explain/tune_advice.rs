//! Advice of `tune` from the same halts, for the rules and for the page.

use haltwise_core::explain::in_guest::InGuest;
use haltwise_core::explain::remedy::Advised;
use haltwise_core::parameter::Parameter;
use haltwise_core::tune::advice::Verdict;

use crate::exit::Failure;
use crate::reading::opened::Opened;
use crate::reading::recording::Recording;
use crate::reading::rule;
use crate::recommend::Tuned;
use crate::recommend::guest::view::GuestTuneResult;
use crate::recommend::guest::{Place, stolen};
use crate::recommend::recommendation::Summary;

#[derive(Debug)]
pub(crate) struct TuneAdvice {
    pub(crate) recommendation: Summary,
    pub(crate) advised: Advised,
    /// Governor of a guest that recorded itself, and known facts about its host.
    pub(crate) in_guest: Option<InGuest>,
}

impl TuneAdvice {
    pub(crate) fn of(
        tuned: &Result<Tuned, Failure>,
        opened: &Opened,
        recording: &Recording,
    ) -> Self {
        let is_of_host = opened.info().side.is_host();
        let in_guest = (!is_of_host).then(|| in_guest(opened, recording));
        let params = in_guest.as_ref().and_then(|it| it.params);
        Self {
            recommendation: Summary::of(tuned),
            advised: match tuned {
                Ok(Tuned::Host(made)) => made.advised(),
                Ok(Tuned::Guest(made)) => {
                    advised(made, params.map_or(0, |it| it.guest_halt_poll_ns))
                }
                Err(_) => Advised::NotAsked,
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
    let of = &tuned.recommendation;
    match (of.place, of.recommended) {
        _ if of.verdict == Verdict::TooShort => Advised::NotAsked,
        (Some(Place::Guest), Some(to)) => Advised::Set {
            from_ns,
            to_ns: to.get(Parameter::GuestHaltPollNs).unwrap_or(0),
            how: match tuned.apply.as_ref().filter(|_| is_haltpoll) {
                Some(apply) => format!("`{apply}` in the guest"),
                None => format!("Boot the guest with `{}`", tuned.command_line.join(" ")),
            },
        },
        (Some(Place::Host), _) => Advised::Host {
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
