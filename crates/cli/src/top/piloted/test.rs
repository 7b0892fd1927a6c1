//! Which VM is whose, and which state of the pilot is shown at all.

use std::fs;
use std::path::Path;

use super::*;
use crate::top::world::{SECOND, vm};

const WRITTEN: u64 = 1_767_225_600 * SECOND;

/// A state of a pilot that observes: it kept a setting while it might act, would set one, and leaves a VM alone.
const STATE: &str = include_str!("../../../tests/knob/pilot.json");

/// Status of the pilot, read this many seconds after it was written.
fn read(after: i64) -> Option<PilotStatus> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(Path::new("var/lib/haltwise"));
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("pilot.json"), STATE).unwrap();
    let root = Root::at(directory.path());
    kept::status_at(&root, WRITTEN.saturating_add_signed(after * 1_000_000_000))
}

pub(crate) fn said(vms: &[Vm]) -> Piloted {
    of(&read(20).unwrap(), vms)
}

#[test]
fn only_the_state_of_a_pilot_that_runs_counts() {
    for (after, is_shown) in [
        (0, true),
        (179, true),
        (181, false),
        (-60, true),
        (-900, false),
    ] {
        assert_eq!(read(after).is_some(), is_shown, "{after} s later");
    }
    let directory = tempfile::tempdir().unwrap();
    let mut reader = Reader::default();
    let said = reader.of(&Root::at(directory.path()), &[vm(0, "web-1")]);
    assert!(said.is_empty());
}

#[test]
fn a_vm_is_known_by_its_process_and_several_of_one_process_by_their_names() {
    let mut last = read(0).unwrap();
    // As another name has it.
    let vms = [vm(0, "web-1.example"), vm(1, "db"), vm(7, "new")];
    let states = |last: &PilotStatus| -> Vec<(u32, String)> {
        let said = of(last, &vms).into_iter();
        said.map(|(vm, of)| (vm.0, of.state.to_string())).collect()
    };
    let watched = (1, "watching".to_owned());
    assert_eq!(states(&last), [(0, "kept".to_owned()), watched.clone()]);
    last.vms.iter_mut().for_each(|vm| vm.pid = 1_001);
    assert_eq!(states(&last), [watched]);
}
