//! Apply followed by undo is the identity, whatever happens between.
//!
//! `HALTWISE_SEED=N cargo test -p haltwise-host knob` repeats a run; the seed is printed.

use std::sync::PoisonError;

use haltwise_core::parameter::Parameter;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use super::fault::{self, Fault};
use super::world::{AT_BOOT, VMS, World, key, persisted};
use crate::knob::*;

#[derive(Debug, Clone)]
enum Event {
    Apply(Request, Option<Fault>),
    Undo(Option<Fault>),
    /// Another program sets a parameter.
    Set(Parameter),
    /// The VMM sets the ceiling of a VM itself.
    Cap(u32),
    /// The VMM ends, and another with as many VMs starts.
    Restart,
    /// Another program writes or removes a boot file.
    SetFile(BootFile, bool),
    Reboot,
}

/// Ours are 1 above a thousand; what others set is 7 above; what a boot sets is neither.
fn ours() -> impl Strategy<Value = u32> {
    (1_u32..60).prop_map(|value| value * 1_000 + 1)
}

/// All that hold any number; `steps` has the one that is Y or N.
fn parameter() -> impl Strategy<Value = Parameter> {
    let all = Parameter::ALL.into_iter();
    let numbers = all.filter(|it| *it != Parameter::GuestAllowShrink);
    prop::sample::select(numbers.collect::<Vec<_>>())
}

fn fault() -> impl Strategy<Value = Option<Fault>> {
    prop::option::of(1_u64..20)
}

