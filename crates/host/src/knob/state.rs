//! What the journal comes to: which steps are in force, and whose each thing is.
//!
//! Pure: entries in, state out. It never looks at the machine.
//!
//! A parameter forgets everything at a boot, unless a boot file sets it again. So each turn of a
//! parameter counts for one boot. When the journal goes on in another boot, the turns of steps with
//! boot files are carried over into it; the others stay behind and are gone.

use std::collections::BTreeMap;

use super::entry::{Act, End, Entry, Intent, Left, Outcome, Target, Turn, Why};

/// What the journal comes to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// Steps that are in force, oldest first.
    pub steps: Vec<Step>,
    /// The last intent, if nobody wrote how it ended.
    pub open: Option<Open>,
    /// Number of the last entry.
    pub last_seq: u64,
    /// Number of the last step.
    pub last_step: u64,
    /// Parameters that are somebody else's since we turned them, in this boot.
    pub left: BTreeMap<Target, Lost>,
    /// The boot that turns of parameters count for.
    pub boot: String,
}

/// A step that is in force, at least in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its number.
    pub number: u64,
    /// When, in nanoseconds since 1970 (UTC).
    pub unix_ns: u64,
    /// Who.
    pub who: String,
    /// What it turned, in order.
    pub turns: Vec<Held>,
}

/// A turn that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The turn.
    pub turn: Turn,
    /// The boot that it counts for; for a file, the one in which it was made.
    pub boot: String,
    /// Somebody else has turned it since, in that boot.
    pub lost: bool,
}

/// What is somebody else's now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// The step that had turned it.
    pub step: u64,
    /// Who.
    pub who: String,
    /// To what.
    pub ours: Option<String>,
}

/// An intent that has no end yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// The intent.
    pub intent: Intent,
    /// When, in nanoseconds since 1970 (UTC).
    pub unix_ns: u64,
    /// In which boot.
    pub boot: String,
    /// Who.
    pub who: String,
    /// What was found out about it, and in which boot, by one who then began to put it right.
    pub found: Option<(String, End)>,
}

/// An entry that cannot follow those before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("entry {seq} {what}")]
pub struct Contradiction {
    /// The entry.
    pub seq: u64,
    /// What is wrong.
    pub what: String,
}

impl State {
    /// Takes all entries in.
    pub fn of(entries: &[Entry]) -> Result<Self, Contradiction> {
        let mut state = Self::default();
        for entry in entries {
            state.take(entry)?;
        }
        Ok(state)
    }

    /// Takes one more entry in.
    pub fn take(&mut self, entry: &Entry) -> Result<(), Contradiction> {
        let wrong = |what: String| Contradiction {
            seq: entry.seq,
            what,
        };
        match &entry.act {
            Act::Intend(intent) => {
                self.carry_over(&entry.boot);
                self.intend(intent, entry).map_err(wrong)?;
            }
            Act::Found(end) => {
                let open = self.open.as_mut();
                let open = open.ok_or_else(|| {
                    wrong(format!("tells of step {}, which nobody began", end.step))
                })?;
                check_end(&open.intent, end).map_err(wrong)?;
                open.found = Some((entry.boot.clone(), end.clone()));
            }
            Act::End(end) => {
                let open = self.open.take();
                let open = open
                    .ok_or_else(|| wrong(format!("ends step {}, which nobody began", end.step)))?;
                check_end(&open.intent, end).map_err(wrong)?;
                match open.intent.undoes {
                    None => self.applied(&open, end),
                    Some(step) => self.undone(step, &open.intent, end),
                }
                self.prune();
                self.carry_over(&entry.boot);
                self.mend(&open, end);
                self.prune();
            }
            Act::Mended { .. } => {}
        }
        self.last_seq = entry.seq;
        Ok(())
    }

