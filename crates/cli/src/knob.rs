//! KVM's parameters on this host, as the verbs that set them or show them share it.

pub(crate) mod ceilings;
pub(crate) mod explain;
pub(crate) mod text;
pub(crate) mod watching;

use haltwise_core::ids::VmKey;
use haltwise_core::parameter::Parameter;
use haltwise_host::discovery;
use haltwise_host::knob::{Change, CutOff, Left, Outcome, Target, Why};
use haltwise_host::root::Root;
use serde::Serialize;

use crate::page;

/// Version of the JSON of `apply`, `undo` and `status`.
pub(crate) const SCHEMA: u32 = 1;

pub(crate) fn value(root: &Root, parameter: Parameter) -> Option<u32> {
    parameter.value(&root.value(parameter.path()).ok()?).ok()
}

pub(crate) fn who() -> String {
    let words: Vec<String> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let program = |word: &String| word.rsplit('/').next().unwrap_or_default().to_owned();
    let mut line = words.first().map(program).unwrap_or_default();
    for word in words.iter().skip(1) {
        line.push(' ');
        line.push_str(word);
    }
    page::harmless(&line).chars().take(300).collect()
}

#[derive(Debug, Serialize)]
pub(crate) struct ChangeView {
    /// A parameter's name, in which guest if it is in one, the path of a boot file, or whose ceiling it is.
    pub(crate) name: String,
    /// Old value: a number, a file's text, or `null` where there was none.
    pub(crate) old: Option<String>,
    pub(crate) new: Option<String>,
    /// The VM followed `halt_poll_ns`, whose value `old` is.
    pub(crate) follows: bool,
}

#[derive(Debug, Serialize)]
pub(crate) struct LeftView {
    pub(crate) name: String,
    pub(crate) found: Option<String>,
    pub(crate) why: Why,
    /// Error message; only with `no-answer`.
    pub(crate) said: Option<String>,
}

/// An apply or undo that was cut off, and what became of it.
#[derive(Debug, Serialize)]
pub(crate) struct CutOffView {
    pub(crate) step: u64,
    pub(crate) who: String,
    /// The apply that it was to undo.
    pub(crate) undoes: Option<u64>,
    pub(crate) turns: Vec<CutOffChange>,
}

#[derive(Debug, Serialize)]
pub(crate) struct CutOffChange {
    pub(crate) name: String,
    /// `done`, `not-done` or `theirs`.
    pub(crate) result: Outcome,
}

/// Name of a target; for a VM, the VM's name, as long as the VM is there.
pub(crate) fn name_of(root: &Root, target: Target) -> String {
    let vm = target.vm();
    let found =
        vm.and_then(|vm| discovery::identify(root, vm.pid).filter(|it| is_process_of(it.key, vm)));
    let Some(name) = found.map(|it| format!("{} (pid {})", it.label.name, it.pid())) else {
        return target.name();
    };
    match target {
        Target::Guest(it) => format!("{} in {name}", it.parameter),
        _ => format!("ceiling of {name}"),
    }
}

/// Whether a process runs a VM; a process may run several.
fn is_process_of(process: VmKey, vm: VmKey) -> bool {
    (process.pid, process.start_ticks) == (vm.pid, vm.start_ticks)
}

impl ChangeView {
    pub(crate) fn new(root: &Root, change: &Change) -> Self {
        Self {
            name: name_of(root, change.target),
            old: change.old.value.clone(),
            new: change.new.clone(),
            follows: change.old.follows,
        }
    }
}

impl LeftView {
    pub(crate) fn new(root: &Root, left: &Left) -> Self {
        Self {
            name: name_of(root, left.target),
            found: left.found.clone(),
            why: left.why,
            said: left.said.clone(),
        }
    }
}

impl CutOffView {
    pub(crate) fn new(root: &Root, cut_off: &CutOff) -> Self {
        let turns = cut_off.results.iter().map(|(target, result)| CutOffChange {
            name: name_of(root, *target),
            result: *result,
        });
        Self {
            step: cut_off.step,
            who: cut_off.who.clone(),
            undoes: cut_off.undo.then_some(cut_off.step),
            turns: turns.collect(),
        }
    }
}
