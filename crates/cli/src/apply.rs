//! What `haltwise apply` does: looks what a request comes to, and with `--yes` does it and watches whether
//! the VMs that run follow.
//!
//! [`view`] holds what is said, [`text`] lays it out; what `undo` and `status` share is in [`crate::knob`].

mod text;
mod view;

use std::path::PathBuf;

use haltwise_core::ids::VmKey;
use haltwise_host::ceiling::Governor;
use haltwise_host::discovery::{self, VmSelector};
use haltwise_host::knob::effect::CeilingChange;
use haltwise_host::knob::{
    self, Baseline, Fault, KnobError, Parameter, Proposal, Request, Snapshot, Target, Writer,
};
use haltwise_host::root::Root;
use haltwise_host::support::KernelRelease;

use self::view::{Applied, PlanView};
use crate::exit::{Exit, Failure, Outcome};
use crate::knob::explain::explain;
use crate::knob::{value, vms, watching, who};
use crate::plan::Plan;
use crate::{page, terminal};

/// What to do.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the command line's own switches"
)]
pub(crate) struct ApplyOptions {
    /// Where the values come from.
    pub(crate) source: Source,
    pub(crate) yes: bool,
    pub(crate) persist: bool,
    pub(crate) take_over: bool,
    pub(crate) json: bool,
    pub(crate) root: Root,
    pub(crate) fault: Option<Fault>,
}

/// Where the values come from.
#[derive(Debug)]
pub(crate) enum Source {
    Plan(PathBuf),
    Set(Vec<(Parameter, u32)>),
    /// The ceiling of VMs, in nanoseconds.
    Ceiling(Vec<VmSelector>, u32),
}

/// Does it, or says what it would do.
pub(crate) fn run(options: &ApplyOptions) -> Outcome {
    let mut ceilings = Vec::new();
    let (parameters, plan) = match &options.source {
        Source::Set(parameters) => (parameters.clone(), None),
        Source::Ceiling(vms, ns) => {
            ceilings = ceilings_of(&options.root, vms, *ns)?;
            (Vec::new(), None)
        }
        Source::Plan(path) => {
            let plan = Plan::read(path)?;
            let named = plan.settings.named();
            let named = named.map(|(name, value)| Ok((name.parse()?, value)));
            let named = named.collect::<Result<_, KnobError>>().map_err(explain)?;
            (named, Some(plan))
        }
    };
    let request = Request {
        parameters,
        ceilings,
        persist: options.persist,
        take_over: options.take_over,
    };
    let root = &options.root;
    let mut warnings = plan.as_ref().map_or_else(Vec::new, |it| suits(root, it));
    warnings.extend(knob::advice(&request.parameters, |it| value(root, it)));
    warnings.extend(overruled(root, &request));
    let plan = plan.as_ref().map(PlanView::of);
    let view = if options.yes {
        act(options, &request, warnings, plan)?
    } else {
        let look = Snapshot::read(root).map_err(explain)?;
        let look = look.ok_or_else(|| explain(KnobError::busy(root)))?;
        let proposal = look.propose(&request).map_err(explain)?;
        warnings.extend(until_boot(&look.baseline, &request));
        let cut_off = look.cut_off.as_ref();
        if change(root, &proposal).is_some() {
            warnings.extend(vms(root).warning());
        }
        Applied::new(root, &proposal, cut_off, warnings, plan)
    };
    say(&view, options.json)?;
    let by_vm = view.scope == "vm";
    Ok(
        if !by_vm && view.vms.iter().any(|vm| vm.refuses().is_some()) {
            Exit::Partial
        } else {
            Exit::Done
        },
    )
}

fn act(
    options: &ApplyOptions,
    request: &Request,
    mut warnings: Vec<String>,
    plan: Option<PlanView>,
) -> Result<Applied, Failure> {
    let root = &options.root;
    // What cannot be done leaves no trace, not even an empty journal.
    if let Some(look) = Snapshot::read(root).map_err(explain)? {
        look.propose(request).map_err(explain)?;
    }
    let mut writer = Writer::open(root, &who(), options.fault).map_err(explain)?;
    let proposal = writer.propose(request).map_err(explain)?;
    warnings.extend(until_boot(writer.baseline(), request));
    let cut_off = writer.cut_off().cloned();
    let step = writer.apply(&proposal).map_err(explain)?;
    drop(writer);
    let mut view = Applied::new(root, &proposal, cut_off.as_ref(), warnings, plan);
    view.done = true;
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

/// Every VM of the processes that are meant.
fn ceilings_of(root: &Root, wanted: &[VmSelector], ns: u32) -> Result<Vec<(VmKey, u32)>, Failure> {
    let vms = discovery::scan(root)?.vms;
    let mut ceilings = Vec::new();
    for selector in wanted {
        let vm = selector
            .select(&vms)
            .map_err(|error| Failure::new(Exit::Usage, anyhow::Error::new(error)))?;
        let governor = Governor::of(root, vm.pid()).map_err(|it| explain(it.into()))?;
        let governed = governor.vms().map_err(|it| explain(it.into()))?;
        if governed.is_empty() {
            let error = anyhow::anyhow!("set the ceiling of {}: its VMM reports no VM", vm.pid());
            return Err(Failure::new(Exit::Failed, error));
        }
        for (ordinal, _) in (0..).zip(&governed) {
            let key = VmKey {
                ordinal,
                ..governor.key()
            };
            ceilings.push((key, ns));
        }
    }
    ceilings.sort_unstable();
    ceilings.dedup();
    Ok(ceilings)
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
    for (name, before) in plan.before.named() {
        let now = name.parse().ok().and_then(|it| value(root, it));
        if let Some(now) = now.filter(|now| *now != before) {
            said.push(format!(
                "{name} was {before} when the plan was made and is {now} now: what it expects to \
                 change is against {before}"
            ));
        }
    }
    said
}

/// What a boot file of ours says otherwise.
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

/// Who else sets what we would have set at boot, and is read after us.
fn overruled(root: &Root, request: &Request) -> Vec<String> {
    if !request.persist {
        return Vec::new();
    }
    let values = request.parameters.iter().copied().collect();
    let rivals = knob::rivals(root, &values).into_iter();
    let said = |it: knob::Rival| {
        let (parameter, value) = (it.parameter, page::harmless(&it.value));
        format!(
            "{} sets {parameter}={value} at boot too, and is read after what --persist writes",
            page::harmless(&it.place)
        )
    };
    rivals.map(said).collect()
}