    fn intend(&mut self, intent: &Intent, entry: &Entry) -> Result<(), String> {
        if let Some(open) = &self.open {
            let (this, that) = (intent.step, open.intent.step);
            return Err(format!("begins step {this} while step {that} has no end"));
        }
        if intent.step != self.last_step + 1 {
            let (this, last) = (intent.step, self.last_step);
            return Err(format!("begins step {this}, after step {last}"));
        }
        if let Some(step) = intent.undoes
            && self.step(step).is_none()
        {
            return Err(format!("undoes step {step}, which is not in force"));
        }
        self.last_step = intent.step;
        self.open = Some(Open {
            intent: intent.clone(),
            unix_ns: entry.unix_ns,
            boot: entry.boot.clone(),
            who: entry.who.clone(),
            found: None,
        });
        Ok(())
    }

    fn applied(&mut self, open: &Open, end: &End) {
        let Intent {
            step: number,
            takes_over,
            turns,
            ..
        } = &open.intent;
        let mut step = Step {
            number: *number,
            unix_ns: open.unix_ns,
            who: open.who.clone(),
            turns: Vec::new(),
        };
        for (turn, outcome) in turns.iter().zip(&end.results) {
            let target = turn.target;
            if *outcome == Outcome::Theirs {
                let (who, ours) = (step.who.clone(), turn.new.clone());
                self.leave(target, *number, who, ours);
            } else if matches!(outcome, Outcome::Done | Outcome::Mended) {
                self.left.remove(&target);
                if takes_over.contains(&target) {
                    self.disown(target);
                }
            } else if target.parameter().is_none() {
                continue;
            }
            // A parameter that we missed comes to us all the same at a boot, if a file says so.
            step.turns.push(Held {
                turn: turn.clone(),
                boot: open.boot.clone(),
                lost: !matches!(outcome, Outcome::Done | Outcome::Mended),
            });
        }
        self.steps.push(step);
    }

    fn undone(&mut self, number: u64, intent: &Intent, end: &End) {
        for (turn, outcome) in intent.turns.iter().zip(&end.results) {
            match outcome {
                Outcome::Done => self.drop_turn(number, turn.target),
                // What is mended counted until now; see `mend`.
                Outcome::NotDone | Outcome::Mended => {}
                Outcome::Theirs => self.leave_turn(number, turn.target),
            }
        }
        for Left { target, why, .. } in &intent.leaves {
            match why {
                Why::Theirs => self.leave_turn(number, *target),
                Why::Rebooted if self.step(number).is_some_and(Step::persists) => {}
                Why::Rebooted => self.drop_turn(number, *target),
            }
        }
    }

    /// Drops the files that were put right when the step was settled: until then they said what the
    /// parameters became at a boot. What they did not set is not ours.
    fn mend(&mut self, open: &Open, end: &End) {
        let number = open.intent.undoes.unwrap_or(open.intent.step);
        let results = || open.intent.turns.iter().zip(&end.results);
        for (turn, _) in results().filter(|(_, outcome)| **outcome == Outcome::Mended) {
            self.drop_turn(number, turn.target);
        }
        if open.intent.undoes.is_none() && !self.step(number).is_some_and(Step::persists) {
            for (turn, _) in results().filter(|(_, outcome)| **outcome == Outcome::NotDone) {
                self.drop_turn(number, turn.target);
            }
        }
    }

    fn drop_turn(&mut self, number: u64, target: Target) {
        let steps = self.steps.iter_mut();
        for step in steps.filter(|step| step.number == number) {
            step.turns.retain(|held| held.turn.target != target);
        }
    }

    /// It is somebody else's from now on.
    fn leave(&mut self, target: Target, step: u64, who: String, ours: Option<String>) {
        self.disown(target);
        if target.parameter().is_some() {
            self.left.insert(target, Lost { step, who, ours });
        }
    }

    /// The same for what a step in force had turned.
    fn leave_turn(&mut self, number: u64, target: Target) {
        let Some(step) = self.step(number) else {
            return;
        };
        let mut turns = step.turns.iter().map(|held| &held.turn);
        let ours = turns.find(|turn| turn.target == target);
        let ours = ours.and_then(|turn| turn.new.clone());
        let who = step.who.clone();
        self.leave(target, number, who, ours);
    }

    /// None of our turns of it counts any more: of a parameter until the next boot, of a file ever.
    fn disown(&mut self, target: Target) {
        let held = self.steps.iter_mut().flat_map(|step| &mut step.turns);
        for held in held.filter(|held| held.turn.target == target) {
            held.lost = true;
        }
    }

