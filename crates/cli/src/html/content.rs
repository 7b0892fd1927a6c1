//! All that the page says, read and computed from the capture and from what was given beside it.

use std::path::Path;

use haltwise_capture::capture::Capture;
use haltwise_core::event::CeilingSource;
use haltwise_core::exit::account::By;
use haltwise_core::ids::VmIndex;
use haltwise_core::kvm::Knobs;
use haltwise_core::profile::tree::{self, Node};
use haltwise_core::replay::Arrivals;
use haltwise_core::tune::crew::Alone;
use haltwise_core::tune::figures::{self, Subject};
use haltwise_core::tune::stage::Entry;

use super::overview::Overview;
use super::sample::Sampled;
use crate::exit::Failure;
use crate::exits::build::Wanted as WantedExits;
use crate::ledger;
use crate::ledger::summary::Summary;
use crate::open::explain;
use crate::prove::view::View as Proof;
use crate::replay::costs::Told;
use crate::report::recording::Recording;
use crate::report::view::Report;
use crate::tune::goal::Named;
use crate::tune::seek::{self, Sought, Wish};
use crate::tune::view::{Figures, View as Tuned};
use crate::verb::report::wanted;
use crate::{diff, exits, profile, report, tune, verb};

/// What is asked for.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    /// The capture.
    pub(crate) dir: &'a Path,
    /// Only this VM.
    pub(crate) vm: Option<&'a str>,
    /// Another capture to compare it with.
    pub(crate) against: Option<&'a Path>,
    /// What `prove --json` wrote.
    pub(crate) proof: Option<&'a Path>,
    /// A ledger of predictions.
    pub(crate) ledger: Option<&'a Path>,
    /// What `haltwise-lab calibrate --json` wrote.
    pub(crate) calibration: Option<&'a Path>,
    /// Seek a ceiling alone.
    pub(crate) ceiling_only: bool,
}

/// The page's content.
#[derive(Debug)]
pub(crate) struct Content {
    /// The directory, as it was given.
    pub(crate) dir: String,
    /// How it was recorded, with the accounts.
    pub(crate) recording: Recording,
    /// What `report` says.
    pub(crate) report: Report,
    /// What `tune` says, or why it says nothing.
    pub(crate) advice: Result<Advice, String>,
    /// What `explain` says.
    pub(crate) findings: crate::explain::view::View,
    /// What `exits` says, where exits were recorded.
    pub(crate) exits: Option<Exits>,
    /// What `profile` says, and the tree of stacks, where samples were taken.
    pub(crate) profile: Option<(profile::view::View, Node)>,
    /// What `diff` says.
    pub(crate) diff: Option<diff::view::View>,
    /// What `prove` said.
    pub(crate) proof: Option<Proof>,
    /// What the ledger says.
    pub(crate) ledger: Option<Summary>,
    /// Halts that go into the file; `None` where the capture has no single halts.
    pub(crate) sampled: Option<Sampled>,
    /// What vCPUs did over time.
    pub(crate) overview: Overview,
}

/// What to set.
#[derive(Debug)]
pub(crate) struct Advice {
    /// All that `tune` says.
    pub(crate) tuned: Tuned,
    /// Not polling at all, on the part that judges; `None` for counts.
    pub(crate) off: Option<Figures>,
}

/// Exits, and the times of each reason.
#[derive(Debug)]
pub(crate) struct Exits {
    /// What `exits` says.
    pub(crate) view: exits::view::View,
    /// The account behind it.
    pub(crate) loaded: exits::load::Loaded,
}

impl Content {
    /// Whether something is missing from what it was made of.
    pub(crate) fn is_partial(&self) -> bool {
        let diff = self.diff.as_ref();
        self.report.recording.lost > 0
            || self.recording.is_partial()
            || diff.is_some_and(|diff| diff.b.lost > 0 || diff.b.cut || diff.b.damaged)
    }
}

/// Reads and computes everything.
pub(crate) fn content(wish: &Wanted<'_>) -> Result<Content, Failure> {
    let loaded = crate::explain::load::load(wish.dir)?;
    let vms = wanted(&loaded.recording.roster, wish.vm)?;
    let findings = crate::explain::view::view(&loaded, &vms);
    let recording = loaded.recording;
    let report = report::build::report(&recording, |vm| vms.contains(&vm.index));
    let capture = Capture::open(wish.dir).map_err(explain)?;
    let only = wish.vm.map(|_| vms.clone());
    let (advice, sought) = advise(&capture, wish, only.as_deref(), &recording);
    let (mut sampled, overview) = super::sample::read(&capture, &recording, only.as_deref())?;
    if let (Some(sampled), Some(sought)) = (&mut sampled, &sought) {
        sampled.make_playable(sought)?;
    }
    Ok(Content {
        dir: wish.dir.display().to_string(),
        exits: exits_of(wish, &capture)?,
        profile: profile_of(wish, &capture)?,
        diff: wish.against.map(|other| compare(wish, other)).transpose()?,
        proof: wish.proof.map(verb::prove::read).transpose()?,
        ledger: wish.ledger.map(ledger::summary_of).transpose()?,
        recording,
        report,
        advice,
        findings,
        sampled,
        overview,
    })
}

