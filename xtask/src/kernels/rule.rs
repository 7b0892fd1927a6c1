//! The kernel's rule of halt polling, held against the kernel: a grid of settings, odd ones included,
//! each recorded inside a stock kernel while lab guests halt. `haltwise verify` must then find every
//! transition as its rule has it, and the transitions that a setting allows must have happened.
//!
//! Parameters are written inside the emulated guest, never on this machine.

mod grid;

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

use super::check::{Check, Found};
use super::reported::{Verified, ask, count};
use super::scenario::recording;
use crate::say;
use grid::{Setting, settings};

const NAME: &str = "rule";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Some hundreds: what every run of all tests can afford.
    Quick,
    Thorough,
}

impl Depth {
    fn rounds(self) -> u32 {
        match self {
            Self::Quick => 600,
            Self::Thorough => 5_500,
        }
    }

    fn least(self) -> u64 {
        match self {
            Self::Quick => 500,
            Self::Thorough => 5_000,
        }
    }

    fn limit(self) -> Duration {
        match self {
            Self::Quick => Duration::from_secs(50),
            Self::Thorough => Duration::from_secs(150),
        }
    }
}

pub(crate) fn checks(depth: Depth) -> Vec<Check> {
    let settings = settings().into_iter();
    let check = |setting: Setting| {
        let name = format!("{NAME}-{}", setting.name);
        let script = script(&setting, depth);
        Check::new(name, script, depth.limit(), move |left| {
            let found = judge(&left.out_dir.join(setting.name), &setting, depth);
            vec![(setting.name, found)]
        })
    };
    settings.map(check).collect()
}

fn judge(dir: &Path, setting: &Setting, depth: Depth) -> Result<Found> {
    let verify = ["verify", "--json"];
    let mut verified: Verified = ask(&verify, &dir.join("capture"))?;
    verified.forgive(&std::fs::read_to_string(dir.join("written")).unwrap_or_default());
    Ok(verified.judge(setting, depth))
}

impl Verified {
    fn matched(&self, transition: &str) -> u64 {
        let of = self.transitions.get(transition);
        of.map_or(0, |counts| count(counts, "matched"))
    }

    /// A value that was written and replaced before the recorder looked is not known: an emulated machine may stand
    /// still for that long. One of the parameters changes with each line that was `written`.
    fn forgive(&mut self, written: &str) {
        // Without the number of changes nothing is forgiven.
        let changes = |it: &Value| it["changes"].as_u64().unwrap_or(u64::MAX);
        let seen = self.settings.iter().map(changes).max().unwrap_or(0);
        let all = written.lines().count() as u64;
        let (differ, checked) = (self.differences, self.checked);
        // Only halts during a change can have met another value.
        let changing = self
            .shown
            .iter()
            .filter(|it| it["settings"].as_u64() > Some(1));
        if differ > 0 && seen < all && changing.count() as u64 == differ {
            say::skipped(&format!(
                "{differ} of {checked} halts: the recorder saw {seen} of {all} settings"
            ));
            self.differences = 0;
        }
    }

    fn judge(&self, setting: &Setting, depth: Depth) -> Found {
        let (checked, differences, lost) = (self.checked, self.differences, self.capture.lost);
        let mut found = Found::default();
        let first = self.shown.first().map(ToString::to_string);
        let first = first.unwrap_or_default();
        let text = format!("{differences} differences, the first: {first}");
        found.require(differences == 0, text);
        let text = format!("only {checked} halts were checked");
        found.require(checked >= depth.least(), text);
        found.require(lost == 0, format!("{lost} events were lost"));
        for transition in setting.allows {
            let text = format!("there was no {transition}");
            found.require(self.matched(transition) > 0, text);
        }
        let [grow, shrink, silent, none] =
            ["grow", "shrink", "silent", "none"].map(|name| self.matched(name));
        let skipped: u64 = self.skipped.values().sum();
        found.summary = format!(
            "{checked} checked, {differences} differ: {grow} grow, {shrink} shrink, {silent} silent, {none} none; \
             {skipped} not checked, {} against several settings",
            self.several_settings
        );
        found
    }
}

fn script(setting: &Setting, depth: Depth) -> String {
    let name = setting.name;
    // Where settings change, there should be time for all of them.
    let times = if setting.during.is_empty() { 1 } else { 3 };
    let rounds = (depth.rounds() * times).to_string();
    let load = setting.load.replace("ROUNDS", &rounds);
    let mut inside = format!("lab {name}/lab '{load}'");
    // Formatting into a String cannot fail.
    if !setting.during.is_empty() {
        inside.push_str(" & lab=$!\nwhile kill -0 $lab 2>/dev/null; do");
        for parameters in setting.during {
            let _ = write!(
                inside,
                "\nset_all {parameters}\necho '{parameters}' >>/out/{name}/written\nsleep 0.5"
            );
        }
        inside.push_str("\ndone\nwait $lab");
    } else if let Some(then) = setting.then {
        let load = then.replace("ROUNDS", &(depth.rounds() / 4).to_string());
        let _ = write!(inside, "\nlab {name}/then '{load}'");
    }
    inside.push('\n');
    let recording = recording(name, &format!("--source {}", setting.rung), &inside);
    format!(
        ". /lab.sh\nset_all {}\n{recording}exit $failed\n",
        setting.before
    )
}

#[cfg(test)]
mod test;
