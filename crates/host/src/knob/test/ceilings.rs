//! Parameters and ceilings of VMs together: one request, one baseline, one undo.

use haltwise_core::parameter::Parameter;

use super::world::{AT_BOOT, World, request};
use crate::knob::*;

const CEILING: Parameter = Parameter::HaltPollNs;

fn both(world: &World, parameter: u32, of_vms: &[(u32, u32)]) -> Request {
    let mut both = request(&[(CEILING, parameter)]);
    both.wanted.extend(ceilings(world, of_vms).wanted);
    both
}

fn ceilings(world: &World, of_vms: &[(u32, u32)]) -> Request {
    let of_vms = of_vms.iter();
    let wanted = of_vms.map(|(ordinal, ns)| (Target::Ceiling(world.vm(*ordinal)), *ns));
    Request {
        wanted: wanted.collect(),
        ..Request::default()
    }
}

fn in_force(world: &World) -> (u32, [u32; 2]) {
    (world.get(CEILING), [0, 1].map(|vm| world.ceiling(vm)))
}

#[test]
fn a_ceiling_is_set_before_the_parameter_that_the_vm_followed() {
    let world = World::new();
    let look = Snapshot::read(&world.root()).unwrap();
    let proposal = look.propose(&both(&world, 0, &[(0, 7), (1, 9)])).unwrap();
    let is_ceiling = |change: &Change| change.target.is_ceiling();
    let order: Vec<bool> = proposal.changes.iter().map(is_ceiling).collect();
    assert_eq!(order, [true, true, false]);
}

#[test]
fn undo_gives_a_vm_that_followed_what_the_parameter_is_then() {
    let world = World::new();
    // Set by an apply before, whose value the VM had when it got its own.
    world.apply(&request(&[(CEILING, 50_000)])).unwrap();
    world.apply(&ceilings(&world, &[(0, 9_000)])).unwrap();
    world.undo_whole();
    assert_eq!(in_force(&world), (AT_BOOT[3], [AT_BOOT[3]; 2]));
    // Set by another program meanwhile.
    world.apply(&both(&world, 60_000, &[(1, 1)])).unwrap();
    world.set(CEILING, 70_000);
    assert!(world.undo().unwrap().is_partial());
    assert_eq!(in_force(&world), (70_000, [AT_BOOT[3], 70_000]));
}

#[test]
fn a_vm_that_ends_between_look_and_change_keeps_no_other_from_being_set() {
    let world = World::new();
    let mut writer = Writer::open(&world.root(), "haltwise apply").unwrap();
    let proposal = writer
        .now()
        .propose(&both(&world, 50_000, &[(0, 0), (1, 0)]))
        .unwrap();
    world.vmm.end(&world.path(""), 1);
    assert_eq!(writer.apply(&proposal).unwrap(), Some(1));
    assert_eq!(writer.ended(), [Target::Ceiling(world.vm(1))]);
    assert_eq!((world.get(CEILING), world.ceiling(0)), (50_000, 0));
    assert_eq!(writer.now().baseline.held.len(), 2);
    drop(writer);
    // The only one of a request is an error, and leaves nothing.
    let world = World::new();
    let mut writer = Writer::open(&world.root(), "haltwise apply").unwrap();
    let proposal = writer.now().propose(&ceilings(&world, &[(1, 0)])).unwrap();
    world.vmm.end(&world.path(""), 1);
    let error = writer.apply(&proposal).unwrap_err();
    assert!(error.to_string().contains("has ended"), "{error}");
    assert_eq!(writer.now().baseline.held, []);
}

#[test]
fn what_was_modified_since_it_was_looked_at_is_left() {
    for is_ceiling in [true, false] {
        let world = World::new();
        let mut writer = Writer::open(&world.root(), "haltwise apply").unwrap();
        let proposal = writer
            .now()
            .propose(&both(&world, 50_000, &[(1, 7)]))
            .unwrap();
        if is_ceiling {
            world.vmm.cap(1, 9);
        } else {
            world.set(CEILING, 60_000);
        }
        let error = writer.apply(&proposal).unwrap_err();
        assert!(matches!(error, KnobError::Meanwhile { .. }), "{error}");
        let theirs = if is_ceiling {
            (AT_BOOT[3], [AT_BOOT[3], 9])
        } else {
            // The VM followed what was modified.
            (60_000, [60_000; 2])
        };
        assert_eq!(in_force(&world), theirs);
    }
}

