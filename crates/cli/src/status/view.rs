//! Status as data, the JSON of `--json`: what is recorded, the parameters and the VMs.

use std::collections::BTreeMap;

use haltwise_capture::info::Clock;
use haltwise_core::kvm::Knobs;
use haltwise_core::kvm::guest::Params;
use haltwise_core::parameter::{Parameter, Values};
use haltwise_host::knob::effect::Watched;
use haltwise_host::knob::{
    self, BASELINE, Baseline, Foreign, Held, HeldNow, KnobError, Line, Settings, Snapshot, Target,
};
use haltwise_host::params;
use haltwise_host::root::{Root, RootError};
use haltwise_host::support::KernelRelease;
use serde::Serialize;

use crate::exit::Failure;
use crate::knob::explain::explain;
use crate::knob::{ChangeView, CutOffView, SCHEMA, name_of, watching};
use crate::pilot_state::{PilotStatus, kept};
use crate::state::command;

#[derive(Debug, Serialize)]
pub(crate) struct Status {
    pub(crate) schema: u32,
    pub(crate) kernel: String,
    pub(crate) knobs: Vec<KnobView>,
    /// Settings that haltwise made, by the apply that set them last, newest first.
    pub(crate) steps: Vec<StepView>,
    pub(crate) persisted: Vec<Persisted>,
    /// Remarks in words: settings without effect, likely slips, and changes by the next boot.
    pub(crate) remarks: Vec<String>,
    /// Settings of haltwise that were modified externally since, in words.
    pub(crate) theirs: Vec<String>,
    pub(crate) vms: Vec<Watched>,
    pub(crate) vms_unwatched: Option<String>,
    pub(crate) journal: Journal,
    /// Last status of `haltwise pilot`; `null` if none has run.
    pub(crate) pilot: Option<PilotStatus>,
}

#[derive(Debug, Serialize)]
pub(crate) struct KnobView {
    pub(crate) name: &'static str,
    /// `null` where this kernel has none.
    pub(crate) value: Option<u32>,
    /// Default of an upstream kernel of this version; `null` where the default is not known.
    pub(crate) default: Option<u32>,
    /// `haltwise`, `default` (as the kernel sets it), `other`, or `unknown` without the journal.
    pub(crate) set_by: &'static str,
    /// The file, or the kernel's command line, that has this value, where haltwise did not set it.
    pub(crate) origin: Option<String>,
    /// Number of the apply, if it was haltwise.
    pub(crate) step: Option<u64>,
}

/// Settings of an apply that no later apply has replaced.
#[derive(Debug, Serialize)]
pub(crate) struct StepView {
    pub(crate) step: u64,
    /// RFC 3339, UTC.
    pub(crate) time: String,
    pub(crate) who: String,
    /// Values before the first apply, and the values that were set.
    pub(crate) turns: Vec<ChangeView>,
    pub(crate) unknown: Vec<UnknownView>,
    pub(crate) gone: Vec<String>,
    pub(crate) persists: bool,
    pub(crate) undo: String,
}

