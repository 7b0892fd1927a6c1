//! The one hand that turns: intent into the journal, turn by turn, end into the journal.
//!
//! Whoever takes hold of the journal first settles what the last one left open: a turn whose thing has
//! the new value was made, one with the old value was not, and anything else was modified externally.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::book::{Book, By, Pages};
use super::disk::{Disk, Fault};
use super::entry::{Act, BootFile, End, Entry, Intent, Outcome, Target, Turn};
use super::error::KnobError;
use super::machine;
use super::parameter::Parameter;
use super::propose::{self, Proposal, Reversal, Which, Wish};
use super::state::{Open, State};
use crate::root::Root;

/// Holds the journal and turns knobs. One for a host at a time.
#[derive(Debug)]
pub struct Keeper {
    root: Root,
    disk: Disk,
    by: By,
    book: Book,
    settled: Option<Settled>,
}

/// A step that somebody left without an end, and what was found out about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// The step, as it was meant.
    pub step: Open,
    /// What became of each of its turns.
    pub results: Vec<Outcome>,
}

impl Keeper {
    /// Takes hold of the journal and settles what was left open. `who` is kept with what is done.
    ///
    /// # Errors
    /// If another holds it, or it is damaged, or cannot be written.
    pub fn open(root: &Root, who: &str, fault: Option<Fault>) -> Result<Self, KnobError> {
        let mut disk = Disk::new(fault);
        let by = By {
            who: who.to_owned(),
            boot: machine::boot(root)?,
        };
        let book = Book::open(root, &mut disk, &by)?;
        let mut keeper = Self {
            root: root.clone(),
            disk,
            by,
            book,
            settled: None,
        };
        keeper.settle()?;
        Ok(keeper)
    }

    fn settle(&mut self) -> Result<(), KnobError> {
        let state = &self.book.pages.state;
        let Some(settled) = find_out(&self.root, state, &self.by.boot)? else {
            return Ok(());
        };
        let end = settled.end();
        if end.results.contains(&Outcome::Mended) {
            self.book
                .append(&mut self.disk, &self.by, Act::Found(end.clone()))?;
        }
        let intent = &settled.step.intent;
        for (turn, result) in intent.turns.iter().zip(&settled.results) {
            if turn.target.parameter().is_some() {
                continue;
            }
            self.disk.clear(&self.root.path(turn.target.path()))?;
            let right = mended(intent, turn);
            let found = machine::read(&self.root, turn.target)?;
            if *result == Outcome::Mended && found == right.old {
                machine::turn(&self.root, &mut self.disk, &right)?;
            }
        }
        self.book.append(&mut self.disk, &self.by, Act::End(end))?;
        self.settled = Some(settled);
        Ok(())
    }

    /// The directories in which setting parameters writes.
    pub fn writes(&self) -> Vec<PathBuf> {
        let files = Parameter::ALL.map(Parameter::path);
        let files = files.into_iter().chain([super::JOURNAL]);
        let directories: BTreeSet<PathBuf> = files
            .filter_map(|file| Some(self.root.path(file).parent()?.to_owned()))
            .collect();
        directories.into_iter().collect()
    }

    /// What was left open and is settled now.
    pub fn settled(&self) -> Option<&Settled> {
        self.settled.as_ref()
    }

    /// What the journal comes to, in this boot.
    pub fn state(&self) -> State {
        self.book.pages.state.in_boot(&self.by.boot)
    }

    /// Looks what a wish comes to.
    pub fn propose(&self, wish: &Wish) -> Result<Proposal, KnobError> {
        propose::apply(&self.root, &self.state(), wish)
    }

    /// Does it; gives the number of the step, `None` if there was nothing to do.
    pub fn apply(&mut self, proposal: &Proposal) -> Result<Option<u64>, KnobError> {
        if proposal.turns.is_empty() {
            return Ok(None);
        }
        let step = self.book.pages.state.last_step + 1;
        self.carry_out(proposal.intent(step))?;
        Ok(Some(step))
    }

