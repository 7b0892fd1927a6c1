//! `haltwise apply`: examines a request, and with `--yes` makes the changes and looks whether the VMs that run follow.

mod view;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::ArgGroup;
use haltwise_capture::info::Clock;
use haltwise_core::parameter::{Parameter, Values};
use haltwise_host::discovery::VmSelector;
use haltwise_host::knob::effect::{CeilingChange, Watched};
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
#[command(
    group = ArgGroup::new("wanted").args(["plan", "set", "ceiling"]).required(true).multiple(true),
    about = "Set KVM's halt polling parameters",
    long_about = "Set KVM's halt polling parameters, or the ceiling of a VM

Without --yes, only prints what would change. The parameters apply to all VMs of \
the host that have no ceiling of their own. What was set before is \
recorded first, and `haltwise undo` restores it. A parameter that was modified \
externally since haltwise set it is left alone unless --take-over is given.

With --vm and --ceiling, sets the halt polling ceiling of one VM \
(KVM_CAP_HALT_POLL), which then no longer follows halt_poll_ns. That takes a VMM \
that was started with libhaltwise_preload.so, or has haltwise-governor built in.

With --vm and --set, on a host, sets the parameters of the governor haltpoll in \
the Linux guest of a QEMU VM, through its QEMU guest agent (docs/guest.md).",
    after_long_help = "EXAMPLES
  haltwise apply plan.json                        print what it would change
  haltwise apply plan.json --yes                  apply it
  haltwise apply --set halt_poll_ns=80us          print what would change
  haltwise apply --set halt_poll_ns=0 --yes       disable polling
  haltwise apply --set halt_poll_ns=80us --persist --yes
  haltwise apply --vm web1 --ceiling 0 --yes      no polling for one VM
  haltwise apply --vm web1 --set guest_halt_poll_ns=750us --yes
                                                  in the guest, by its agent
  haltwise apply plan.json --yes --follow         also for VMs that come later

A plan that has ceilings sets them together with the parameters, for the VMs of
those names that run. Applied again, it sets what is missing: VMs that came
later. --follow does so as they come, until it is interrupted.

Exits with 5 if a parameter was set but does not apply to a running VM, or if a
ceiling of the plan was not set (its VM does not run, or its VMM cannot be
asked), with 3 if this kernel does not have the parameter or it is read-only.

In a guest, the parameters of its governor haltpoll are set, kept and restored
in the same way: guest_halt_poll_ns, guest_halt_poll_grow and the others."
)]
pub(crate) struct Arguments {
    /// Plan written by `haltwise tune --plan`
    #[arg(value_name = "PLAN")]
    plan: Option<PathBuf>,
    /// Parameter and value, for example `halt_poll_ns=80us`; may be repeated
    #[arg(
        long,
        value_name = "NAME=VALUE",
        conflicts_with = "plan",
        group = "of_vm"
    )]
    set: Vec<String>,
    /// VM whose ceiling or guest is set, by name, process or another of its names; may be repeated
    #[arg(
        long = "vm",
        value_name = "VM",
        requires = "of_vm",
        conflicts_with = "plan"
    )]
    vms: Vec<VmSelector>,
    /// Ceiling of these VMs: a time, or nanoseconds; 0 disables polling
    #[arg(
        long,
        value_name = "TIME",
        group = "of_vm",
        requires = "vms",
        conflicts_with_all = ["plan", "set", "persist"]
    )]
    ceiling: Option<String>,
    /// Make the changes
    #[arg(long)]
    yes: bool,
    /// Go on until interrupted: set the ceilings of VMs of the plan that come later
    #[arg(long, requires = "plan", requires = "yes")]
    follow: bool,
    /// Also set the parameters at every boot
    #[arg(long)]
    persist: bool,
    /// Also overwrite parameters that were modified externally
    #[arg(long)]
    take_over: bool,
    /// Print JSON (schema 1, see docs/status-json.md)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    root: GivenRoot,
}

