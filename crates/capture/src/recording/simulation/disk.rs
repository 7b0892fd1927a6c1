//! A disk that is full, fails, writes short, lies and loses power, as its plan says.
//!
//! The files lie in a directory in memory. The disk knows what of them is durable, and makes of them what a loss
//! of power would have left.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use haltwise_core::workload::SplitMix64;
use rustix::io::Errno;

use crate::files::disk::{Disk, Effect};

/// Bytes that reach a disk together. Smaller than real ones, as are the files.
const PAGE: usize = 512;

#[derive(Debug, Clone, Default)]
pub(super) struct Plan {
    /// Bytes that all files may have.
    pub(super) room: Option<u64>,
    pub(super) fails: Vec<Range<u64>>,
    pub(super) writes_short: bool,
    /// Flushes are said to be done and are not.
    pub(super) lies: bool,
    pub(super) ends_before: Option<u64>,
}

#[derive(Debug)]
pub(super) struct SimulatedDisk(Mutex<State>);

#[derive(Debug)]
struct State {
    directory: PathBuf,
    random: SplitMix64,
    plan: Plan,
    effects: u64,
    ended: bool,
    /// Refusals for another reason than want of room.
    failures: u64,
    /// Whether a flush failed or was a lie.
    untrue: bool,
    /// Whether a name could not be removed.
    kept: bool,
    files: BTreeMap<u64, Contents>,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    /// Names made and taken since the last that are durable.
    changes: Vec<Change>,
}

#[derive(Debug, Default)]
struct Contents {
    bytes: u64,
    durable: Vec<u8>,
}

#[derive(Debug, Clone)]
enum Change {
    Named(String, u64),
    Renamed(String, String),
    Removed(String),
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            Self::Named(name, file) => drop(names.insert(name.clone(), *file)),
            Self::Renamed(from, to) => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
            Self::Removed(name) => drop(names.remove(name)),
        }
    }
}

