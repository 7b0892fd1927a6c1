//! Journals of haltwise before it kept a baseline: what they come to, as a baseline.
//!
//! Each line is `{"sum":"…","entry":{…}}`; an intent with its changes, then how each ended. An undo took
//! back one apply at a time, so that values between come up, which have no baseline of their own.

use serde::Deserialize;

use super::baseline::{Baseline, Held, Intent};
use super::target::{Form, Target};

#[derive(Debug, Deserialize)]
struct Line {
    entry: Entry,
}

#[derive(Debug, Deserialize)]
struct Entry {
    unix_ns: u64,
    boot: String,
    who: String,
    act: Act,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Act {
    Intend(Meant),
    /// As `End`, which follows it.
    Found(serde::de::IgnoredAny),
    End(End),
    Mended(serde::de::IgnoredAny),
}

#[derive(Debug, Deserialize)]
struct Meant {
    step: u64,
    undoes: Option<u64>,
    takes_over: Vec<Target>,
    turns: Vec<Turn>,
    leaves: Vec<Left>,
}

#[derive(Debug, Deserialize)]
struct Turn {
    target: Target,
    old: Option<String>,
    new: Option<String>,
    old_form: Option<Form>,
}

#[derive(Debug, Deserialize)]
struct Left {
    target: Target,
    why: Why,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Why {
    Theirs,
    Rebooted,
}

#[derive(Debug, Deserialize)]
struct End {
    results: Vec<Outcome>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    Done,
    NotDone,
    Theirs,
    /// A boot file that contradicted the other: of an apply taken back, of an undo brought to its end.
    Mended,
}

/// Reads such a journal. A last line without its end was not acted on.
pub(super) fn baseline(journal: &[u8]) -> Result<Baseline, String> {
    let mut folded = Folded::default();
    for (index, line) in journal.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if !line.ends_with(b"\n") {
            break;
        }
        let line: Line = serde_json::from_slice(line)
            .map_err(|error| format!("line {} is not understood: {error}", index + 1))?;
        folded.take(line.entry);
    }
    let baseline = folded.baseline;
    baseline.check()?;
    Ok(baseline)
}

#[derive(Debug, Default)]
struct Folded {
    baseline: Baseline,
    /// The last intent, until it ends.
    open: Option<Meant>,
}

impl Folded {
    fn take(&mut self, entry: Entry) {
        let Entry {
            unix_ns,
            boot,
            who,
            act,
        } = entry;
        match act {
            Act::Intend(turns) => {
                self.baseline.step = turns.step;
                self.carry_over(&turns, &boot);
                for turn in &turns.turns {
                    let new = || Held {
                        followed: false,
                        target: turn.target,
                        before: turn.old.clone(),
                        before_form: turn.old_form.clone(),
                        ours: None,
                        guest_boot: None,
                        intent: None,
                        left: false,
                        boot: boot.clone(),
                        step: turns.step,
                        who: who.clone(),
                        unix_ns,
                    };
                    let held = self.baseline.entry(turn.target, new);
                    if turns.takes_over.contains(&turn.target) && turns.undoes.is_none() {
                        *held = new();
                    }
                    held.intent = match &turn.new {
                        new if turns.undoes.is_some() && *new == held.before => {
                            Some(Intent::Restore)
                        }
                        new => new.clone().map(Intent::Set),
                    };
                    if turns.undoes.is_none() {
                        (held.step, held.who) = (turns.step, who.clone());
                        (held.unix_ns, held.boot) = (unix_ns, boot.clone());
                    }
                }
                self.open = Some(turns);
            }
            Act::End(end) => {
                if let Some(turns) = self.open.take() {
                    self.end(&turns, &end);
                }
            }
            Act::Found(_) | Act::Mended(_) => {}
        }
    }

    /// Goes on in another boot: of what is set anew, only what boot files repeated has a baseline from
    /// before it.
    fn carry_over(&mut self, turns: &Meant, boot: &str) {
        let persisted = self.baseline.persisted();
        for turn in &turns.turns {
            let target = turn.target;
            let Some(parameter) = target.parameter() else {
                continue;
            };
            let Some(held) = self.baseline.get_mut(target).filter(|it| it.boot != boot) else {
                continue;
            };
            let old = turn.old.as_ref().and_then(|old| old.parse().ok());
            if old.is_some() && persisted.get(&parameter).copied() == old {
                (held.ours, held.left) = (turn.old.clone(), false);
                boot.clone_into(&mut held.boot);
            } else {
                self.baseline.forget(target);
            }
        }
    }

    fn end(&mut self, turns: &Meant, end: &End) {
        let undoes = turns.undoes.is_some();
        for (turn, outcome) in turns.turns.iter().zip(&end.results) {
            match outcome {
                Outcome::Done => self.made(turn.target),
                Outcome::Mended if undoes => self.made(turn.target),
                Outcome::NotDone | Outcome::Mended => self.not_made(turn.target),
                Outcome::Theirs => self.leave(turn.target),
            }
        }
        let persisted = self.baseline.persisted();
        let is_persisted = |target: Target| {
            let parameter = target.parameter();
            parameter.is_some_and(|it| persisted.contains_key(&it))
        };
        for left in &turns.leaves {
            match left.why {
                Why::Theirs => self.leave(left.target),
                Why::Rebooted if is_persisted(left.target) => {}
                Why::Rebooted => self.baseline.forget(left.target),
            }
        }
    }

    fn made(&mut self, target: Target) {
        let Some(held) = self.baseline.get_mut(target) else {
            return;
        };
        match held.intent.take() {
            Some(Intent::Set(value)) => held.ours = Some(value),
            Some(Intent::Restore) => self.baseline.forget(target),
            None => {}
        }
    }

    fn not_made(&mut self, target: Target) {
        let Some(held) = self.baseline.get_mut(target) else {
            return;
        };
        held.intent = None;
        if held.ours.is_none() {
            self.baseline.forget(target);
        }
    }

    fn leave(&mut self, target: Target) {
        if target.file().is_some() {
            self.baseline.forget(target);
        } else if let Some(held) = self.baseline.get_mut(target) {
            if let Some(Intent::Set(value)) = held.intent.take() {
                held.ours.get_or_insert(value);
            }
            held.left = true;
        }
    }
}
