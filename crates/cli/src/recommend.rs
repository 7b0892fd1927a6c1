//! The recommendation for a capture: one answer, for which `tune`, `explain`, `report` and the page ask, so that
//! they have one figure for each setting.
//!
//! | file | holds |
//! |---|---|
//! | [`caps`] | ceilings of VMs, and whether they go into the plan |
//! | [`candidates`] | from a capture's halts to the search and what it found |
//! | [`counted`] | the same where only histograms were kept |
//! | [`goal`] | what latency is worth, by name or number |
//! | [`guest`] | the same for a capture of a guest, and its governor |
//! | [`follow`] | vCPUs that no parameter of the host reaches |
//! | [`threads`] | the search's work on all CPUs |
//! | [`view`] | what is recommended, as data |
//! | [`say`], [`beside`], [`rests`] | the same in words: the reason, what else there is, what it rests on |
//! | [`whatif`] | the grid of settings that the page shows |

pub(crate) mod beside;
pub(crate) mod candidates;
pub(crate) mod caps;
pub(crate) mod counted;
pub(crate) mod follow;
pub(crate) mod goal;
pub(crate) mod guest;
pub(crate) mod rests;
pub(crate) mod say;
pub(crate) mod threads;
pub(crate) mod view;
pub(crate) mod whatif;

use haltwise_capture::note::Note;
use haltwise_core::explain::remedy::Advised;
use haltwise_core::kvm::guest::Params;
use haltwise_core::parameter::{Parameter, Values};
use haltwise_core::stats::Interval;
use haltwise_core::tune::candidates::Reach;
use serde::Serialize;

use self::candidates::{Candidates, Look, TuneRequest};
use self::counted::Histograms;
use self::guest::joined::Joined;
use self::view::{SettingPoint, TuneResult};
use crate::exit::Failure;
use crate::plan::TuneGoal;
use crate::prices::price::GivenPrice;
use crate::reading::opened::Opened;
use crate::reading::pass::{PassEnds, Sink, pass};
use crate::recommend::guest::Place;
use crate::recommend::guest::view::GuestTuneResult;

/// Version of the JSON; documented in `docs/tune-json.md`.
pub(crate) const SCHEMA: u32 = 1;

#[derive(Debug)]
pub(crate) struct Recommended {
    pub(crate) view: TuneResult,
    /// The search behind it, where single halts were recorded.
    pub(crate) candidates: Option<Candidates>,
}

/// What a recommendation is made of, taken in as a capture is read: single halts, or histograms.
#[derive(Debug)]
pub(crate) enum Looking {
    Halts(Box<Look>),
    Counts(Histograms),
}

impl Looking {
    /// Before the capture is read.
    pub(crate) fn new(opened: &Opened, request: &TuneRequest) -> Self {
        if opened.info().mode.keeps_halts() {
            Self::Halts(Box::new(Look::new(opened, request)))
        } else {
            Self::Counts(Histograms::new(opened, request))
        }
    }

    pub(crate) fn sink(&mut self) -> &mut dyn Sink {
        match self {
            Self::Halts(look) => &mut **look,
            Self::Counts(histograms) => histograms,
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
        }
    }

    /// Passes over the capture until all is there that is needed, if that is not so after the one that has ended.
    pub(crate) fn go_on(&mut self, opened: &Opened, ends: &PassEnds) {
        let mut again = self.ended(ends);
        while again {
            let ends = pass(opened, "reading", &mut [self.sink()]);
            again = self.ended(&ends);
        }
    }

    pub(crate) fn recommend(
        self,
        opened: &Opened,
        request: &TuneRequest,
    ) -> Result<Recommended, Failure> {
        match self {
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

/// Whether rows are missing from what was read.
pub(crate) fn is_partial(opened: &Opened) -> bool {
    let mut notes = opened.capture().notes().into_iter();
    notes.any(|note| !matches!(note, Note::OutOfOrder { .. } | Note::Dropped(_)))
}

/// Recommends a setting of KVM's parameters for a capture that nobody else reads.
pub(crate) fn recommend(opened: &Opened, request: &TuneRequest) -> Result<Recommended, Failure> {
    let mut looking = Looking::new(opened, request);
    let ends = pass(opened, "reading", &mut [looking.sink()]);
    looking.go_on(opened, &ends);
    looking.recommend(opened, request)
}

/// Recommends for a guest that recorded itself.
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
    InGuest(Box<GuestInShort>),
    /// There is none.
    None {
        /// Why not.
        why_not: String,
    },
}

/// What it says for a guest that recorded itself: fields of `docs/tune-guest-json.md`.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct GuestInShort {
    side: &'static str,
    goal: TuneGoal,
    place: Place,
    verdict: &'static str,
    reason: String,
    notes: Vec<String>,
    in_force: Params,
    recommended: Option<Params>,
    host: Values,
}

impl GuestInShort {
    fn of(view: &GuestTuneResult) -> Self {
        Self {
            side: view.side,
            goal: view.goal.clone(),
            place: view.place,
            verdict: view.verdict,
            reason: view.reason.clone(),
            notes: view.notes.clone(),
            in_force: view.in_force,
            recommended: view.recommended,
            host: view.host,
        }
    }

