//! Implementation of `haltwise apply`: examines a request, and with `--yes` makes the changes and watches whether
//! the VMs that run follow.
//!
//! [`view`] holds what is said; what `undo` and `status` share is in [`crate::knob`].

mod view;

use std::collections::BTreeSet;
use std::time::Duration;

use haltwise_capture::info::Clock;
use haltwise_core::parameter::Parameter;
use haltwise_host::knob::effect::Watched;
use haltwise_host::knob::{
    self, KnobError, Proposal, Remark, Request, Settings, Snapshot, Target, Writer,
};
use haltwise_host::params;
use haltwise_host::root::Root;
use haltwise_host::support::KernelRelease;

use self::view::{Applied, PlanView};
use crate::collect::interrupt::Interrupt;
use crate::exit::{Exit, Failure, Outcome};
use crate::knob::ceilings::{self, Unset};
use crate::knob::explain::explain;
use crate::knob::text::{changes, page_cut_off, vms};
use crate::knob::{value, watching, who};
use crate::page::{Page, harmless};
use crate::plan::Plan;
use crate::state::GivenRoot;
use crate::terminal;
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
    pub(crate) root: GivenRoot,
}

/// Targets and their values, of the command line or of a plan.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) targets: Vec<(Target, u32)>,
    pub(crate) plan: Option<Plan>,
    pub(crate) unset: Vec<Unset>,
}

impl Wanted {
    pub(crate) fn of_plan(root: &Root, plan: Plan) -> Result<Self, Failure> {
        let (mut targets, unset) = ceilings::of_plan(root, &plan.ceilings)?;
        let settings = plan.settings.iter();
        targets.extend(settings.map(|(it, value)| (Target::Parameter(it), value)));
        Ok(Self {
            targets,
            plan: Some(plan),
            unset,
        })
    }
}

pub(crate) fn run(options: &ApplyOptions, wanted: Wanted) -> Outcome {
    let root = &options.root;
    let plan = wanted.plan.as_ref();
    let request = Request {
        wanted: wanted.targets,
        persist: options.persist,
        take_over: options.take_over,
    };
    let mut warnings = plan.map_or_else(Vec::new, |it| suits(root, it));
    warnings.extend(remarks(root, &request));
    let view = if options.yes { act } else { look };
    let mut view = view(root, &request).map_err(explain)?;
    warnings.append(&mut view.warnings);
    view.warnings = warnings;
    view.plan = plan.map(PlanView::of);
    view.unset.extend(wanted.unset);
    say(&view, options.json)?;
    // A ceiling that the same apply has set is no refusal.
    let refuses = |vm: &Watched| watching::refuses(vm).is_some() && !sets_ceiling(&request, vm.pid);
    let is_partial = view.scope != "vm" && view.vms.iter().any(refuses);
    let outcome = Ok(Exit::of_partial(is_partial || !view.unset.is_empty()));
    match plan {
        Some(plan) if options.follow => follow(options, plan, &request.wanted, outcome),
        _ => outcome,
    }
}

fn sets_ceiling(request: &Request, pid: u32) -> bool {
    let mut vms = request.wanted.iter().filter_map(|(it, _)| it.ceiling());
    vms.any(|vm| vm.pid.0 == pid)
}

fn look(root: &Root, request: &Request) -> Result<Applied, KnobError> {
    let now = Snapshot::read(root)?;
    let proposal = now.propose(request)?;
    let mut view = Applied::new(root, &now, request, &proposal, &[]);
    if sets_halt_poll_ns(&proposal) {
        view.warnings.extend(watching::look(root).warning());
    }
    Ok(view)
}

fn act(root: &Root, request: &Request) -> Result<Applied, KnobError> {
    // A request that cannot be carried out leaves no trace, not even an empty directory.
    match Snapshot::read(root) {
        Err(KnobError::Busy { .. }) => {}
        now => drop(now?.propose(request)?),
    }
    let mut writer = Writer::open(root, &who())?;
    let proposal = writer.now().propose(request)?;
    let step = writer.apply(&proposal)?;
    let mut view = Applied::new(root, writer.now(), request, &proposal, writer.ended());
    drop(writer);
    view.done = true;
    view.step = step;
    view.undo = step.map(|_| view.reverts.clone());
    let vms = if sets_halt_poll_ns(&proposal) {
        let vms = watching::look(root);
        view.warnings.extend(vms.warning());
        vms
    } else if request.wanted.iter().any(|(it, _)| it.is_ceiling()) {
        // Read back from the kernel's own `struct kvm`.
        let mut vms = watching::look(root);
        vms.rows.retain(|vm| sets_ceiling(request, vm.pid));
        vms
    } else {
        return Ok(view);
    };
    (view.vms, view.vms_unwatched) = (vms.rows, vms.unwatched);
    Ok(view)
}

fn sets_halt_poll_ns(proposal: &Proposal) -> bool {
    let ceiling = Target::Parameter(Parameter::HaltPollNs);
    let mut changes = proposal.changes.iter();
    changes.any(|it| it.target == ceiling && !it.is_made())
}

fn say(view: &Applied, json: bool) -> Result<(), Failure> {
    terminal::show(json, view, |view| render(view, terminal::columns()))
}

