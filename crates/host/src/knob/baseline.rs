//! Values that haltwise has set, and the values before: one baseline for each target.
//!
//! Undo restores the baseline, however many applies lie between. A change is on disk as an intent before
//! it is made; [`settle`] finds out what became of intents that a crash left, and what a boot left of the
//! parameters. Reads nothing itself.

use haltwise_core::parameter::{Parameter, Values};
use serde::{Deserialize, Serialize};

use super::error::{Foreign, KnobError};
use super::target::{Found, Target};

pub(super) const SCHEMA: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    pub(super) schema: u32,
    pub step: u64,
    pub held: Vec<Held>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    pub target: Target,
    /// Value before the first apply: a number, or `null` for no file.
    pub before: Option<String>,
    /// Value that haltwise wrote last; `null` if haltwise has not written it yet.
    pub ours: Option<String>,
    /// The VM had no ceiling of its own before the first apply, and followed `halt_poll_ns`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub followed: bool,
    /// The boot of the guest that it is in, as the guest named it; nothing where it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) guest_boot: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) intent: Option<Intent>,
    /// It was modified externally, and undo left it: not ours until a boot, or until it is taken over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) left: bool,
    /// The boot in which it was set (`/proc/sys/kernel/random/boot_id`).
    pub(super) boot: String,
    /// Number of the apply that set it last.
    pub step: u64,
    pub who: String,
    pub unix_ns: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Intent {
    Set(String),
    Restore,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Done,
    NotDone,
    /// The target has neither the old value nor the new: it was modified externally.
    Theirs,
}

/// An apply or undo that was cut off, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutOff {
    /// Number of the apply, or of the one that was being undone.
    pub step: u64,
    pub who: String,
    pub undo: bool,
    pub results: Vec<(Target, Outcome)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settled {
    pub(super) baseline: Baseline,
    pub(super) cut_off: Option<CutOff>,
    /// Parameters that a boot has reset, of the host or of a guest, and what was set of VMs that have ended.
    pub(super) gone: Vec<Held>,
}

impl Held {
    /// Whether the guest that it is in has booted since it was set, as far as both are known.
    pub(super) fn is_of_earlier_boot(&self, found: &Found) -> bool {
        let boots = self.guest_boot.as_ref().zip(found.guest_boot.as_ref());
        boots.is_some_and(|(set_in, now)| set_in != now)
    }
}

impl Default for Baseline {
    fn default() -> Self {
        Self {
            schema: SCHEMA,
            step: 0,
            held: Vec::new(),
        }
    }
}

impl Baseline {
    pub fn get(&self, target: Target) -> Option<&Held> {
        self.held.iter().find(|held| held.target == target)
    }

    pub(super) fn get_mut(&mut self, target: Target) -> Option<&mut Held> {
        self.held.iter_mut().find(|held| held.target == target)
    }

    /// The same; made by `new` if it is not there.
    pub(super) fn entry(&mut self, target: Target, new: impl FnOnce() -> Held) -> &mut Held {
        let at = self.held.partition_point(|held| held.target < target);
        if self.held.get(at).is_none_or(|held| held.target != target) {
            self.held.insert(at, new());
        }
        &mut self.held[at]
    }

    pub(super) fn forget(&mut self, target: Target) {
        self.held.retain(|held| held.target != target);
    }

    pub fn persisted(&self) -> Values {
        let texts = self.held.iter().filter_map(|held| {
            let file = held.target.file()?;
            Some(file.values(held.ours.as_deref()?))
        });
        texts.fold(Values::default(), |values, of_file| of_file.over(values))
    }

    pub(super) fn foreign(&self, target: Target, found: Option<&str>) -> Option<Foreign> {
        let held = self.get(target)?;
        let module_gone = found.is_none() && target.file().is_none();
        let as_set = !held.left && (found == held.ours.as_deref() || module_gone);
        (!as_set).then(|| Foreign {
            target,
            found: found.map(str::to_owned),
            ours: held.ours.clone(),
            step: held.step,
            who: held.who.clone(),
        })
    }

    /// Forgets parameters that have the value from before again, unless a boot file of ours names them.
    pub(super) fn forget_restored(&mut self) {
        let persisted = self.persisted();
        self.held.retain(|held| match held.target {
            Target::Parameter(parameter) => {
                let is_restored = held.ours == held.before && held.intent.is_none() && !held.left;
                !is_restored || persisted.get(parameter).is_some()
            }
            Target::Ceiling(_) | Target::Guest(_) => {
                let is_set = held.ours != held.before || held.followed;
                is_set || held.intent.is_some() || held.left
            }
            Target::File(_) => true,
        });
    }

    /// Refuses JSON that has the shape of a baseline and cannot be one.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.schema != SCHEMA {
            return Err(format!("has schema {}, not {SCHEMA}", self.schema));
        }
        if !self.held.is_sorted_by(|one, next| one.target < next.target) {
            return Err("does not name each target once, in order".to_owned());
        }
        let (files, parameters): (Vec<_>, Vec<_>) =
            (self.held.iter()).partition(|it| it.target.file().is_some());
        // Undo removes the boot files that haltwise made, and writes none.
        if files.iter().any(|held| held.before.is_some()) {
            return Err("has a boot file that haltwise did not write".to_owned());
        }
        for held in parameters {
            let set = match &held.intent {
                Some(Intent::Set(value)) => Some(value),
                _ => None,
            };
            let values = held.before.iter().chain(&held.ours).chain(set);
            let target = held.target;
            if held.before.is_none() || !values.into_iter().all(|it| target.number(it).is_some()) {
                let name = target.name();
                return Err(format!("has a value of {name} that it cannot be"));
            }
        }
        Ok(())
    }
}