    fn what(&self) -> String {
        guest::say::what(
            self.place,
            &self.in_force,
            self.recommended.as_ref(),
            &self.host,
        )
    }
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct InShort {
    pub(crate) goal: TuneGoal,
    pub(crate) verdict: &'static str,
    /// Whether a setting is to be written.
    pub(crate) changes: bool,
    /// Whether any VM follows `halt_poll_ns`.
    pub(crate) follows: bool,
    pub(crate) reason: String,
    pub(crate) in_force: Values,
    /// The parameters to write; `None` to leave them.
    pub(crate) recommended: Option<Values>,
    /// What the best setting that was found changes of the cost, as a share of the cost in force.
    pub(crate) cost_share: Option<Interval>,
    /// Figures of what is in force and of the best setting that was found, in this order.
    pub(crate) figures: Vec<SettingPoint>,
}

impl Recommendation {
    pub(crate) fn of(recommended: &Result<Recommended, Failure>) -> Self {
        match recommended {
            Ok(recommended) => Self::Made(Box::new(recommended.told())),
            Err(failure) => Self::None {
                why_not: why_not(failure),
            },
        }
    }

    pub(crate) fn in_guest(recommended: &Result<GuestTuneResult, Failure>) -> Self {
        match recommended {
            Ok(tuned) => Self::InGuest(Box::new(GuestInShort::of(tuned))),
            Err(failure) => Self::None {
                why_not: why_not(failure),
            },
        }
    }

    pub(crate) fn text(&self) -> String {
        let told = match self {
            Self::Made(told) => told,
            Self::InGuest(told) => {
                let goal = &told.goal.name;
                let what = told.what();
                return format!(
                    "{} (goal {goal}). {}",
                    what.trim_end_matches('.'),
                    told.reason
                );
            }
            Self::None { why_not } => {
                return format!("No setting can be recommended: {why_not}.");
            }
        };
        let goal = &told.goal.name;
        let what = match &told.recommended {
            Some(setting) => {
                let changes = setting.beyond(&told.in_force);
                match changes.get(Parameter::HaltPollNs).filter(|_| !told.follows) {
                    Some(ceiling_ns) => {
                        let ceiling = say::time(ceiling_ns);
                        format!("Set the VMs' own ceiling (KVM_CAP_HALT_POLL) to {ceiling}")
                    }
                    None => format!("Set {}", say::parameters(&changes)),
                }
            }
            None if told.follows => "Leave KVM's parameters as they are".to_owned(),
            None if told.verdict == follow::VERDICT => {
                "No single setting reaches these VMs".to_owned()
            }
            None => "Leave the ceilings as they are".to_owned(),
        };
        format!("{what} (goal {goal}). {}", told.reason)
    }
}

/// Why there is no recommendation.
pub(crate) fn why_not(failure: &Failure) -> String {
    format!("{:#}", failure.error)
}

impl Recommended {
    fn told(&self) -> InShort {
        let view = &self.view;
        let against = view.played.as_ref();
        let against = against.and_then(|played| played.against_in_force.as_ref());
        InShort {
            goal: view.goal.clone(),
            verdict: view.verdict,
            changes: view.changes,
            follows: view.follows,
            reason: view.reason.clone(),
            in_force: view.in_force,
            recommended: view.recommended,
            cost_share: against.map(|against| against.cost_share),
            figures: self.candidates.as_ref().map_or_else(Vec::new, figures),
        }
    }

    /// What the rules of `explain` are told. Only what was searched for KVM's parameters, on a recording that is
    /// long enough, says anything about them.
    pub(crate) fn advised(&self) -> Advised {
        let view = &self.view;
        let terms = self
            .candidates
            .as_ref()
            .map(|candidates| &candidates.material.terms);
        let is_silent = !view.follows
            || view.verdict == "too-short"
            || terms.is_some_and(|terms| terms.ceiling_only);
        match &view.recommended {
            _ if is_silent => Advised::NotAsked,
            None => Advised::Leave,
            Some(to) => Advised::Change {
                from: view.in_force.into(),
                to: (*to).into(),
            },
        }
    }
}

/// What is in force, and the best that was found.
fn figures(candidates: &Candidates) -> Vec<SettingPoint> {
    let reach = Reach::of(&candidates.material.terms.rule());
    let in_force = std::iter::once(&candidates.of.in_force);
    let all = in_force.chain(&candidates.advice.choice);
    all.map(|finalist| view::point(candidates, finalist, reach))
        .collect()
}
