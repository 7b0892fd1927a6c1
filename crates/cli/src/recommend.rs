//! The recommendation for a capture: one answer, for which `tune`, `report` and the page ask, so that
//! they have one figure for each setting.
//!
//! | file | holds |
//! |---|---|
//! | [`caps`] | ceilings of VMs, and whether they go into the plan |
//! | [`candidates`] | from a capture's halts to the search and what it found |
//! | [`counted`] | the same where only histograms were kept |
//! | [`goal`] | what latency is worth, by name or number |
//! | [`guest`] | the same for a capture of a guest, and its governor |
//! | [`reach`] | vCPUs that no parameter of the host reaches |
//! | [`threads`] | the search's work on all CPUs |
//! | [`view`] | what is recommended, as data |
//! | [`say`], [`compare`], [`basis`] | the same in words: the reason, what else there is, what it rests on |
//! | [`whatif`] | the grid of settings that the page shows |

pub(crate) mod basis;
pub(crate) mod candidates;
pub(crate) mod caps;
pub(crate) mod compare;
pub(crate) mod counted;
pub(crate) mod goal;
pub(crate) mod guest;
pub(crate) mod reach;
pub(crate) mod say;
pub(crate) mod threads;
pub(crate) mod view;
pub(crate) mod whatif;

use anyhow::anyhow;
use haltwise_capture::note::Note;
use haltwise_core::explain::remedy::Advised;
use haltwise_core::parameter::{Parameter, Values};
use haltwise_core::stats::Interval;
use haltwise_core::tune::advice::Verdict;
use haltwise_core::tune::candidates::Reach;
use serde::Serialize;

use self::candidates::{Candidates, HaltSink, TuneRequest};
use self::counted::Histograms;
use self::guest::joined::Joined;
use self::view::{SettingPoint, TuneResult};
use crate::exit::{Exit, Failure};
use crate::plan::TuneGoal;
use crate::prices::price::GivenPrice;
use crate::reading::opened::Opened;
use crate::reading::pass::{PassEnds, Sink, pass};
use crate::recommend::guest::Place;
use crate::recommend::guest::view::GuestTuneResult;

pub(crate) const SCHEMA: u32 = 1;

#[derive(Debug)]
pub(crate) struct Recommended {
    pub(crate) view: TuneResult,
    /// The search behind it, where single halts were recorded.
    pub(crate) candidates: Option<Candidates>,
}

/// Input of a recommendation, taken in as a capture is read: single halts, or histograms.
#[derive(Debug)]
pub(crate) enum Looking {
    Halts(Box<HaltSink>),
    Counts(Histograms),
    /// A capture of a guest, for which the search reads the capture itself.
    InGuest,
}

/// The recommendation for a capture, or why there is none.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one of them")]
pub(crate) enum Tuned {
    Host(Result<Recommended, Failure>),
    Guest(Result<GuestTuneResult, Failure>),
}

impl Tuned {
    pub(crate) fn on_host(&self) -> Option<&Recommended> {
        match self {
            Self::Host(made) => made.as_ref().ok(),
            Self::Guest(_) => None,
        }
    }
}

impl Looking {
    pub(crate) fn new(opened: &Opened, request: &TuneRequest) -> Self {
        if !opened.info().side.is_host() {
            Self::InGuest
        } else if opened.info().mode.keeps_halts() {
            Self::Halts(Box::new(HaltSink::new(opened, request)))
        } else {
            Self::Counts(Histograms::new(opened, request))
        }
    }

    pub(crate) fn sinks(&mut self) -> Vec<&mut dyn Sink> {
        match self {
            Self::Halts(look) => vec![&mut **look],
            Self::Counts(histograms) => vec![histograms],
            Self::InGuest => Vec::new(),
        }
    }

    /// A pass has ended; whether there must be another.
    pub(crate) fn ended(&mut self, ends: &PassEnds) -> bool {
        match self {
            Self::Halts(look) => look.ended(ends),
            Self::Counts(histograms) => {
                histograms.ended(ends);
                false
            }
            Self::InGuest => false,
        }
    }

