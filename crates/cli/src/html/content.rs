//! All that the page says, read and computed from the capture and from what was given beside it.

use std::path::{Path, PathBuf};

use haltwise_capture::table::Table;
use haltwise_core::exit::account::By;
use haltwise_core::ids::VmIndex;
use haltwise_core::profile::tree::{self, Node};
use haltwise_core::replay::GoalName;

use super::overview::Overview;
use super::sample::{Sampled, Sampling};
use crate::diff::Begun;
use crate::diff::load::{ExitsSeen, HaltsSeen, Side};
use crate::exit::Failure;
use crate::exits::load::Taking;
use crate::explain::load::ByVm;
use crate::explain::tune_advice::TuneAdvice;
use crate::ledger;
use crate::ledger::Summary;
use crate::now::view::Answer;
use crate::prices::GivenCosts;
use crate::proof::{self, Proof};
use crate::reading::load::{self, OverTime};
use crate::reading::opened::Opened;
use crate::reading::pass::{PassEnds, Sink, pass};
use crate::reading::recording::Recording;
use crate::reading::select;
use crate::recommend::candidates::{Extent, TuneRequest};
use crate::recommend::view::TuneResult;
use crate::recommend::whatif::WhatIf;
use crate::recommend::{Looking, Tuned};
use crate::report::view::Report;
use crate::{diff, exits, explain, now, profile, report};

/// Additions to the page, besides its capture.
#[derive(Debug, clap::Args)]
pub(crate) struct PageOptions {
    /// Page: add a comparison with this capture, as `haltwise diff`
    #[arg(long, value_name = "DIR", requires = "html")]
    against: Option<PathBuf>,
    /// Page: add a result of `haltwise prove --json`
    #[arg(long, value_name = "FILE", requires = "html")]
    proof: Option<PathBuf>,
    /// Page: add the accuracy of a ledger's predictions
    #[arg(long, value_name = "FILE", requires = "html")]
    ledger: Option<PathBuf>,
    /// Page: costs from `haltwise calibrate --json`
    #[arg(long, value_name = "FILE", requires = "html")]
    calibration: Option<PathBuf>,
    /// Page: as `haltwise tune --ceiling-only`
    #[arg(long, requires = "html")]
    ceiling_only: bool,
}

#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) dir: String,
    pub(crate) recording: Recording,
    pub(crate) report: Report,
    /// Advice of `tune`, or why there is none.
    pub(crate) tuned: Result<Tuned, Failure>,
    pub(crate) findings: explain::view::Explanation,
    /// The same answer as that of `haltwise` without a verb.
    pub(crate) answer: Answer,
    pub(crate) exits: Option<Exits>,
    /// Result of `report --profile`, and the tree of stacks, where samples were taken.
    pub(crate) profile: Option<(profile::view::ProfileResult, Node)>,
    pub(crate) diff: Option<diff::view::Differences>,
    pub(crate) proof: Option<Proof>,
    pub(crate) ledger: Option<Summary>,
    /// Other settings; `None` where nothing can be replayed.
    pub(crate) whatif: Option<WhatIf>,
    /// Halts that go into the file; `None` where the capture has no single halts.
    pub(crate) sampled: Option<Sampled>,
    pub(crate) overview: Overview,
}

#[derive(Debug)]
pub(crate) struct Exits {
    pub(crate) view: exits::view::ExitsResult,
    pub(crate) loaded: exits::load::Loaded,
}

impl Content {
    /// Advice of `tune` on KVM's parameters.
    pub(crate) fn advice(&self) -> Option<&TuneResult> {
        let tuned = self.tuned.as_ref().ok()?;
        Some(&tuned.on_host()?.view)
    }

    /// Whether something is missing from what it was made of.
    pub(crate) fn is_partial(&self) -> bool {
        let diff = self.diff.as_ref();
        self.report.recording.lost > 0
            || self.recording.is_partial()
            || diff.is_some_and(|diff| diff.b.lost > 0 || diff.b.cut || diff.b.damaged)
    }
}

