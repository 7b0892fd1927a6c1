//! Parameters in the guest of a VM, set from the host: recorded, undone and settled as every other target.

use std::fs;

use haltwise_core::parameter::Parameter;

use super::fault;
use super::world::World;
use crate::guest_agent::test::fake::{BOOTS, FakeAgent, Mood};
use crate::knob::*;

const CEILING: Parameter = Parameter::GuestHaltPollNs;
const GROW: Parameter = Parameter::GuestGrow;

/// A made-up host whose first VM has an agent in its guest.
struct Guest {
    world: World,
    agent: FakeAgent,
}

impl Guest {
    fn new() -> Self {
        let world = World::new();
        let agent = FakeAgent::start(&world.path(""), world.vm(0));
        Self { world, agent }
    }

    fn apply(&self, values: &[(Parameter, u32)]) -> Result<Option<u64>, KnobError> {
        self.world.apply(&self.request(values))
    }

    fn undo(&self) -> Result<Reversal, KnobError> {
        self.world.undo()
    }

    fn look(&self) -> Snapshot {
        Snapshot::read(&self.world.root()).unwrap()
    }

    fn request(&self, values: &[(Parameter, u32)]) -> Request {
        let vm = self.world.vm(0);
        let guests = values.iter();
        let guests =
            guests.map(|&(parameter, value)| (Target::Guest(InGuest { vm, parameter }), value));
        Request {
            wanted: guests.collect(),
            ..Request::default()
        }
    }
}

fn why(undone: &Reversal) -> Vec<Why> {
    let left = undone.steps.iter().flat_map(|step| &step.left);
    left.map(|left| left.why).collect()
}

#[test]
fn what_was_modified_since_is_left() {
    let guest = Guest::new();
    guest.apply(&[(CEILING, 5)]).unwrap();
    guest.agent.set(CEILING, "9\n");
    let refused = guest.apply(&[(CEILING, 6)]).unwrap_err().to_string();
    assert!(refused.contains("is 9, and apply"), "{refused}");
    assert!(!refused.contains("module kvm"), "{refused}");
    assert_eq!(why(&guest.undo().unwrap()), [Why::Theirs]);
    assert_eq!(guest.agent.value(CEILING), "9");
}

/// Whatever its values are now: by the name of its boot.
#[test]
fn a_guest_that_has_booted_since_is_left_alone() {
    for value in ["200000\n", "9\n", "5\n"] {
        let guest = Guest::new();
        guest.apply(&[(CEILING, 5)]).unwrap();
        guest.agent.boots(Some(BOOTS[1]));
        guest.agent.set(CEILING, value);
        let look = guest.look();
        let foreign = look.held_now().unwrap().foreign;
        assert_eq!((look.baseline.held.len(), foreign), (0, vec![]));
        drop(look);
        let undone = guest.undo().unwrap();
        assert_eq!(
            (why(&undone), undone.is_partial()),
            (vec![Why::GuestBooted], false)
        );
        assert!(matches!(guest.undo(), Err(KnobError::Nothing)));
        assert_eq!(guest.agent.value(CEILING), value.trim());
    }
    // The next apply starts from the value found then.
    let guest = Guest::new();
    guest.apply(&[(CEILING, 5)]).unwrap();
    guest.agent.boots(Some(BOOTS[1]));
    guest.agent.set(CEILING, "9\n");
    guest.apply(&[(CEILING, 6)]).unwrap();
    assert_eq!(why(&guest.undo().unwrap()), []);
    assert_eq!(guest.agent.value(CEILING), "9");
}

#[test]
fn a_guest_that_does_not_confirm_is_an_error() {
    let guest = Guest::new();
    guest.agent.is(Mood::Lying);
    let error = guest.apply(&[(CEILING, 5)]).unwrap_err();
    assert!(matches!(error, KnobError::NotTaken(_)), "{error}");
    guest.agent.is(Mood::Good);
    assert!(matches!(guest.undo(), Err(KnobError::Nothing)));
}

#[test]
fn a_vm_that_has_ended_is_settled() {
    for boots in [false, true] {
        let guest = Guest::new();
        guest.apply(&[(CEILING, 5)]).unwrap();
        if boots {
            let path = guest.world.path("proc/sys/kernel/random/boot_id");
            fs::write(path, "boot-2\n").unwrap();
        } else {
            let process = format!("proc/{}", guest.world.vm(0).pid);
            fs::remove_dir_all(guest.world.path(&process)).unwrap();
        }
        assert_eq!(why(&guest.undo().unwrap()), [Why::Ended]);
        assert!(matches!(guest.undo(), Err(KnobError::Nothing)));
        assert_eq!(guest.agent.value(CEILING), "5");
    }
}

#[test]
fn an_agent_that_denies_keeps_its_entry_until_it_permits() {
    let guest = Guest::new();
    guest.apply(&[(CEILING, 5)]).unwrap();
    guest.agent.is(Mood::Denied);
    let undone = guest.undo().unwrap();
    assert_eq!(
        (why(&undone), undone.is_partial()),
        (vec![Why::NoAnswer], true)
    );
    let said = undone.steps[0].left[0].said.as_deref().unwrap();
    assert!(said.contains("does not permit guest-file-open"), "{said}");
    let look = guest.look();
    assert_eq!(look.held_now().unwrap().unknown.len(), 1);
    guest.agent.is(Mood::Good);
    let now = look.held_now().unwrap();
    assert_eq!((now.unknown, now.foreign), (vec![], vec![]));
    drop(look);
    assert_eq!(why(&guest.undo().unwrap()), []);
    assert_eq!(guest.agent.value(CEILING), "200000");
}

/// Before whichever effect it ends: the next undo leaves the value from before.
#[test]
fn an_apply_that_is_cut_off_is_undone() {
    for before in 1.. {
        let guest = Guest::new();
        let applied = fault::with(Some(before), || guest.apply(&[(CEILING, 5), (GROW, 4)]));
        let _nothing_to_undo = guest.undo();
        let left = [CEILING, GROW].map(|name| guest.agent.value(name));
        assert_eq!(left, ["200000", "2"], "before effect {before}");
        if applied.is_ok() {
            assert!(before > 8, "{before}");
            return;
        }
    }
}