    /// Passes over the capture until all is there that is needed, if that is not so after the one that has ended.
    pub(crate) fn go_on(&mut self, opened: &Opened, ends: &PassEnds) {
        let mut again = self.ended(ends);
        while again {
            let ends = pass(opened, "reading", &mut self.sinks());
            again = self.ended(&ends);
        }
    }

    pub(crate) fn recommend(self, opened: &Opened, request: &TuneRequest) -> Tuned {
        match self {
            Self::InGuest => {
                let price = GivenPrice::default();
                Tuned::Guest(recommend_in_guest(opened, request, price, None))
            }
            of_host => Tuned::Host(of_host.on_host(opened, request)),
        }
    }

    fn on_host(self, opened: &Opened, request: &TuneRequest) -> Result<Recommended, Failure> {
        match self {
            Self::InGuest => Err(Failure::new(Exit::Failed, anyhow!(OF_GUEST))),
            Self::Counts(histograms) => {
                let mut view = counted::search(opened, request, histograms)?;
                view.basis.partial = is_partial(opened);
                Ok(Recommended {
                    view,
                    candidates: None,
                })
            }
            Self::Halts(look) => {
                let candidates = candidates::search(opened, request, *look)?;
                Ok(Recommended {
                    view: view::view(opened.info(), &candidates, is_partial(opened)),
                    candidates: Some(candidates),
                })
            }
        }
    }
}

/// Why there is no recommendation for KVM's parameters where the capture is of a guest.
pub(crate) const OF_GUEST: &str = "this capture is of a guest, not of its host";

pub(crate) fn is_partial(opened: &Opened) -> bool {
    let mut notes = opened.capture().notes().into_iter();
    notes.any(|note| !matches!(note, Note::OutOfOrder { .. } | Note::Dropped(_)))
}

/// Recommends a setting of KVM's parameters for a capture that no other caller reads.
pub(crate) fn recommend(opened: &Opened, request: &TuneRequest) -> Result<Recommended, Failure> {
    let mut looking = Looking::new(opened, request);
    let ends = pass(opened, "reading", &mut looking.sinks());
    looking.go_on(opened, &ends);
    looking.on_host(opened, request)
}

pub(crate) fn recommend_in_guest(
    opened: &Opened,
    request: &TuneRequest,
    price: GivenPrice,
    joined: Option<Joined>,
) -> Result<GuestTuneResult, Failure> {
    let found = guest::search(opened, request, price, joined)?;
    Ok(guest::view::view(opened.info(), &found, is_partial(opened)))
}

/// A recommendation in short, as every verb's JSON has it: see `docs/tune-json.md`.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(crate) enum Recommendation {
    Made(Box<InShort>),
    None { why_not: String },
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct InShort {
    #[serde(flatten)]
    in_guest: Option<InGuest>,
    pub(crate) goal: TuneGoal,
    pub(crate) verdict: Verdict,
    /// Whether a setting is to be written.
    pub(crate) changes: bool,
    /// Whether any VM follows `halt_poll_ns`; `None` for a guest.
    pub(crate) follows: Option<bool>,
    pub(crate) reason: String,
    pub(crate) in_force: Values,
    /// The parameters to write; `None` to leave them.
    pub(crate) recommended: Option<Values>,
    /// Change of the cost under the best setting found, as a share of the cost in force.
    pub(crate) cost_share: Option<Interval>,
    /// Figures of what is in force and of the best setting that was found, in this order; `None` for a guest.
    pub(crate) figures: Option<Vec<SettingPoint>>,
}

/// Further fields of a recommendation for a guest that recorded itself, as in `docs/tune-guest-json.md`.
#[derive(Debug, Clone, Serialize)]
struct InGuest {
    side: &'static str,
    place: Place,
    notes: Vec<String>,
    host: Values,
}