/// Reads and computes everything, in two passes over the capture and one over its exits.
pub(crate) fn content(
    dir: &Path,
    vm: Option<&str>,
    options: &PageOptions,
) -> Result<Content, Failure> {
    let opened = Opened::open(dir)?;
    let vms = select::vms(&opened.info().roster, vm)?;
    let only = vm.map(|_| vms.clone());
    let asked = TuneRequest {
        costs: GivenCosts {
            calibration: options.calibration.clone(),
            ..GivenCosts::default()
        },
        ceiling_only: options.ceiling_only,
        extent: Extent::All,
        ..TuneRequest::of_goal(GoalName::Balanced, only.clone())
    };
    let mut looking = Looking::new(&opened, &asked);
    let mut halts_seen = HaltsSeen::default();
    let mut sinks: Vec<&mut dyn Sink> = vec![&mut halts_seen];
    sinks.extend(looking.sinks());
    let (recording, ends) = load::load(&opened, OverTime::Vcpus, &mut sinks)?;
    let mut exits_seen = ExitsSeen::new(&opened);
    let (by_vm, exits, exit_ends) =
        exits_of(&opened, &recording, only.as_deref(), &mut exits_seen)?;
    let loaded = by_vm.finish(&opened, recording.clone(), &exit_ends)?;
    let other = options.against.as_deref().map(Opened::open);
    let other = other.transpose()?;
    let begun = other.as_ref().map(|other| {
        let (halts, exits) = ((&halts_seen, &ends), (&exits_seen, &exit_ends));
        let a = Side::new(&opened, recording.clone(), halts, exits);
        Begun::of_vm(a, diff::load::side(other)?, vm)
    });
    let begun = begun.transpose()?;
    let mut in_a = begun.as_ref().map(Begun::summing_a);
    let mut sampling = Sampling::new(&recording, only.as_deref());
    let mut again = looking.ended(&ends).then_some(&mut looking);
    let mut sinks: Vec<&mut dyn Sink> = vec![&mut sampling];
    sinks.extend(in_a.as_mut().map(|in_a| in_a as &mut dyn Sink));
    sinks.extend(again.iter_mut().flat_map(|looking| looking.sinks()));
    let second = pass(&opened, "choosing halts for the timeline", &mut sinks);
    if let Some(looking) = again {
        looking.go_on(&opened, &second);
    }
    let (sampled, overview) = sampling.finish(&recording, &second)?;
    let tuned = looking.recommend(&opened, &asked);
    let advice = TuneAdvice::of(&tuned, &opened, &recording);
    let profile = profile_of(&opened, &recording, only.as_deref())?;
    let lambda = GoalName::Balanced.weight_milli() as f64 / 1e3;
    let summary = advice.recommendation.clone();
    let findings = explain::view::view(&loaded, &vms, lambda, advice);
    let recording = loaded.recording;
    let mut report = report::build::report(&recording, |vm| vms.contains(&vm.index), summary);
    report::text::order(&mut report.vms);
    let made = tuned.as_ref().ok().and_then(Tuned::on_host);
    let goal = GoalName::Balanced;
    let answer = now::build::answer(&opened, made, &report, &findings, goal, None);
    let candidates = made.and_then(|made| made.candidates.as_ref());
    let whatif = candidates.map(WhatIf::of);
    Ok(Content {
        dir: dir.display().to_string(),
        exits,
        profile,
        diff: begun.zip(in_a).map(|(begun, in_a)| begun.finish(in_a)),
        proof: options.proof.as_deref().map(proof::read).transpose()?,
        ledger: (options.ledger.as_deref().map(ledger::summary_of)).transpose()?,
        recording,
        report,
        tuned,
        findings,
        answer,
        whatif,
        sampled,
        overview,
    })
}

fn exits_of(
    opened: &Opened,
    recording: &Recording,
    only: Option<&[VmIndex]>,
    seen: &mut ExitsSeen,
) -> Result<(ByVm, Option<Exits>, PassEnds), Failure> {
    let recorded = opened.info().exits.clone();
    let mut by_vm = ByVm::new(recorded.clone(), recording);
    let Some(recorded) = recorded else {
        return Ok((by_vm, None, PassEnds::default()));
    };
    let mut taking = Taking::new(By::Vm, recording, only.map(<[VmIndex]>::to_vec));
    let ends = pass(opened, "reading", &mut [&mut by_vm, &mut taking, seen]);
    ends.opened(Table::Exits)?;
    let loaded = taking.finish(opened, recorded, recording.clone(), &ends);
    let view = exits::view::build(&loaded, None, true);
    Ok((by_vm, view.map(|view| Exits { view, loaded }), ends))
}

fn profile_of(
    opened: &Opened,
    recording: &Recording,
    only: Option<&[VmIndex]>,
) -> Result<Option<(profile::view::ProfileResult, Node)>, Failure> {
    if opened.info().profile.is_none() {
        return Ok(None);
    }
    let loaded = profile::load::samples(opened, recording.clone(), only);
    let event = loaded.event(None)?;
    let view = profile::view::build(&loaded, event, profile::view::By::Vm, None);
    let tree = tree::tree(loaded.account.sites(event), &loaded.naming());
    Ok(view.map(|view| (view, tree)))
}