/// The pilot makes a change only where what it has read is still there.
#[test]
fn a_request_can_rest_on_what_was_read() {
    let world = World::new();
    let set = |expected: u32, to: u32, has_failed| {
        let mut writer = Writer::open(&world.root(), "haltwise pilot").unwrap();
        let wanted = ceilings(&world, &[(1, to)]);
        let expected = [(Target::Ceiling(world.vm(1)), expected)];
        let proposal = writer.propose_on(&wanted, &expected, has_failed)?;
        writer.apply(&proposal).map(drop)
    };
    let otherwise = |done| matches!(done, Err(KnobError::Otherwise(_)));
    // It follows the parameter, which another program sets.
    world.set(CEILING, 60_000);
    for has_failed in [false, true] {
        let done = set(AT_BOOT[3], 7_000, has_failed);
        assert!(matches!(done, Err(KnobError::Follows(_))), "{done:?}");
    }
    world.set(CEILING, AT_BOOT[3]);
    set(AT_BOOT[3], 7_000, false).unwrap();
    set(7_000, AT_BOOT[3], false).unwrap();
    world.undo_whole();
    // A ceiling that the VM then has of its own is the user's alone, and so is one set before the next change.
    world.vmm.cap(1, 9_000);
    assert!(otherwise(set(AT_BOOT[3], 7_000, false)));
    assert!(otherwise(set(AT_BOOT[3], 7_000, true)));
    set(9_000, 7_000, false).unwrap();
    world.undo_whole();
    // Undone: what is to be restored is there already, which is no surprise after an attempt that failed.
    assert!(otherwise(set(7_000, 9_000, false)));
    set(7_000, 9_000, true).unwrap();
    assert_eq!(world.ceiling(1), 9_000);
    // Values that a failed attempt has set nevertheless are in the baseline.
    set(9_000, 7_000, false).unwrap();
    assert!(otherwise(set(9_000, 8_000, false)));
    set(9_000, 8_000, true).unwrap();
    world.vmm.cap(1, 5_000);
    let theirs = set(9_000, 8_000, true);
    assert!(matches!(theirs, Err(KnobError::Theirs(_))), "{theirs:?}");
}

/// As a proof does: both sides give the VM a ceiling, and it cannot follow again.
#[test]
fn a_writer_returns_ceilings_to_what_they_were() {
    let world = World::new();
    let mut writer = Writer::open(&world.root(), "haltwise prove").unwrap();
    let earlier = writer.now().baseline.clone();
    for (parameter, ns) in [(50_000, 0), (AT_BOOT[3], AT_BOOT[3]), (50_000, 0)] {
        let proposal = writer
            .now()
            .propose(&both(&world, parameter, &[(1, ns)]))
            .unwrap();
        writer.apply(&proposal).unwrap();
        assert_eq!(in_force(&world), (parameter, [parameter, ns]));
    }
    assert_eq!(writer.return_to(&earlier).unwrap(), []);
    assert_eq!(in_force(&world), (AT_BOOT[3], [AT_BOOT[3]; 2]));
    assert_eq!(writer.now().baseline.held, []);
}

/// At whichever request: the parameter is as it was, what was set of ceilings is held, and nothing once the VMM ends.
#[test]
fn a_vmm_that_closes_its_socket_during_an_apply_leaves_nothing_behind() {
    let mut refused = 0;
    for requests in 0.. {
        let mut world = World::new();
        world.vmm.closes_after(requests);
        let wanted = both(&world, 50_000, &[(0, 7), (1, 9)]);
        let Err(error) = world.apply(&wanted) else {
            break;
        };
        refused += 1;
        let error = error.to_string();
        let says = ["has closed its socket", "ended, or refused the request"];
        assert!(says.iter().any(|text| error.contains(text)), "{error}");
        assert_eq!(world.get(CEILING), AT_BOOT[3], "after {requests} requests");
        match world.undo() {
            Ok(undone) => assert!(undone.is_partial()),
            Err(KnobError::Nothing) => {
                assert_eq!([0, 1].map(|vm| world.vmm.ceiling(vm)), [None; 2]);
            }
            Err(error) => panic!("{error}"),
        }
        world.restart();
        world.undo_whole();
        assert_eq!(world.values(), AT_BOOT);
    }
    assert!(refused >= 10, "{refused}");
}