    /// Looks what undoing comes to.
    pub fn reversal(&self, which: Which, take_over: bool) -> Result<Reversal, KnobError> {
        let read = |target| machine::read(&self.root, target);
        propose::undo(read, &self.state(), which, take_over)
    }

    /// Undoes.
    pub fn undo(&mut self, reversal: &Reversal) -> Result<(), KnobError> {
        let step = self.book.pages.state.last_step + 1;
        self.carry_out(reversal.intent(step))
    }

    /// How many effects on the machine there were: what a [`Fault`] counts.
    pub fn effects(&self) -> u64 {
        self.disk.effects()
    }

    fn carry_out(&mut self, intent: Intent) -> Result<(), KnobError> {
        let step = intent.step;
        let turns = intent.turns.clone();
        self.book
            .append(&mut self.disk, &self.by, Act::Intend(intent))?;
        let turned = turns.iter().try_for_each(|turn| self.turn(turn));
        if turned.is_err() {
            // As if we had been cut off there. What went wrong is told, whether or not that works.
            drop(self.settle());
            return turned;
        }
        let end = End {
            step,
            results: vec![Outcome::Done; turns.len()],
            found_later: false,
        };
        self.book.append(&mut self.disk, &self.by, Act::End(end))
    }

    fn turn(&mut self, turn: &Turn) -> Result<(), KnobError> {
        // Somebody may have turned it since we looked.
        let found = machine::read(&self.root, turn.target)?;
        if found != turn.old {
            return Err(KnobError::Meanwhile {
                name: turn.target.name(),
            });
        }
        machine::turn(&self.root, &mut self.disk, turn)
    }
}

impl Settled {
    fn end(&self) -> End {
        End {
            step: self.step.intent.step,
            results: self.results.clone(),
            found_later: true,
        }
    }
}

/// The turn that puts a boot file right which contradicts the other: an apply that was cut between them
/// is taken back, an undo brought to its end. Boot files that disagree are worse than either.
fn mended(intent: &Intent, turn: &Turn) -> Turn {
    match intent.undoes {
        None => turn.reversed(),
        Some(_) => turn.clone(),
    }
}

/// Finds out what became of an intent that has no end.
fn find_out(root: &Root, state: &State, boot: &str) -> Result<Option<Settled>, KnobError> {
    let Some(open) = &state.open else {
        return Ok(None);
    };
    if let Some((found_in, end)) = &open.found
        && found_in == boot
    {
        let (step, results) = (open.clone(), end.results.clone());
        return Ok(Some(Settled { step, results }));
    }
    let turns = &open.intent.turns;
    let found = turns.iter().map(|turn| outcome(root, turn));
    let mut results = found.collect::<Result<Vec<_>, _>>()?;
    let files: Vec<Outcome> = (turns.iter().zip(&results))
        .filter(|(turn, _)| turn.target.parameter().is_none())
        .map(|(_, result)| *result)
        .collect();
    let by_file = files.contains(&Outcome::Done);
    let torn = by_file && files.contains(&Outcome::NotDone);
    let undoes = open.intent.undoes.is_some();
    let wrong = if undoes {
        Outcome::NotDone
    } else {
        Outcome::Done
    };
    for (turn, result) in turns.iter().zip(&mut results) {
        if turn.target.parameter().is_none() {
            if torn && *result == wrong {
                *result = Outcome::Mended;
            }
        } else if open.boot != boot {
            // After a boot, a parameter tells of us only through a file, and never of others.
            *result = match result {
                Outcome::Done if undoes || by_file => Outcome::Done,
                Outcome::Theirs if undoes && by_file => Outcome::Done,
                _ => Outcome::NotDone,
            };
        }
    }
    let step = open.clone();
    Ok(Some(Settled { step, results }))
}

/// What became of a turn, by what its thing is now. Where the module is gone, so is the turn.
fn outcome(root: &Root, turn: &Turn) -> Result<Outcome, KnobError> {
    let found = machine::read(root, turn.target)?;
    let gone = turn.target.parameter().is_some() && found.is_none();
    Ok(if found == turn.new {
        Outcome::Done
    } else if found == turn.old || gone {
        Outcome::NotDone
    } else {
        Outcome::Theirs
    })
}

