//! Implementation of `haltwise apply`: examines a request, and with `--yes` makes the changes and watches whether
//! the VMs that run follow.
//!
//! [`view`] holds what is said, [`text`] lays it out; what `undo` and `status` share is in [`crate::knob`].

mod follow;
mod text;
mod view;

use std::path::PathBuf;

use haltwise_core::parameter::Parameter;
use haltwise_host::discovery::VmSelector;
use haltwise_host::knob::effect::CeilingChange;
use haltwise_host::knob::{
    self, Baseline, KnobError, Proposal, Remark, Request, Settings, Snapshot, Target, Writer,
};
use haltwise_host::params;
use haltwise_host::root::Root;
use haltwise_host::support::KernelRelease;

use self::view::{Applied, PlanView};
use crate::exit::{Exit, Failure, Outcome};
use crate::knob::ceilings::{self, Unset};
use crate::knob::explain::explain;
use crate::knob::view::name_of;
use crate::knob::watching::VmView;
use crate::knob::{value, vms, watching, who};
use crate::plan::Plan;
use crate::state::GivenRoot;
use crate::terminal;

/// Options beside the values.
#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the command line's own switches"
)]
pub(crate) struct ApplyOptions {
    /// Make the changes
    #[arg(long)]
    yes: bool,
    /// Go on until interrupted: set the ceilings of VMs of the plan that come later
    #[arg(long, requires = "plan", requires = "yes")]
    follow: bool,
    /// Also set the parameters at every boot
    #[arg(long)]
    pub(crate) persist: bool,
    /// Also overwrite parameters that were modified externally
    #[arg(long)]
    take_over: bool,
    /// Print JSON (schema 1, see docs/status-json.md)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    root: GivenRoot,
}

/// Where the values come from.
#[derive(Debug)]
pub(crate) enum Source {
    Plan(PathBuf),
    Set(Vec<(Parameter, u32)>),
    /// The ceiling of VMs, in nanoseconds.
    Ceiling(Vec<VmSelector>, u32),
    Guest(Vec<VmSelector>, Vec<(Parameter, u32)>),
}

pub(crate) fn run(options: &ApplyOptions, source: &Source) -> Outcome {
    let mut request = Request {
        persist: options.persist,
        take_over: options.take_over,
        ..Request::default()
    };
    let (mut plan, mut unset) = (None, Vec::new());
    match source {
        Source::Set(parameters) => request.parameters.clone_from(parameters),
        Source::Ceiling(vms, ns) => {
            request.ceilings = ceilings::of_vms(&options.root, vms, *ns)?;
        }
        Source::Guest(vms, parameters) => {
            request.guests = ceilings::in_guests(&options.root, vms, parameters)?;
        }
        Source::Plan(path) => {
            let read = Plan::read(path)?;
            request.parameters = read.settings.iter().collect();
            (request.ceilings, unset) = ceilings::of_plan(&options.root, &read.ceilings)?;
            plan = Some(read);
        }
    }
    let root = &options.root;
    let mut warnings = plan.as_ref().map_or_else(Vec::new, |it| suits(root, it));
    warnings.extend(remarks(root, &request, source));
    let planned = plan.as_ref().map(PlanView::of);
    let mut view = if options.yes {
        act(options, &request, warnings, planned)?
    } else {
        let look = Snapshot::read(root).map_err(explain)?;
        let look = look.ok_or_else(|| explain(KnobError::busy(root)))?;
        let proposal = look.propose(&request).map_err(explain)?;
        warnings.extend(until_boot(&look.baseline, &request));
        let cut_off = look.cut_off.as_ref();
        if change(root, &proposal).is_some() {
            warnings.extend(vms(root).warning());
        }
        Applied::new(root, &proposal, cut_off, warnings, planned)
    };
    view.unset.extend(unset);
    say(&view, options.json)?;
    // A ceiling that the same apply has set is no refusal.
    let is_meant = |pid: u32| request.ceilings.iter().any(|(vm, _)| vm.pid.0 == pid);
    let refuses = |vm: &VmView| vm.refuses().is_some() && !is_meant(vm.pid);
    let is_partial = view.scope != "vm" && view.vms.iter().any(refuses);
    let outcome = Ok(Exit::of_partial(is_partial || !view.unset.is_empty()));
    match plan {
        Some(plan) if options.follow => follow::follow(options, &plan, &request.ceilings, outcome),
        _ => outcome,
    }
}