/// Whether a plan was made for this host, and for what is set here now.
fn suits(root: &Root, plan: &Plan) -> Vec<String> {
    let mut said = Vec::new();
    let here = KernelRelease::read(root).ok();
    let made_on = &plan.capture.kernel_release;
    let host = root.value("proc/sys/kernel/hostname").ok();
    if let (Some(host), Some(made_on)) = (host, &plan.capture.hostname)
        && host != *made_on
    {
        let unix_ns = plan.capture.started_unix_ns;
        let date = (unix_ns > 0).then(|| format!(" of {}", Clock::new(0, unix_ns).start_utc));
        let date = date.unwrap_or_default();
        said.push(format!(
            "the plan is from a capture{date} of another host, {made_on}; this is {host}"
        ));
    }
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

/// Remarks on the values, and lines that set these parameters at boot and are read after ours.
fn remarks(root: &Root, request: &Request) -> Vec<String> {
    let wanted = request.parameters();
    let now = Settings::of(&params::read(root, 0).unwrap_or_default());
    let mut all = knob::remarks(&now.with(wanted));
    let in_guests = request
        .wanted
        .iter()
        .filter_map(|(target, value)| match target {
            Target::Guest(it) => Some((it.parameter, *value)),
            _ => None,
        });
    let in_guests = Settings::default().with(in_guests.collect());
    all.extend(knob::remarks(&in_guests));
    let text = |remark: Remark| remark.finding.to_string();
    if !request.persist {
        return all.into_iter().map(text).collect();
    }
    let lines = knob::lines(root);
    let overruled = knob::rivals(&lines, &wanted).map(|it| {
        format!(
            "{} sets {}={} at boot too, and is read after what --persist writes",
            it.place, it.parameter, it.value
        )
    });
    all.extend(knob::at_boot(&lines, &wanted));
    all.into_iter().map(text).chain(overruled).collect()
}
const EVERY: Duration = Duration::from_secs(2);
/// Between two looks whether a signal came.
const STEP: Duration = Duration::from_millis(100);

/// `apply PLAN --follow`: VMs that come later get what the plan has for their name. Goes on until a signal comes. `set` are the VMs of the plan's own apply, and `outcome` is what came of that.
fn follow(options: &ApplyOptions, plan: &Plan, set: &[(Target, u32)], outcome: Outcome) -> Outcome {
    let interrupt = Interrupt::watch()?;
    let mut known: BTreeSet<Target> = set.iter().map(|(target, _)| *target).collect();
    terminal::say("Waiting for VMs of the plan; Ctrl-C ends it, and leaves what is set.");
    while interrupt.came().is_none() {
        for _ in 0..EVERY.as_millis() / STEP.as_millis() {
            if interrupt.came().is_some() {
                return outcome;
            }
            std::thread::sleep(STEP);
        }
        let (mut new, _) = ceilings::of_plan(&options.root, &plan.ceilings)?;
        new.retain(|(target, _)| known.insert(*target));
        for ceiling in new {
            // A request each: one that has ended again, or that another process changes, keeps no other from its
            // ceiling.
            let request = Request {
                wanted: vec![ceiling],
                take_over: options.take_over,
                ..Request::default()
            };
            match act(&options.root, &request) {
                Ok(view) => say(&view, options.json)?,
                Err(error) => terminal::complain(&explain(error)),
            }
        }
    }
    outcome
}

fn render(view: &Applied, width: usize) -> String {
    let mut page = Page::new(width);
    if let Some(settled) = &view.settled {
        page_cut_off(&mut page, settled);
    }
    if let Some(plan) = &view.plan {
        let text = format!("{}: {}", harmless(&plan.goal), harmless(&plan.reason));
        page.wrapped("Plan: ", &text, 6);
    }
    for already in &view.already {
        let name = harmless(&already.name);
        page.wrapped("", &format!("{name} is {} already.", already.value), 2);
    }
    if view.turns.is_empty() {
        page.line("There is nothing to do.");
    } else {
        let what = if view.done { "Set" } else { "Would set" };
        let whom = match view.scope {
            "vm" | "both" => "",
            "guest" => ", for all CPUs of this guest",
            _ => ", for the whole host (every VM without its own ceiling)",
        };
        page.wrapped("", &format!("{what}{whom}:"), 2);
        changes(&mut page, &view.turns);
        for text in &view.taken_over {
            page.wrapped("Taken over: ", &harmless(text), 2);
        }
    }
    for Unset { vm, why } in &view.unset {
        let text = format!("{}: {}.", harmless(vm), harmless(why));
        page.wrapped("Not set: ", &text, 9);
    }
    for warning in &view.warnings {
        page.wrapped("Warning: ", &harmless(warning), 9);
    }
    if view.done {
        vms(&mut page, &view.vms, view.vms_unwatched.as_deref());
    } else if !view.turns.is_empty() {
        let reverts = harmless(&view.reverts);
        let text =
            format!("Nothing was changed; --yes makes the changes, `{reverts}` reverts them.");
        page.wrapped("", &text, 2);
    }
    if let Some(undo) = &view.undo {
        page.whole_line(&format!("Undo: {}", harmless(undo)));
    }
    page.finish()
}