fn request() -> impl Strategy<Value = Request> {
    let parameters = prop::collection::btree_map(parameter(), ours(), 0..4);
    let ceilings = prop::collection::btree_map(0..VMS, ours(), 0..=2);
    let both = (parameters, ceilings).prop_filter("something", |(parameters, ceilings)| {
        !parameters.is_empty() || !ceilings.is_empty()
    });
    (both, prop::bool::weighted(0.3), any::<bool>()).prop_map(
        |((parameters, ceilings), persist, take_over)| {
            let persist = persist && !parameters.is_empty();
            let parameters = parameters.into_iter();
            let parameters = parameters.map(|(it, value)| (Target::Parameter(it), value));
            // By the order of the VMs; whose they are is known when it happens.
            let ceilings = ceilings.into_iter();
            let ceilings = ceilings.map(|(ordinal, ns)| (Target::Ceiling(key(ordinal, 0)), ns));
            Request {
                wanted: parameters.chain(ceilings).collect(),
                persist,
                take_over,
            }
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (request(), fault()).prop_map(|(request, fault)| Event::Apply(request, fault)),
        4 => fault().prop_map(Event::Undo),
        2 => parameter().prop_map(Event::Set),
        1 => (0..VMS).prop_map(Event::Cap),
        1 => Just(Event::Restart),
        1 => (prop::sample::select(BootFile::ALL.to_vec()), any::<bool>())
            .prop_map(|(file, there)| Event::SetFile(file, there)),
        1 => Just(Event::Reboot),
    ]
}

/// Last changes by others, as far as they should still be there.
#[derive(Debug, Default)]
struct Others {
    parameters: [Option<u32>; 9],
    /// Whether they did, and the text if they left one.
    files: [(bool, Option<String>); 2],
    ceilings: [Option<u32>; VMS as usize],
}

/// Errors that a command may end with here.
fn is_fair(error: &KnobError) -> bool {
    matches!(
        error,
        KnobError::Theirs(_) | KnobError::Occupied { .. } | KnobError::Nothing
    ) || format!("{error:?}").contains("as a test wanted")
}

fn happen(world: &mut World, others: &mut Others, at: usize, event: Event) {
    let done = match event {
        Event::Apply(mut request, fault) => {
            for (target, _) in &mut request.wanted {
                if let Target::Ceiling(vm) = target {
                    *vm = world.vm(vm.ordinal);
                }
            }
            fault::with(fault, || world.apply(&request)).map(drop)
        }
        Event::Undo(fault) => fault::with(fault, || world.undo()).map(drop),
        Event::Set(parameter) => {
            let value = u32::try_from(at).unwrap() * 1_000 + 7;
            world.set(parameter, value);
            let place = Parameter::ALL.iter().position(|it| *it == parameter);
            others.parameters[place.unwrap()] = Some(value);
            Ok(())
        }
        Event::Cap(ordinal) => {
            let value = u32::try_from(at).unwrap() * 1_000 + 7;
            world.vmm.cap(ordinal, value);
            others.ceilings[ordinal as usize] = Some(value);
            Ok(())
        }
        Event::Restart => {
            world.restart();
            others.ceilings = [None; VMS as usize];
            Ok(())
        }
        Event::SetFile(file, there) => {
            // A command first: a file that was cut off in its making and removed externally before any
            // command has looked cannot be known to have been there at a boot.
            drop(Writer::open(&world.root(), "haltwise undo").unwrap());
            let text = there.then(|| format!("# somebody else's, at {at}\n"));
            world.set_file(file, text.as_deref());
            let place = BootFile::ALL.iter().position(|it| *it == file);
            others.files[place.unwrap()] = (true, text);
            Ok(())
        }
        Event::Reboot => {
            world.reboot();
            others.parameters = [None; 9];
            others.ceilings = [None; VMS as usize];
            Ok(())
        }
    };
    if let Err(error) = done {
        assert!(is_fair(&error), "{error}: {error:?}");
    }
}

fn law(events: Vec<Event>) -> Result<(), TestCaseError> {
    let mut world = World::new();
    let mut others = Others::default();
    for (at, event) in events.into_iter().enumerate() {
        happen(&mut world, &mut others, at + 1, event);
    }
    world.undo_whole();
    for ((parameter, theirs), at_boot) in Parameter::ALL
        .into_iter()
        .zip(others.parameters)
        .zip(AT_BOOT)
    {
        let value = world.get(parameter);
        match theirs {
            Some(theirs) => prop_assert_eq!(value, theirs, "{}", parameter),
            None => prop_assert!(
                value == at_boot || value % 1_000 == 7,
                "{parameter} {value}"
            ),
        }
    }
    for (ordinal, theirs) in (0..VMS).zip(others.ceilings) {
        let (value, at_boot) = (world.ceiling(ordinal), AT_BOOT[3]);
        match theirs {
            Some(theirs) => prop_assert_eq!(value, theirs, "VM {}", ordinal),
            None => prop_assert!(
                value == at_boot || value % 1_000 == 7,
                "VM {ordinal} {value}"
            ),
        }
    }
    for (file, theirs) in BootFile::ALL.into_iter().zip(others.files) {
        let (touched, text) = theirs;
        prop_assert!(touched || text.is_none());
        prop_assert_eq!(world.file(file), text);
    }
    for directory in ["etc/modprobe.d", "etc/tmpfiles.d"] {
        for entry in std::fs::read_dir(world.path(directory)).unwrap() {
            let name = entry.unwrap().file_name();
            prop_assert_eq!(name.to_str(), Some("haltwise.conf"));
        }
    }
    world.reboot();
    prop_assert_eq!(world.values(), AT_BOOT);
    Ok(())
}

/// After any applies and undos of parameters and ceilings, each cut off anywhere, any boots, ends of VMs and
/// writes of others, undoing leaves what others set last, and else nothing of ours; and the next boot is as
/// the first.
#[test]
#[expect(clippy::print_stderr, reason = "the seed repeats the run")]
fn undoing_leaves_nothing_of_ours_and_everything_of_others() {
    let _others_wait = crate::ALL_CPUS
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let seed = std::env::var("HALTWISE_SEED").ok();
    let seed = seed.map_or_else(crate::clock::wall_ns, |seed| seed.parse().unwrap());
    eprintln!("HALTWISE_SEED={seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let config = Config {
        cases: 400,
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, rng);
    let events = prop::collection::vec(event(), 1..14);
    // A thread has 2 s to wait for VMMs, which all cases together would use up on a busy machine.
    let alone = |events| {
        let case = std::thread::spawn(|| law(events)).join();
        case.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    };
    if let Err(error) = runner.run(&events, alone) {
        panic!("HALTWISE_SEED={seed}: {error}");
    }
}

/// One apply, of two parameters, the ceilings of two VMs and both files, cut off before each of its effects in turn; and the
/// undo of it the same.
#[test]
fn a_cut_at_every_effect_is_undone() {
    let _others_wait = crate::ALL_CPUS
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let mut request = persisted(&[(Parameter::HaltPollNs, 80_001), (Parameter::Shrink, 2_001)]);
    let ceilings = (0..VMS).map(|vm| (Target::Ceiling(key(vm, 1)), 1_001));
    request.wanted.extend(ceilings);
    let effects = |first: &dyn Fn(&World), cut: &dyn Fn(&World) -> bool| {
        (1..100)
            .find(|before| {
                let world = World::new();
                first(&world);
                let whole = fault::with(Some(*before), || cut(&world));
                world.undo_whole();
                assert_eq!(world.values(), AT_BOOT, "before effect {before}");
                let ceilings = [0, 1].map(|vm| world.ceiling(vm));
                assert_eq!(ceilings, [AT_BOOT[3]; 2], "before effect {before}");
                assert!(BootFile::ALL.iter().all(|it| world.file(*it).is_none()));
                whole
            })
            .unwrap()
            - 1
    };
    let apply = |world: &World| world.apply(&request).is_ok();
    effects(&|_| (), &apply);
    let undone = effects(&|world| assert!(apply(world)), &|world| {
        world.undo().is_ok()
    });
    // The baseline before and after, two ceilings, two parameters, two files removed.
    assert_eq!(undone, 3 + 3 + 2 + 2 + 4);
}