fn targets(arguments: &Arguments) -> Result<Vec<(Target, u32)>, Failure> {
    let (root, vms) = (&arguments.root, &arguments.vms);
    if let Some(text) = &arguments.ceiling {
        let usage = |error| Failure::new(Exit::Usage, anyhow::Error::new(error));
        let ns = Parameter::HaltPollNs.value(text).map_err(usage)?;
        return ceilings::of_vms(root, vms, ns);
    }
    let settings = settings(&arguments.set)?;
    if !vms.is_empty() {
        may_be_set_in_a_guest(&settings, arguments.persist)?;
        return ceilings::in_guests(root, vms, &settings);
    }
    Ok(settings
        .iter()
        .map(|(it, value)| (Target::Parameter(it), value))
        .collect())
}

fn may_be_set_in_a_guest(settings: &Values, persist: bool) -> Result<(), Failure> {
    let usage = |error: anyhow::Error| Failure::new(Exit::Usage, error);
    let mut others = settings.iter().map(|(parameter, _)| parameter);
    if let Some(other) = others.find(|parameter| !parameter.is_of_guest()) {
        let error = anyhow::anyhow!("--set {other}: with --vm only guest_halt_poll_* can be set");
        return Err(usage(error).hint("--ceiling sets the ceiling of one VM in its host"));
    }
    if persist {
        let error = anyhow::anyhow!("--persist: not in a guest from its host");
        return Err(usage(error).hint(
            "hand the settings to the guest at each start by fw_cfg and its unit: docs/guest.md, \
             \"From the host without an agent\"; or run haltwise in the guest",
        ));
    }
    Ok(())
}

/// Reads `NAME=VALUE` texts; a parameter that comes twice is an error.
fn settings(texts: &[String]) -> Result<Values, Failure> {
    let mut settings = Values::default();
    for text in texts {
        let usage = |error: anyhow::Error| Failure::new(Exit::Usage, error);
        let Some((name, value)) = text.split_once('=') else {
            return Err(usage(anyhow::anyhow!("--set {text}: expected NAME=VALUE"))
                .hint("for example --set halt_poll_ns=80us"));
        };
        let parameter: Parameter = name
            .parse()
            .map_err(|error| usage(anyhow::Error::new(error)))?;
        let value = parameter
            .value(value)
            .map_err(|error| usage(anyhow::Error::new(error)))?;
        if settings.get(parameter).is_some() {
            return Err(usage(anyhow::anyhow!("--set {parameter} is given twice")));
        }
        settings.set(parameter, Some(value));
    }
    Ok(settings)
}

pub(crate) fn run(options: &Arguments) -> Outcome {
    let root = &options.root;
    let plan = options.plan.as_deref().map(Plan::read).transpose()?;
    let plan = plan.as_ref();
    let (wanted, unset) = match plan {
        Some(plan) => of_plan(root, plan)?,
        None => (targets(options)?, Vec::new()),
    };
    let request = Request {
        wanted,
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
    view.unset.extend(unset);
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

/// Targets of a plan and their values, and ceilings of it that cannot be set now.
fn of_plan(root: &Root, plan: &Plan) -> Result<(ceilings::Wanted, Vec<Unset>), Failure> {
    let (mut targets, unset) = ceilings::of_plan(root, &plan.ceilings)?;
    let settings = plan.settings.iter();
    targets.extend(settings.map(|(it, value)| (Target::Parameter(it), value)));
    Ok((targets, unset))
}

fn sets_ceiling(request: &Request, pid: u32) -> bool {
    let mut vms = request.wanted.iter().filter_map(|(it, _)| it.ceiling());
    vms.any(|vm| vm.pid.0 == pid)
}

fn look(root: &Root, request: &Request) -> Result<Applied, KnobError> {
    let now = Snapshot::read(root)?;
    let proposal = now.propose(request)?;
    let mut view = Applied::new(root, &now, request, &proposal, &[]);
    if change(root, &proposal).is_some() {
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
    let vms = if let Some(change) = change(root, &proposal) {
        let vms = watching::watch(root, &change);
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

/// The change of the ceiling, if it is among what was done.
fn change(root: &Root, proposal: &Proposal) -> Option<CeilingChange> {
    let ceiling = Target::Parameter(Parameter::HaltPollNs);
    let mut changes = proposal.changes.iter().filter(|it| !it.is_made());
    let change = changes.find(|it| it.target == ceiling)?;
    let old = change.old.value.as_ref()?.parse().ok()?;
    Some(CeilingChange {
        old,
        now: watching::knobs(root)?,
    })
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
fn follow(options: &Arguments, plan: &Plan, set: &[(Target, u32)], outcome: Outcome) -> Outcome {
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