pub(super) fn settle(
    baseline: &Baseline,
    boot: &str,
    read: impl Fn(Target) -> Result<Found, KnobError>,
) -> Result<Settled, KnobError> {
    let files = Files::of(&baseline.held, &read)?;
    let mut settled = Settled {
        baseline: baseline.clone(),
        cut_off: None,
        gone: Vec::new(),
    };
    settled.baseline.held.clear();
    for held in &baseline.held {
        // Numbers of processes begin again with a boot.
        let is_past = matches!(held.target, Target::Guest(_)) && held.boot != boot;
        let look = |target| (!is_past).then(|| read(target));
        let found = match look(held.target).unwrap_or_else(|| Ok(Found::default())) {
            // Nothing is known of it until its VMM, or the agent in its guest, answers.
            Err(error) if error.is_no_answer() => {
                settled.baseline.held.push(held.clone());
                continue;
            }
            found => found?,
        };
        let (kept, outcome) = match held.target {
            // It has ended, or its guest has booted, or another VM that follows halt_poll_ns stands in its place.
            Target::Ceiling(_) | Target::Guest(_)
                if found.value.is_none() || found.follows || held.is_of_earlier_boot(&found) =>
            {
                settled
                    .gone
                    .extend(held.ours.is_some().then(|| held.clone()));
                (None, held.intent.as_ref().map(|_| Outcome::NotDone))
            }
            Target::Parameter(parameter) if held.boot != boot => {
                let kept = files.after_boot(held, parameter, found.text(), boot);
                if kept.is_none() {
                    settled.gone.push(held.clone());
                }
                let by_file = kept.as_ref().is_some_and(|kept| kept.ours == found.value);
                let outcome = if by_file {
                    Outcome::Done
                } else {
                    Outcome::NotDone
                };
                (kept, held.intent.as_ref().map(|_| outcome))
            }
            _ => in_this_boot(held, found.text()),
        };
        settled.baseline.held.extend(kept);
        if let (Some(intent), Some(outcome)) = (&held.intent, outcome) {
            let cut_off = settled.cut_off.get_or_insert_with(|| CutOff {
                step: held.step,
                who: held.who.clone(),
                undo: *intent == Intent::Restore,
                results: Vec::new(),
            });
            cut_off.results.push((held.target, outcome));
        }
    }
    settled.baseline.forget_restored();
    Ok(settled)
}

/// Held entry of a target after a crash in this boot, or of a file.
fn in_this_boot(held: &Held, found: Option<&str>) -> (Option<Held>, Option<Outcome>) {
    let module_gone = found.is_none() && held.target.file().is_none();
    let Some(intent) = held.intent.as_ref().filter(|_| !module_gone) else {
        return (Some(held.clone()), None);
    };
    let mut kept = held.clone();
    kept.intent = None;
    let (old, new) = match intent {
        Intent::Set(value) => {
            let old = held.ours.as_ref().or(held.before.as_ref());
            (old.map(String::as_str), Some(value.as_str()))
        }
        Intent::Restore => (held.ours.as_deref(), held.before.as_deref()),
    };
    if found == new {
        kept.ours = found.map(str::to_owned);
        let is_parameter = held.target.parameter().is_some();
        let gone = !is_parameter && *intent == Intent::Restore;
        return ((!gone).then_some(kept), Some(Outcome::Done));
    }
    if found == old {
        let stays = held.ours.is_some() || held.target.file().is_none();
        kept.ours = found.map(str::to_owned);
        return (stays.then_some(kept), Some(Outcome::NotDone));
    }
    kept.left = true;
    if kept.ours.is_none() {
        kept.ours = new.map(str::to_owned);
    }
    let stays = held.target.file().is_none();
    (stays.then_some(kept), Some(Outcome::Theirs))
}

struct Files {
    /// By the text that we wrote, or were about to write.
    texts: Vec<Values>,
    /// By the text that is there now, where it is ours.
    present: Values,
}

impl Files {
    fn of(
        held: &[Held],
        read: impl Fn(Target) -> Result<Found, KnobError>,
    ) -> Result<Self, KnobError> {
        let mut files = Self {
            texts: Vec::new(),
            present: Values::default(),
        };
        for held in held {
            let Some(file) = held.target.file() else {
                continue;
            };
            let intended = match &held.intent {
                Some(Intent::Set(text)) => Some(text),
                _ => None,
            };
            let ours: Vec<&String> = held.ours.iter().chain(intended).collect();
            files
                .texts
                .extend(ours.iter().map(|text| file.values(text)));
            let found = read(held.target)?.value;
            if let Some(found) = found.filter(|found| ours.contains(&found)) {
                files.present = file.values(&found).over(files.present);
            }
        }
        Ok(files)
    }

    /// Held entry of a parameter that was set in an earlier boot. The parameter has either the value of our boot
    /// files, or one that was set since while they are there; else the boot has reset it.
    fn after_boot(
        &self,
        held: &Held,
        parameter: Parameter,
        found: Option<&str>,
        boot: &str,
    ) -> Option<Held> {
        let found = found.and_then(|found| parameter.value(found).ok());
        let mut set = self.texts.iter().filter_map(|file| file.get(parameter));
        let value = set
            .find(|value| Some(*value) == found)
            .or(self.present.get(parameter))?;
        Some(Held {
            ours: Some(parameter.written(value)),
            intent: None,
            left: false,
            boot: boot.to_owned(),
            ..held.clone()
        })
    }
}