/// What to set, and what that was sought in.
fn advise(
    capture: &Capture,
    wish: &Wanted<'_>,
    only: Option<&[VmIndex]>,
    recording: &Recording,
) -> (Result<Advice, String>, Option<Sought>) {
    let goal = Named::Balanced;
    let wish = Wish {
        weight: (goal.as_str().to_owned(), goal.weight_milli()),
        max_poll_cpu_percent: None,
        vms: only.map(<[VmIndex]>::to_vec),
        arrivals: Arrivals::default(),
        told: Told {
            calibration: wish.calibration,
            ..Told::default()
        },
        kernel: None,
        arch: None,
        seed: 1,
        ceiling_only: wish.ceiling_only || has_own_ceilings_only(recording),
    };
    let said = |failure: Failure| format!("{:#}", failure.error);
    if !capture.info().mode.keeps_halts() {
        let tuned = tune::counted::seek(capture, &wish, recording.is_partial());
        let advice = tuned.map(|tuned| Advice { tuned, off: None });
        return (advice.map_err(said), None);
    }
    match seek::seek(capture, &wish) {
        Ok(sought) => {
            let advice = Advice {
                tuned: tune::view::view(capture, &sought, recording.is_partial()),
                off: off(&sought),
            };
            (Ok(advice), Some(sought))
        }
        Err(failure) => (Err(said(failure)), None),
    }
}

/// Whether every halt was under a ceiling of its VM's own: then the module's parameter moves nothing,
/// and a ceiling for them is what can be recommended.
fn has_own_ceilings_only(recording: &Recording) -> bool {
    let total = recording.ledger.total();
    let mut governed = total.ceilings.rows().filter(|(_, span)| span.count > 0);
    let first = governed.next();
    let is_own = |source| source == CeilingSource::Cap;
    first.is_some_and(|(ceiling, _)| is_own(ceiling.source))
        && governed.all(|(ceiling, _)| is_own(ceiling.source))
}

/// What not polling comes to on the part that judges.
fn off(sought: &Sought) -> Option<Figures> {
    let knobs = Knobs {
        halt_poll_ns: 0,
        ..sought.material.terms.in_force
    };
    let cost = &sought.advice.goal.aim.cost;
    let subject = Subject::Setting(Entry::new(knobs));
    let outcomes = figures::figures(&sought.material, &[subject], cost, &Alone).ok()?;
    let wall = &sought.material.judged_wall;
    Some(Figures::new(outcomes.first()?, None, wall, cost))
}

fn exits_of(wish: &Wanted<'_>, capture: &Capture) -> Result<Option<Exits>, Failure> {
    if capture.info().exits.is_none() {
        return Ok(None);
    }
    let loaded = exits::load::load(wish.dir, By::Vm, |recording| {
        let vms = wanted(&recording.roster, wish.vm)?;
        Ok(wish.vm.map(|_| vms))
    })?;
    let wanted = WantedExits {
        reason: None,
        groups: true,
    };
    let view = exits::build::build(&loaded, wanted);
    Ok(view.map(|view| Exits { view, loaded }))
}

fn profile_of(
    wish: &Wanted<'_>,
    capture: &Capture,
) -> Result<Option<(profile::view::View, Node)>, Failure> {
    if capture.info().profile.is_none() {
        return Ok(None);
    }
    let loaded = profile::load::load(wish.dir, |recording| {
        let vms = wanted(&recording.roster, wish.vm)?;
        Ok(wish.vm.map(|_| vms))
    })?;
    let event = loaded.event(None)?;
    let view = profile::build::build(&loaded, event, profile::build::By::Vm, None);
    let tree = tree::tree(loaded.account.sites(event), &loaded.naming());
    Ok(view.map(|view| (view, tree)))
}

fn compare(wish: &Wanted<'_>, other: &Path) -> Result<diff::view::View, Failure> {
    match wish.vm {
        Some(vm) => diff::compare_vm(wish.dir, other, vm),
        None => diff::compare(wish.dir, other, &[]),
    }
}
