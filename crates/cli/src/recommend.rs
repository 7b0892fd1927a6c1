//! The recommendation for a capture: one answer, for which `tune`, `report` and the page ask, so that
//! they have one figure for each setting.

pub(crate) mod basis;
pub(crate) mod candidates;
pub(crate) mod caps;
pub(crate) mod compare;
pub(crate) mod counted;
pub(crate) mod goal;
pub(crate) mod guest;
pub(crate) mod reach;
pub(crate) mod recommendation;
pub(crate) mod say;
pub(crate) mod threads;
pub(crate) mod view;
pub(crate) mod whatif;

use haltwise_capture::note::Note;
use haltwise_core::explain::remedy::Advised;
use haltwise_core::tune::advice::Verdict;

use self::candidates::{Candidates, HaltSink, TuneRequest};
use self::counted::Histograms;
use self::guest::joined::Joined;
use self::recommendation::Recommendation;
use self::view::TuneResult;
use crate::exit::Failure;
use crate::prices::price::GivenPrice;
use crate::reading::opened::Opened;
use crate::reading::pass::{PassEnds, Sink, pass};
use crate::reading::rule;
use crate::recommend::guest::view::GuestTuneResult;

pub(crate) const SCHEMA: u32 = 1;

#[derive(Debug)]
pub(crate) struct Recommended {
    pub(crate) view: TuneResult,
    pub(crate) candidates: Option<Candidates>,
}

/// Input of a recommendation, taken in as a capture is read: single halts, or histograms.
#[derive(Debug)]
pub(crate) enum Looking {
    Halts(Box<HaltSink>),
    Counts(Histograms),
}

/// The recommendation for a capture of a host, or of a guest.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one of them")]
pub(crate) enum Tuned {
    Host(Recommended),
    Guest(GuestTuneResult),
}

impl Tuned {
    pub(crate) fn on_host(&self) -> Option<&Recommended> {
        match self {
            Self::Host(made) => Some(made),
            Self::Guest(_) => None,
        }
    }

    pub(crate) fn recommendation(&self) -> &Recommendation {
        match self {
            Self::Host(made) => &made.view.recommendation,
            Self::Guest(made) => &made.recommendation,
        }
    }
}

impl Looking {
    pub(crate) fn new(opened: &Opened, request: &TuneRequest) -> Self {
        if opened.info().mode.keeps_halts() {
            Self::Halts(Box::new(HaltSink::new(opened, request)))
        } else {
            Self::Counts(Histograms::new(opened, request))
        }
    }

    pub(crate) fn sinks(&mut self) -> Vec<&mut dyn Sink> {
        match self {
            Self::Halts(look) => vec![&mut **look],
            Self::Counts(histograms) => vec![histograms],
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
            let ends = pass(opened, "reading", &mut self.sinks());
            again = self.ended(&ends);
        }
    }

    pub(crate) fn recommend(
        self,
        opened: &Opened,
        request: &TuneRequest,
    ) -> Result<Tuned, Failure> {
        self.search(opened, request, GivenPrice::default(), None)
    }

    fn search(
        self,
        opened: &Opened,
        request: &TuneRequest,
        price: GivenPrice,
        joined: Option<Joined>,
    ) -> Result<Tuned, Failure> {
        let (info, partial) = (opened.info(), is_partial(opened));
        if !info.side.is_host() {
            rule::must_keep_periods(opened, "tune")?;
        }
        let (view, candidates) = match self {
            Self::Counts(histograms) => (counted::search(opened, request, histograms)?, None),
            Self::Halts(look) if info.side.is_host() => {
                let candidates = candidates::search(opened, request, *look)?;
                (view::view(info, &candidates, partial), Some(candidates))
            }
            Self::Halts(look) => {
                let found = guest::search(opened, request, *look, (price, joined))?;
                return Ok(Tuned::Guest(guest::view::view(info, &found, partial)));
            }
        };
        Ok(Tuned::Host(Recommended { view, candidates }))
    }
}

pub(crate) fn is_partial(opened: &Opened) -> bool {
    let mut notes = opened.capture().notes().into_iter();
    notes.any(|note| !matches!(note, Note::Dropped(_)))
}

/// Recommends a setting for a capture that no other caller reads. `price` and `joined` are for a guest's capture.
pub(crate) fn recommend(
    opened: &Opened,
    request: &TuneRequest,
    price: GivenPrice,
    joined: Option<Joined>,
) -> Result<Tuned, Failure> {
    let mut looking = Looking::new(opened, request);
    let ends = pass(opened, "reading", &mut looking.sinks());
    looking.go_on(opened, &ends);
    looking.search(opened, request, price, joined)
}

impl Recommended {
    /// Input of the rules for findings: the recommendation for KVM's parameters, if they were searched on a recording
    /// that is long enough.
    pub(crate) fn advised(&self) -> Advised {
        let of = &self.view.recommendation;
        let terms = (self.candidates.as_ref()).map(|candidates| &candidates.inputs.terms);
        let is_silent = of.reaches_no_vm()
            || of.verdict == Verdict::TooShort
            || terms.is_some_and(|terms| terms.ceiling_only);
        match &of.recommended {
            _ if is_silent => Advised::NotAsked,
            None => Advised::Leave,
            Some(to) => Advised::change(&of.in_force.into(), &(*to).into()),
        }
    }
}