    /// Forgets what no boot can bring back. A later turn of the same boot that a file may bring back
    /// goes back, then, to what the forgotten one would have gone back to.
    fn prune(&mut self) {
        for step in &mut self.steps {
            let kept = |held: &Held| !held.lost || held.turn.target.parameter().is_some();
            step.turns.retain(kept);
        }
        for at in 0..self.steps.len() {
            if self.steps[at].persists() {
                continue;
            }
            let turns = std::mem::take(&mut self.steps[at].turns);
            let (lost, kept) = turns.into_iter().partition::<Vec<_>, _>(|held| held.lost);
            self.steps[at].turns = kept;
            for lost in lost {
                let mut later = self.steps[at + 1..].iter_mut().flat_map(|it| &mut it.turns);
                let next = later.find(|held| held.is_after(&lost));
                if let Some(next) = next.filter(|next| next.lost) {
                    next.turn.old = lost.turn.old;
                }
            }
        }
        self.steps.retain(|step| !step.turns.is_empty());
    }

    /// Goes on in another boot: what files set again counts there, and goes back to what the boot
    /// before had before the first turn, or to what the file said before.
    fn carry_over(&mut self, boot: &str) {
        if self.boot == boot {
            return;
        }
        let from = std::mem::replace(&mut self.boot, boot.to_owned());
        self.left.clear();
        let mut before: BTreeMap<Target, Option<String>> = BTreeMap::new();
        for step in &mut self.steps {
            let persists = step.persists();
            for held in step.turns.iter_mut().filter(|held| held.boot == from) {
                let turn = &mut held.turn;
                if turn.target.parameter().is_none() {
                    continue;
                }
                let old = before.entry(turn.target);
                let old = old.or_insert_with(|| turn.old.clone());
                if persists {
                    turn.old.clone_from(old);
                    old.clone_from(&turn.new);
                    held.lost = false;
                    boot.clone_into(&mut held.boot);
                }
            }
        }
    }

    /// The state as it is in a boot.
    #[must_use]
    pub fn in_boot(&self, boot: &str) -> Self {
        let mut state = self.clone();
        state.carry_over(boot);
        state
    }

    /// A step that is in force.
    pub fn step(&self, number: u64) -> Option<&Step> {
        self.steps.iter().find(|step| step.number == number)
    }

    /// The step that turned something last, as far as it is ours and counts in this boot.
    pub fn last_turn(&self, target: Target) -> Option<(&Step, &Turn)> {
        self.steps.iter().rev().find_map(|step| {
            let mut held = step.turns.iter().filter(|held| self.counts(held));
            let held = held.find(|held| held.turn.target == target)?;
            Some((step, &held.turn))
        })
    }

    /// Whether a turn is ours and counts in this boot.
    pub fn counts(&self, held: &Held) -> bool {
        let file = held.turn.target.parameter().is_none();
        !held.lost && (file || held.boot == self.boot)
    }

    /// The last step that turned something, whether or not that still counts.
    pub(super) fn last_step_on(&self, target: Target) -> Option<u64> {
        let has = |step: &&Step| step.turns.iter().any(|held| held.turn.target == target);
        Some(self.steps.iter().rev().find(has)?.number)
    }
}

impl Step {
    /// Whether it outlasts a boot.
    pub fn persists(&self) -> bool {
        let mut turns = self.turns.iter();
        turns.any(|held| !held.lost && held.turn.target.parameter().is_none())
    }
}

impl Held {
    /// Whether both turned the same, in the same boot.
    fn is_after(&self, other: &Self) -> bool {
        self.turn.target == other.turn.target && self.boot == other.boot
    }
}

fn check_end(intent: &Intent, end: &End) -> Result<(), String> {
    if end.step != intent.step {
        let (this, that) = (end.step, intent.step);
        return Err(format!("ends step {this} while step {that} is open"));
    }
    let (told, meant) = (end.results.len(), intent.turns.len());
    if told != meant {
        let step = end.step;
        return Err(format!(
            "tells of {told} turns of step {step}, which has {meant}"
        ));
    }
    Ok(())
}