impl Recommendation {
    pub(crate) fn of(tuned: &Tuned) -> Self {
        let made = match tuned {
            Tuned::Host(made) => made.as_ref().map(Recommended::in_short),
            Tuned::Guest(made) => made.as_ref().map(InShort::of_guest),
        };
        match made {
            Ok(made) => Self::Made(Box::new(made)),
            Err(failure) => Self::None {
                why_not: why_not(failure),
            },
        }
    }

    /// The recommendation in half a sentence.
    pub(crate) fn what(&self) -> String {
        match self {
            Self::Made(made) => made.what(),
            Self::None { .. } => "No setting can be recommended".to_owned(),
        }
    }

    pub(crate) fn text(&self) -> String {
        let what = self.what();
        match self {
            Self::Made(made) => format!("{what} (goal {}). {}", made.goal.name, made.reason),
            Self::None { why_not } => format!("{what}: {why_not}."),
        }
    }
}

impl InShort {
    fn of_guest(view: &GuestTuneResult) -> Self {
        Self {
            in_guest: Some(InGuest {
                side: view.side,
                place: view.place,
                notes: view.notes.clone(),
                host: view.host,
            }),
            goal: view.goal.clone(),
            verdict: view.verdict,
            changes: view.changes,
            follows: None,
            reason: view.reason.clone(),
            in_force: view.in_force,
            recommended: view.recommended,
            cost_share: view.against_in_force.map(|against| against.cost_share),
            figures: None,
        }
    }

    fn what(&self) -> String {
        if let Some(InGuest { place, host, .. }) = &self.in_guest {
            return guest::say::what(*place, &self.in_force, self.recommended.as_ref(), host);
        }
        let follows = self.follows != Some(false);
        let what = match &self.recommended {
            Some(setting) => {
                let changes = setting.beyond(&self.in_force);
                return match changes.get(Parameter::HaltPollNs).filter(|_| !follows) {
                    Some(ceiling_ns) => {
                        let ceiling = say::time(ceiling_ns);
                        format!("Set the VMs' own ceiling (KVM_CAP_HALT_POLL) to {ceiling}")
                    }
                    None => format!("Set {}", say::parameters(&changes)),
                };
            }
            None if follows => "Leave KVM's parameters as they are",
            None if self.verdict == Verdict::NothingFollows => {
                "No single setting reaches these VMs"
            }
            None => "Leave the ceilings as they are",
        };
        what.to_owned()
    }
}

pub(crate) fn why_not(failure: &Failure) -> String {
    format!("{:#}", failure.error)
}

impl Recommended {
    fn in_short(&self) -> InShort {
        let view = &self.view;
        let against = view.played.as_ref();
        let against = against.and_then(|played| played.against_in_force.as_ref());
        InShort {
            in_guest: None,
            goal: view.goal.clone(),
            verdict: view.verdict,
            changes: view.changes,
            follows: Some(view.follows),
            reason: view.reason.clone(),
            in_force: view.in_force,
            recommended: view.recommended,
            cost_share: against.map(|against| against.cost_share),
            figures: Some(self.candidates.as_ref().map_or_else(Vec::new, figures)),
        }
    }

    /// Input of the rules for findings: the recommendation for KVM's parameters, if they were searched on a recording
    /// that is long enough.
    pub(crate) fn advised(&self) -> Advised {
        let view = &self.view;
        let terms = self
            .candidates
            .as_ref()
            .map(|candidates| &candidates.inputs.terms);
        let is_silent = !view.follows
            || view.verdict == Verdict::TooShort
            || terms.is_some_and(|terms| terms.ceiling_only);
        match &view.recommended {
            _ if is_silent => Advised::NotAsked,
            None => Advised::Leave,
            Some(to) => Advised::change(&view.in_force.into(), &(*to).into()),
        }
    }
}

/// The setting in force, and the best setting found.
fn figures(candidates: &Candidates) -> Vec<SettingPoint> {
    let reach = Reach::of(candidates.inputs.terms.rule());
    let in_force = std::iter::once(&candidates.of.in_force);
    let all = in_force.chain(&candidates.advice.choice);
    all.map(|finalist| view::point(candidates, finalist, reach))
        .collect()
}