fn act(
    options: &ApplyOptions,
    request: &Request,
    mut warnings: Vec<String>,
    plan: Option<PlanView>,
) -> Result<Applied, Failure> {
    let root = &options.root;
    // A request that cannot be carried out leaves no trace, not even an empty directory.
    if let Some(look) = Snapshot::read(root).map_err(explain)? {
        look.propose(request).map_err(explain)?;
    }
    let mut writer = Writer::open(root, &who()).map_err(explain)?;
    let proposal = writer.propose(request).map_err(explain)?;
    warnings.extend(until_boot(writer.baseline(), request));
    let cut_off = writer.cut_off().cloned();
    let step = writer.apply(&proposal).map_err(explain)?;
    let ended = writer.ended().to_vec();
    drop(writer);
    let mut view = Applied::new(root, &proposal, cut_off.as_ref(), warnings, plan);
    view.done = true;
    view.turns
        .retain(|turn| !ended.iter().any(|it| name_of(root, *it) == turn.name));
    view.unset
        .extend(ended.into_iter().map(|it| Unset::ended(root, it)));
    view.step = step;
    view.undo = step.map(|_| "haltwise undo".to_owned());
    if let Some(change) = change(root, &proposal) {
        let vms = watching::watch(root, &change);
        view.warnings.extend(vms.warning());
        (view.vms, view.vms_unwatched) = (vms.rows, vms.unwatched);
    } else if !request.ceilings.is_empty() {
        // Read back from the kernel's own `struct kvm`.
        let mut vms = vms(root);
        let is_meant = |pid| request.ceilings.iter().any(|(vm, _)| vm.pid.0 == pid);
        vms.rows.retain(|vm| is_meant(vm.pid));
        (view.vms, view.vms_unwatched) = (vms.rows, vms.unwatched);
    }
    Ok(view)
}

/// The change of the ceiling, if it is among what was done.
fn change(root: &Root, proposal: &Proposal) -> Option<CeilingChange> {
    let ceiling = Target::Parameter(Parameter::HaltPollNs);
    let change = proposal.changes.iter().find(|it| it.target == ceiling)?;
    let old = change.old.as_ref()?.parse().ok()?;
    Some(CeilingChange {
        old,
        now: watching::knobs(root)?,
    })
}

fn say(view: &Applied, json: bool) -> Result<(), Failure> {
    terminal::show(json, view, |view| text::render(view, terminal::columns()))
}

/// Whether a plan was made for this host, and for what is set here now.
fn suits(root: &Root, plan: &Plan) -> Vec<String> {
    let mut said = Vec::new();
    let here = KernelRelease::read(root).ok();
    let made_on = &plan.capture.kernel_release;
    if let Some(here) = here.filter(|here| here.text != *made_on) {
        said.push(format!(
            "the plan was made under Linux {made_on}; here runs {here}"
        ));
    }
    for (name, before) in plan.before.iter() {
        let now = value(root, name);
        if let Some(now) = now.filter(|now| *now != before) {
            said.push(format!(
                "{name} was {before} when the plan was made and is {now} now: what it expects to \
                 change is against {before}"
            ));
        }
    }
    said
}

fn until_boot(baseline: &Baseline, request: &Request) -> Vec<String> {
    let persisted = baseline.persisted();
    let wanted = request.parameters.iter().filter(|_| !request.persist);
    let others = wanted.filter_map(|(parameter, value)| {
        let at_boot = persisted.get(parameter).filter(|it| *it != value)?;
        Some(format!(
            "{parameter} is {at_boot} again after the next boot, as --persist had it written"
        ))
    });
    others.collect()
}

/// Remarks on the values, and lines that set these parameters at boot and are read after ours.
fn remarks(root: &Root, request: &Request, source: &Source) -> Vec<String> {
    let wanted = &request.parameters;
    let now = Settings::of(&params::read(root, 0).unwrap_or_default());
    let mut all = knob::remarks(&now.with(wanted));
    if let Source::Guest(_, parameters) = source {
        all.extend(knob::remarks(&Settings::default().with(parameters)));
    }
    let text = |remark: Remark| remark.finding.to_string();
    if !request.persist {
        return all.into_iter().map(text).collect();
    }
    let lines = knob::lines(root);
    let values = wanted.iter().copied().collect();
    let overruled = knob::rivals(&lines, &values).map(|it| {
        format!(
            "{} sets {}={} at boot too, and is read after what --persist writes",
            it.place, it.parameter, it.value
        )
    });
    all.extend(knob::at_boot(&lines, wanted));
    all.into_iter().map(text).chain(overruled).collect()
}
