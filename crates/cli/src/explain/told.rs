//! What `tune` says by the same halts, for the rules and for the page.

use haltwise_core::explain::in_guest::{AdvisedInGuest, InGuest};
use haltwise_core::explain::remedy::Advised;

use crate::exit::Failure;
use crate::prices::price::GivenPrice;
use crate::reading::opened::Opened;
use crate::reading::rule;
use crate::recommend::candidates::TuneRequest;
use crate::recommend::guest::view::GuestTuneResult;
use crate::recommend::guest::{Place, stolen};
use crate::recommend::{Recommendation, Recommended, recommend_in_guest};

/// What `tune` says.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) recommendation: Recommendation,
    pub(crate) advised: Advised,
    /// Of a guest that recorded itself, and what else is known of it.
    pub(crate) in_guest: Option<InGuest>,
}

impl Told {
    pub(crate) fn of_host(recommended: &Result<Recommended, Failure>) -> Self {
        Self {
            recommendation: Recommendation::of(recommended),
            advised: (recommended.as_ref()).map_or(Advised::NotAsked, Recommended::advised),
            in_guest: None,
        }
    }

    /// For a guest that recorded itself, with what `tune` says of it in full.
    pub(crate) fn of_guest(
        opened: &Opened,
        request: &TuneRequest,
        polled_ns: u64,
    ) -> (Self, Result<GuestTuneResult, Failure>) {
        let tuned = recommend_in_guest(opened, request, GivenPrice::default(), None);
        let is_haltpoll = rule::governor(opened).as_deref() == Some("haltpoll");
        let in_guest = InGuest {
            params: is_haltpoll.then(|| rule::in_force(opened)),
            stolen_of_wanted: stolen(opened, polled_ns),
            advised: tuned.as_ref().map_or(AdvisedInGuest::NotAsked, advised),
        };
        let told = Self {
            recommendation: Recommendation::in_guest(&tuned),
            advised: Advised::NotAsked,
            in_guest: Some(in_guest),
        };
        (told, tuned)
    }
}

fn advised(tuned: &GuestTuneResult) -> AdvisedInGuest {
    let is_haltpoll = tuned.basis.governor.as_deref() == Some("haltpoll");
    match (tuned.place, tuned.recommended) {
        _ if tuned.verdict == "too-short" => AdvisedInGuest::NotAsked,
        (Place::Guest, Some(to)) => AdvisedInGuest::Set {
            ceiling_ns: to.guest_halt_poll_ns,
            how: match tuned.apply.as_ref().filter(|_| is_haltpoll) {
                Some(apply) => format!("`{apply}` in the guest"),
                None => format!("Boot the guest with `{}`", tuned.command_line.join(" ")),
            },
        },
        (Place::Host, _) => AdvisedInGuest::Host {
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
        _ => AdvisedInGuest::Leave,
    }
}