impl SimulatedDisk {
    pub(super) fn new(directory: &Path, seed: u64, plan: Plan) -> Self {
        Self(Mutex::new(State {
            directory: directory.to_owned(),
            random: SplitMix64(seed),
            plan,
            effects: 0,
            ended: false,
            failures: 0,
            untrue: false,
            kept: false,
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            changes: Vec::new(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state().ended
    }

    /// Whether all that was ever refused was for want of room.
    pub(super) fn was_only_full(&self) -> bool {
        let state = self.state();
        state.failures == 0 && !state.ended
    }

    /// Whether all that was flushed is durable.
    pub(super) fn is_true(&self) -> bool {
        !self.state().untrue
    }

    /// Whether a name stayed that was to go.
    pub(super) fn failed_to_remove(&self) -> bool {
        self.state().kept
    }

    pub(super) fn set_room(&self, room: Option<u64>) {
        self.state().plan.room = room;
    }

    /// From now on nothing fails.
    pub(super) fn heal(&self) {
        let mut state = self.state();
        state.plan = Plan {
            lies: state.plan.lies,
            ends_before: state.plan.ends_before,
            ..Plan::default()
        };
    }

    /// Does what the kernel does on its own after a while, whether the disk lies or not.
    pub(super) fn write_back(&self) {
        let mut state = self.state();
        for file in state.names.values().copied().collect::<BTreeSet<_>>() {
            state.settle(file);
        }
        state.settle_names();
    }

    pub(super) fn lose_power(&self) {
        let mut state = self.state();
        let mut names = state.durable_names.clone();
        let changes = state.changes.len() as u64;
        let kept = state.random.below(changes + 1);
        for change in state.changes.iter().take(usize::try_from(kept).unwrap()) {
            change.apply(&mut names);
        }
        let mut left = Vec::new();
        for (name, file) in names {
            let durable = state.files[&file].durable.clone();
            // Nothing more is known of a file without a name.
            let live = state.live(file).unwrap_or_else(|| durable.clone());
            let bytes = state.torn(&durable, &live);
            left.push((name, bytes));
        }
        // It may be gone, where the recording could not begin.
        fs::create_dir_all(&state.directory).unwrap();
        for entry in fs::read_dir(&state.directory).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        for (name, bytes) in left {
            fs::write(state.directory.join(name), bytes).unwrap();
        }
    }
}

impl State {
    /// Counts an effect, and refuses it where the plan says so.
    fn effect(&mut self) -> io::Result<()> {
        self.effects += 1;
        let now = self.effects;
        self.ended |= self.plan.ends_before.is_some_and(|before| now >= before);
        if self.ended {
            return Err(io::Error::other("the program has ended here"));
        }
        self.may_fail(now)
    }

    fn may_fail(&mut self, now: u64) -> io::Result<()> {
        let fails = self.plan.fails.iter().any(|range| range.contains(&now));
        if fails && self.random.below(2) == 0 {
            self.failures += 1;
            let errors = [Errno::IO, Errno::MFILE];
            return Err(errors[usize::from(self.random.below(2) == 0)].into());
        }
        Ok(())
    }

    fn name_of(&self, file: u64) -> Option<&String> {
        let mut names = self.names.iter();
        names.find(|(_, other)| **other == file).map(|it| it.0)
    }

    fn live(&self, file: u64) -> Option<Vec<u8>> {
        let path = self.directory.join(self.name_of(file)?);
        Some(fs::read(path).unwrap())
    }

    /// How many of the bytes are written.
    fn write(&mut self, file: u64, at: u64, mut bytes: u64) -> io::Result<u64> {
        let now = self.files[&file].bytes;
        if let Some(room) = self.plan.room {
            let most = (now + room.saturating_sub(self.used())).saturating_sub(at);
            bytes = bytes.min(most);
            if bytes == 0 {
                return Err(Errno::NOSPC.into());
            }
        }
        if self.plan.writes_short && self.random.below(4) == 0 {
            bytes = 1 + self.random.below(bytes);
        }
        self.files.get_mut(&file).unwrap().bytes = now.max(at + bytes);
        Ok(bytes)
    }

    fn settle(&mut self, file: u64) {
        if let (Some(live), Some(contents)) = (self.live(file), self.files.get_mut(&file)) {
            contents.durable = live;
        }
    }

    fn settle_names(&mut self) {
        self.durable_names = self.names.clone();
        self.changes.clear();
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.changes.push(change);
    }

    fn used(&self) -> u64 {
        let files = self.names.values().map(|file| self.files[file].bytes);
        files.sum()
    }

    /// Pages of the one and of the other, and a length between.
    fn torn(&mut self, durable: &[u8], live: &[u8]) -> Vec<u8> {
        let mut bytes = durable.to_vec();
        match self.random.below(4) {
            0 => return bytes,
            1 => return live.to_vec(),
            // Bytes come in order, the length with them.
            2 if live.starts_with(durable) => {
                let more = self.random.below((live.len() - durable.len()) as u64 + 1);
                return live[..durable.len() + usize::try_from(more).unwrap()].to_vec();
            }
            _ => {}
        }
        bytes.resize(live.len().max(durable.len()), 0);
        for (page, new) in bytes.chunks_mut(PAGE).zip(live.chunks(PAGE)) {
            if self.random.below(2) == 0 {
                page[..new.len()].copy_from_slice(new);
            }
        }
        let shorter = live.len().min(durable.len());
        let cut = self.random.below((bytes.len() - shorter) as u64 + 1);
        bytes.truncate(bytes.len() - usize::try_from(cut).unwrap());
        bytes
    }
}

impl Disk for SimulatedDisk {
    fn ask(&self, effect: Effect<'_>) -> io::Result<u64> {
        let mut state = self.state();
        if matches!(effect, Effect::Look) {
            // Not an effect, but it fails where they do.
            let now = state.effects;
            return state.may_fail(now).map(|()| 0);
        }
        let refused = state.effect();
        let lies = state.plan.lies;
        match effect {
            Effect::Sync(_) | Effect::SyncNamed(_) | Effect::SyncNames => {
                state.untrue |= lies || refused.is_err();
            }
            Effect::Remove(_) => state.kept |= refused.is_err(),
            _ => {}
        }
        refused?;
        match effect {
            Effect::Create(name) if !state.names.contains_key(name) => {
                let file = state.effects;
                state.files.insert(file, Contents::default());
                state.change(Change::Named(name.to_owned(), file));
            }
            Effect::Write { file, at, bytes } => return state.write(file, at, bytes as u64),
            Effect::SetLen { file, bytes } => {
                state.files.get_mut(&file).unwrap().bytes = bytes;
            }
            Effect::Sync(file) if !lies => state.settle(file),
            Effect::SyncNamed(name) if !lies => {
                if let Some(file) = state.names.get(name).copied() {
                    state.settle(file);
                }
            }
            Effect::SyncNames if !lies => state.settle_names(),
            Effect::Rename(from, to) => {
                state.change(Change::Renamed(from.to_owned(), to.to_owned()));
            }
            Effect::Remove(name) if state.names.contains_key(name) => {
                state.change(Change::Removed(name.to_owned()));
            }
            _ => {}
        }
        Ok(state.effects)
    }
}