/// A setting whose value a VMM, or the agent in a guest, does not report.
#[derive(Debug, Serialize)]
pub(crate) struct UnknownView {
    pub(crate) name: String,
    pub(crate) old: Option<String>,
    pub(crate) set: Option<String>,
    pub(crate) why: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct Persisted {
    pub(crate) name: &'static str,
    pub(crate) value: u32,
}

#[derive(Debug, Serialize)]
pub(crate) struct Journal {
    pub(crate) path: String,
    /// Why nothing of it is known: then neither is who set what, nor what can be undone.
    pub(crate) unknown: Option<String>,
    /// An apply or undo that was cut off, and what became of it.
    pub(crate) open: Option<CutOffView>,
}

pub(crate) fn collect(root: &Root) -> Result<Status, Failure> {
    let kernel = KernelRelease::read(root)?;
    let look = look(root)?;
    let baseline = look
        .as_ref()
        .map_or_else(|_| Baseline::default(), |it| it.baseline.clone());
    let HeldNow { foreign, unknown } = match &look {
        Ok(look) => look.held_now().map_err(explain)?,
        Err(_) => HeldNow::default(),
    };
    let defaults =
        watching::kernel(&kernel.text).map(|(version, arch)| Knobs::defaults(version, arch));
    let lines = knob::lines(root);
    let is_foreign = |target| foreign.iter().any(|it| it.target == target);
    let view = |parameter: Parameter| {
        let target = Target::Parameter(parameter);
        let value = crate::knob::value(root, parameter);
        let default = default(defaults.as_ref(), parameter);
        let ours = baseline.get(target).filter(|_| !is_foreign(target));
        KnobView {
            name: parameter.name(),
            value,
            default,
            set_by: match ours {
                Some(_) => "haltwise",
                None if value == default => "default",
                None if look.is_err() => "unknown",
                None => "other",
            },
            origin: (value.filter(|_| ours.is_none()))
                .and_then(|value| knob::holder(&lines, parameter, value))
                .map(|line| line.place.clone()),
            step: ours.map(|held| held.step),
        }
    };
    let mut vms = watching::look(root);
    for vm in &mut vms.rows {
        let mut held = baseline.held.iter();
        let is_its = |target| matches!(target, Target::Ceiling(key) if key.pid.0 == vm.pid);
        let held = held.find(|held| is_its(held.target) && !is_foreign(held.target));
        vm.step = held.map(|held| held.step);
    }
    let persisted = baseline.persisted();
    Ok(Status {
        schema: SCHEMA,
        kernel: kernel.to_string(),
        // The ceiling first, as people think of it.
        knobs: (Parameter::ALL.into_iter().rev())
            .filter(|it| !it.is_of_guest() || crate::knob::value(root, *it).is_some())
            .map(view)
            .collect(),
        steps: steps(root, &baseline, &foreign, &unknown),
        persisted: (persisted.iter())
            .map(|(parameter, value)| Persisted {
                name: parameter.name(),
                value,
            })
            .collect(),
        remarks: remarks(root, &lines),
        theirs: foreign.iter().map(ToString::to_string).collect(),
        vms: vms.rows,
        vms_unwatched: vms.unwatched,
        journal: journal(root, &look),
        pilot: kept::status(root),
    })
}

/// Remarks on the settings in force, on lines without effect, and on the next boot where that differs.
fn remarks(root: &Root, lines: &[Line]) -> Vec<String> {
    let now = knob::remarks(&Settings::of(&params::read(root, 0).unwrap_or_default()));
    let mut next = knob::at_boot(lines, &Values::default());
    next.retain(|it| !(now.iter()).any(|now| now.finding.why == it.finding.why));
    let all = now.into_iter().chain(knob::without_effect(lines));
    all.chain(next).map(|it| it.finding.to_string()).collect()
}

fn look(root: &Root) -> Result<Result<Snapshot, String>, Failure> {
    match Snapshot::read(root) {
        Ok(look) => Ok(Ok(look)),
        Err(KnobError::Busy { .. }) => Ok(Err("another haltwise is writing it".to_owned())),
        Err(
            error @ (KnobError::Denied { .. }
            | KnobError::Untrusted { .. }
            | KnobError::Read(RootError::Denied { .. })),
        ) => Ok(Err(error.to_string())),
        Err(error) => Err(explain(error)),
    }
}

/// Settings that are held, by the apply that set them last, newest first.
fn steps(
    root: &Root,
    baseline: &Baseline,
    foreign: &[Foreign],
    unknown: &[(Target, String)],
) -> Vec<StepView> {
    let mut by_step: BTreeMap<u64, Vec<&Held>> = BTreeMap::new();
    for held in &baseline.held {
        by_step.entry(held.step).or_default().push(held);
    }
    let is_foreign = |held: &&&Held| foreign.iter().any(|it| it.target == held.target);
    let step = |(number, held): (u64, Vec<&Held>)| {
        let newest = held.first()?;
        let why_unknown = |held: &Held| unknown.iter().find(|it| it.0 == held.target);
        let known = held.iter().filter(|held| why_unknown(held).is_none());
        let counts = known.filter(|held| !is_foreign(held));
        let unknown = held.iter().filter_map(|held| {
            Some(UnknownView {
                name: name_of(root, held.target),
                old: held.before.clone(),
                set: held.ours.clone(),
                why: why_unknown(held)?.1.clone(),
            })
        });
        let change = |held: &&Held| ChangeView {
            name: name_of(root, held.target),
            old: held.before.clone(),
            new: held.ours.clone(),
            follows: held.followed,
        };
        Some(StepView {
            step: number,
            time: Clock::new(0, newest.unix_ns).start_utc,
            who: newest.who.clone(),
            turns: counts.map(change).collect(),
            unknown: unknown.collect(),
            gone: (held.iter().filter(is_foreign))
                .map(|held| name_of(root, held.target))
                .collect(),
            persists: held.iter().any(|held| held.target.file().is_some()),
            undo: command(root, "undo"),
        })
    };
    by_step.into_iter().rev().filter_map(step).collect()
}

fn journal(root: &Root, look: &Result<Snapshot, String>) -> Journal {
    let known = look.as_ref().ok();
    Journal {
        path: root.path(BASELINE).display().to_string(),
        unknown: look.as_ref().err().cloned(),
        open: known
            .and_then(|it| it.cut_off.as_ref())
            .map(|it| CutOffView::new(root, it)),
    }
}

fn default(kvm: Option<&Knobs>, parameter: Parameter) -> Option<u32> {
    let kvm = kvm.map_or_else(Values::default, |kvm| Values::from(*kvm));
    kvm.over(Params::default()).get(parameter)
}