/// The journal as it can be read by anybody, without changing anything.
#[derive(Debug)]
pub struct Look {
    /// What the journal comes to in this boot, once what is open is settled.
    pub state: State,
    /// All its entries.
    pub entries: Vec<Entry>,
    /// Length of a last line without its end, which the next change takes away.
    pub torn_bytes: u64,
    /// A step that has no end in the journal yet, and what became of it by what can be seen.
    pub open: Option<Settled>,
    root: Root,
}

impl Look {
    /// Reads the journal. `None`: another haltwise is writing it just now.
    pub fn at(root: &Root) -> Result<Option<Self>, KnobError> {
        let Some(pages) = Pages::look(root)? else {
            return Ok(None);
        };
        let boot = machine::boot(root)?;
        let mut state = pages.state;
        let open = find_out(root, &state, &boot)?;
        if let Some(settled) = &open {
            let entry = Entry {
                seq: state.last_seq + 1,
                unix_ns: settled.step.unix_ns,
                boot: boot.clone(),
                who: String::new(),
                act: Act::End(settled.end()),
            };
            state
                .take(&entry)
                .map_err(|source| KnobError::Contradicts {
                    path: root.path(super::JOURNAL),
                    source,
                })?;
        }
        Ok(Some(Self {
            state: state.in_boot(&boot),
            entries: pages.entries,
            torn_bytes: pages.torn_bytes,
            open,
            root: root.clone(),
        }))
    }

    /// Looks what a wish would come to.
    pub fn propose(&self, wish: &Wish) -> Result<Proposal, KnobError> {
        propose::apply(&self.root, &self.state, wish)
    }

    /// Looks what undoing would come to.
    pub fn reversal(&self, which: Which, take_over: bool) -> Result<Reversal, KnobError> {
        let read = |target| machine::read(&self.root, target);
        propose::undo(read, &self.state, which, take_over)
    }

    /// Looks what undoing all steps would come to, newest first: each as if those before were done.
    pub fn reversals(&self, take_over: bool) -> Result<Vec<Reversal>, KnobError> {
        let mut state = self.state.clone();
        let mut undone: BTreeMap<Target, Option<String>> = BTreeMap::new();
        let mut reversals = Vec::new();
        while !state.steps.is_empty() || reversals.is_empty() {
            let read = |target| match undone.get(&target) {
                Some(value) => Ok(value.clone()),
                None => machine::read(&self.root, target),
            };
            let reversal = propose::undo(read, &state, Which::Newest, take_over)?;
            for turn in &reversal.turns {
                undone.insert(turn.target, turn.new.clone());
            }
            let step = state.last_step + 1;
            let results = vec![Outcome::Done; reversal.turns.len()];
            let end = End {
                step,
                results,
                found_later: false,
            };
            let acts = [Act::Intend(reversal.intent(step)), Act::End(end)];
            for (act, seq) in acts.into_iter().zip(state.last_seq + 1..) {
                let entry = Entry {
                    seq,
                    unix_ns: 0,
                    boot: state.boot.clone(),
                    who: String::new(),
                    act,
                };
                state
                    .take(&entry)
                    .map_err(|source| KnobError::Contradicts {
                        path: self.root.path(super::JOURNAL),
                        source,
                    })?;
            }
            reversals.push(reversal);
        }
        Ok(reversals)
    }

    /// What we turned and is not as we left it.
    pub fn foreign(&self) -> Result<Vec<super::Foreign>, KnobError> {
        let parameters = Parameter::ALL.map(Target::Parameter);
        let files = BootFile::ALL.map(Target::File);
        let mut found = Vec::new();
        for target in parameters.into_iter().chain(files) {
            let value = machine::read(&self.root, target)?;
            found.extend(propose::foreign(&self.state, target, value.as_deref()));
        }
        Ok(found)
    }
}
