//! Journals that haltwise 0.1 wrote before it kept a baseline, with the host as it was then: they are undone
//! as that version did.

use std::collections::BTreeMap;
use std::fs;

use serde::Deserialize;

use super::fault;
use super::world::{World, request};
use crate::knob::*;

/// A journal, the host beside it, and the host once that version had undone all.
#[derive(Debug, Deserialize)]
struct Case {
    name: String,
    journal: Option<String>,
    boot: String,
    #[serde(flatten)]
    before: State,
    after: State,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
struct State {
    parameters: BTreeMap<Parameter, u32>,
    files: BTreeMap<BootFile, Option<String>>,
}

fn cases() -> Vec<Case> {
    let lines = include_str!("earlier.jsonl").lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

impl Case {
    fn world(&self) -> World {
        let world = World::new();
        world.set_boot(&self.boot);
        for (parameter, value) in &self.before.parameters {
            world.set(*parameter, *value);
        }
        for (file, text) in &self.before.files {
            world.set_file(*file, text.as_deref());
        }
        if let Some(journal) = &self.journal {
            let path = world.path(JOURNAL);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, journal).unwrap();
        }
        world
    }

    fn is_undone(&self, world: &World) {
        let parameters = Parameter::KVM.map(|it| (it, world.get(it)));
        let files = BootFile::ALL.map(|it| (it, world.file(it)));
        let found = State {
            parameters: parameters.into(),
            files: files.into(),
        };
        assert_eq!(found, self.after, "{}", self.name);
    }
}

#[test]
fn journals_of_earlier_versions_are_undone() {
    let cases = cases();
    assert!(cases.len() > 30);
    for case in cases {
        let world = case.world();
        match world.undo() {
            Ok(_) | Err(KnobError::Nothing) => {}
            Err(error) => panic!("{}: {error}", case.name),
        }
        case.is_undone(&world);
        let journal = case.journal.unwrap_or_default();
        assert!(world.journal().starts_with(journal.as_bytes()));
    }
}

/// What comes after it belongs to the same baseline.
#[test]
fn journals_of_earlier_versions_go_on() {
    for case in cases() {
        let world = case.world();
        let mut more = request(&[(Parameter::GrowStart, 20_000)]);
        more.persist = !case.before.files.values().any(|text| {
            let text = text.as_deref().unwrap_or_default();
            !text.is_empty() && !text.contains("haltwise")
        });
        world.apply(&more).unwrap();
        match world.undo() {
            Ok(_) | Err(KnobError::Nothing) => {}
            Err(error) => panic!("{}: {error}", case.name),
        }
        case.is_undone(&world);
    }
}

/// Whoever takes one over and is cut off at any effect leaves it, or a baseline, to the next.
#[test]
fn journals_of_earlier_versions_survive_a_cut() {
    for case in cases() {
        for before in 1..20 {
            let world = case.world();
            let whole = fault::with(Some((before, 20)), || world.undo()).is_ok();
            match world.undo() {
                Ok(_) | Err(KnobError::Nothing) => {}
                Err(error) => panic!("{}, before effect {before}: {error}", case.name),
            }
            case.is_undone(&world);
            if whole {
                break;
            }
        }
    }
}
