//! What `haltwise apply` does: looks what a wish comes to, and with `--yes` does it and watches whether
//! the VMs that run follow.
//!
//! [`view`] holds what is said, [`text`] lays it out; what `undo` and `status` share is in [`crate::knob`].

mod text;
mod view;

use std::path::PathBuf;

use haltwise_host::knob::effect::Change;
use haltwise_host::knob::{self, Fault, Keeper, KnobError, Look, Parameter, Proposal, State, Wish};
use haltwise_host::root::Root;
use haltwise_host::support::KernelRelease;

use self::view::{Applied, PlanView};
use crate::exit::{Exit, Outcome};
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
pub(crate) struct Wanted {
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
}

/// Does it, or says what it would do.
pub(crate) fn run(wanted: &Wanted) -> Outcome {
    let (parameters, plan) = match &wanted.source {
        Source::Set(parameters) => (parameters.clone(), None),
        Source::Plan(path) => {
            let plan = Plan::read(path)?;
            let named = plan.settings.named();
            let named = named.map(|(name, value)| Ok((name.parse()?, value)));
            let named = named.collect::<Result<_, KnobError>>().map_err(explain)?;
            (named, Some(plan))
        }
    };
    let wish = Wish {
        parameters,
        persist: wanted.persist,
        take_over: wanted.take_over,
    };
    let root = &wanted.root;
    let mut warnings = plan.as_ref().map_or_else(Vec::new, |it| suits(root, it));
    warnings.extend(knob::advice(&wish.parameters, |it| value(root, it)));
    warnings.extend(overruled(root, &wish));
    let plan = plan.as_ref().map(PlanView::of);
    let view = if wanted.yes {
        act(wanted, &wish, warnings, plan)?
    } else {
        let look = Look::at(root).map_err(explain)?;
        let look = look.ok_or_else(|| explain(KnobError::busy(root)))?;
        let proposal = look.propose(&wish).map_err(explain)?;
        warnings.extend(until_boot(&look.state, &wish));
        let settled = look.open.as_ref();
        if change(root, &proposal).is_some() {
            warnings.extend(vms(root).warning());
        }
        Applied::new(&proposal, settled, warnings, plan)
    };
    say(&view, wanted.json)?;
    Ok(if view.vms.iter().any(|vm| vm.refuses().is_some()) {
        Exit::Partial
    } else {
        Exit::Done
    })
}

fn act(
    wanted: &Wanted,
    wish: &Wish,
    mut warnings: Vec<String>,
    plan: Option<PlanView>,
) -> Result<Applied, crate::exit::Failure> {
    let root = &wanted.root;
    // What cannot be done leaves no trace, not even an empty journal.
    if let Some(look) = Look::at(root).map_err(explain)? {
        look.propose(wish).map_err(explain)?;
    }
    let mut keeper = Keeper::open(root, &who(), wanted.fault).map_err(explain)?;
    let proposal = keeper.propose(wish).map_err(explain)?;
    warnings.extend(until_boot(&keeper.state(), wish));
    let step = keeper.apply(&proposal).map_err(explain)?;
    let settled = keeper.settled().cloned();
    drop(keeper);
    let mut view = Applied::new(&proposal, settled.as_ref(), warnings, plan);
    view.done = true;
    view.step = step;
    view.undo = step.map(|step| format!("haltwise undo --step {step}"));
    if let Some(change) = change(root, &proposal) {
        let vms = watching::watch(root, &change);
        view.warnings.extend(vms.warning());
        (view.vms, view.vms_unwatched) = (vms.rows, vms.unwatched);
    }
    Ok(view)
}

/// The change of the ceiling, if it is among what was done.
fn change(root: &Root, proposal: &Proposal) -> Option<Change> {
    let ceiling = knob::Target::Parameter(Parameter::HaltPollNs);
    let turn = proposal.turns.iter().find(|turn| turn.target == ceiling)?;
    let old = turn.old.as_ref()?.parse().ok()?;
    Some(Change {
        old,
        now: watching::knobs(root)?,
    })
}

fn say(view: &Applied, json: bool) -> Result<(), crate::exit::Failure> {
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
fn until_boot(state: &State, wish: &Wish) -> Vec<String> {
    let persisted = knob::persisted(state);
    let wanted = wish.parameters.iter().filter(|_| !wish.persist);
    let others = wanted.filter_map(|(parameter, value)| {
        let at_boot = persisted.get(parameter).filter(|it| *it != value)?;
        Some(format!(
            "{parameter} is {at_boot} again after the next boot, as --persist had it written"
        ))
    });
    others.collect()
}

/// Who else sets what we would have set at boot, and is read after us.
fn overruled(root: &Root, wish: &Wish) -> Vec<String> {
    if !wish.persist {
        return Vec::new();
    }
    let values = wish.parameters.iter().copied().collect();
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
