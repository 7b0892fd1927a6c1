//! In a made-up root: what is set, and that all is put back.

use std::collections::BTreeMap;
use std::fs;

use haltwise_core::kvm::guest::Params;
use haltwise_core::kvm::{Arch, Knobs, Version};
use haltwise_core::parameter::Parameter;
use haltwise_core::prove::setting::{GivenSetting, WantedPair};
use haltwise_core::recording::Side;

use super::*;

const IN_FORCE: Knobs = Knobs::of([200_000, 2, 10_000, 2]);

struct World {
    dir: tempfile::TempDir,
}

impl World {
    /// A host, and a guest in one, under what `sides` says is in force.
    fn new(sides: &Sides) -> Self {
        let world = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        world.write("proc/sys/kernel/random/boot_id", "one");
        world.write("sys/devices/system/cpu/online", "0");
        fs::create_dir_all(world.dir.path().join("sys/module/kvm")).unwrap();
        for (parameter, value) in sides.in_force.iter() {
            world.write(parameter.path(), &parameter.written(value));
        }
        world
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.dir.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    fn root(&self) -> Root {
        Root::at(self.dir.path())
    }

    /// The parameters that are there, as their files have them.
    fn now(&self) -> BTreeMap<Parameter, String> {
        let read = |parameter: Parameter| {
            let text = fs::read_to_string(self.dir.path().join(parameter.path())).ok()?;
            Some((parameter, text.trim().to_owned()))
        };
        Parameter::ALL.into_iter().filter_map(read).collect()
    }

    fn ceiling(&self, sides: &Sides) -> String {
        let ceiling = ceiling(sides);
        self.now()[&ceiling].clone()
    }
}

fn ceiling(sides: &Sides) -> Parameter {
    sides.in_force.iter().last().unwrap().0
}

fn files(values: &Values) -> BTreeMap<Parameter, String> {
    let written = |(parameter, value): (Parameter, u32)| (parameter, parameter.written(value));
    values.iter().map(written).collect()
}

fn sides(a: &str, b: &str) -> Sides {
    let (version, arch) = (Version::new(6, 12), Arch::X86);
    let resolve = |text: &str| {
        let wanted: GivenSetting = text.parse().unwrap();
        wanted.resolve(IN_FORCE, Knobs::defaults(version, arch))
    };
    let values = [a, b].map(|text| resolve(text).into());
    Sides::made_up(Side::Host, IN_FORCE.into(), values)
}

fn of_guest(a: &str, b: &str) -> Sides {
    let in_force = Params::default();
    let pair = [a, b].map(|text| text.parse().unwrap());
    let pair = WantedPair::of(pair, true).unwrap();
    assert_eq!(pair.side, Side::Guest);
    let resolve = |it: &GivenSetting| it.resolve(in_force, in_force).into();
    let values = pair.settings.each_ref().map(resolve);
    Sides::made_up(Side::Guest, in_force.into(), values)
}

/// A pair of either side that sets more than the ceiling.
fn both() -> [Sides; 2] {
    [
        sides("off", "kvm:max=50us,shrink=0"),
        of_guest(
            "guest_halt_poll_ns=0",
            "guest_halt_poll_ns=750us,guest_halt_poll_allow_shrink=N",
        ),
    ]
}

#[test]
fn each_setting_is_in_force_while_it_should_be_and_none_afterwards() {
    for sides in both() {
        let world = World::new(&sides);
        let mut parameters = Parameters::take(&world.root(), &sides, true).unwrap();
        for is_b in [false, true, true, false, true] {
            parameters.put(is_b).unwrap();
            assert_eq!(world.now(), files(sides.values(is_b)));
        }
        parameters.restore().unwrap();
        assert_eq!(world.now(), files(&sides.in_force));
        drop(parameters);
        // One that goes away puts back, and leaves nothing for an undo.
        let mut again = Parameters::take(&world.root(), &sides, true).unwrap();
        again.put(true).unwrap();
        drop(again);
        assert_eq!(world.now(), files(&sides.in_force));
        let writer = Writer::open(&world.root(), "test").unwrap();
        assert_eq!(writer.now().baseline.held, []);
    }
}

/// Killed at whatever moment: the journal has it, and an undo restores it to the byte.
#[test]
fn what_a_killed_proof_had_set_is_undone() {
    for sides in both() {
        let world = World::new(&sides);
        let mut parameters = Parameters::take(&world.root(), &sides, true).unwrap();
        parameters.put(true).unwrap();
        // Neither restored nor dropped.
        std::mem::forget(parameters);
        let copy = tempfile::tempdir().unwrap();
        let status = std::process::Command::new("cp")
            .arg("-a")
            .arg(format!("{}/.", world.dir.path().display()))
            .arg(copy.path())
            .status();
        assert!(status.unwrap().success());
        let world = World { dir: copy };
        let mut writer = Writer::open(&world.root(), "test").unwrap();
        let reversal = writer.now().reversal(false).unwrap();
        writer.undo(&reversal).unwrap();
        assert_eq!(world.now(), files(&sides.in_force));
    }
}

/// Also where what we set is what was in force before.
#[test]
fn what_another_program_sets_ends_it_and_stays() {
    for (sides, theirs) in [
        (sides("off", "kvm:max=50us,shrink=0"), "77"),
        (sides("current", "kvm:max=50us"), "77"),
        (sides("current", "kvm:max=50us"), "50000"),
        (of_guest("guest_halt_poll_ns=0", "current"), "77"),
        (of_guest("current", "guest_halt_poll_ns=50us"), "50000"),
    ] {
        let world = World::new(&sides);
        let mut parameters = Parameters::take(&world.root(), &sides, true).unwrap();
        parameters.put(false).unwrap();
        world.write(ceiling(&sides).path(), theirs);
        let failure = parameters.put(true).unwrap_err();
        assert_eq!(failure.exit, Exit::Failed);
        let text = format!("{:#}", failure.error);
        assert!(text.contains("modified externally"), "{text}");
        drop(parameters);
        assert_eq!(world.ceiling(&sides), theirs);
    }
}

#[test]
fn only_what_differs_is_named_before_it_is_written() {
    for (sides, whose) in [
        (sides("off", "kvm:max=50us,grow=4"), ""),
        (
            of_guest(
                "guest_halt_poll_ns=0,guest_halt_poll_grow=2",
                "guest_halt_poll_ns=50us,guest_halt_poll_grow=4",
            ),
            "guest_",
        ),
    ] {
        let failure = refusal(&sides);
        let text = format!("{:#}", failure.error);
        assert_eq!(failure.exit, Exit::Usage);
        let grow = if whose.is_empty() {
            "halt_poll_ns_grow"
        } else {
            "halt_poll_grow"
        };
        for part in [
            &format!("{whose}{grow} to 2 and 4 alternately (now 2)"),
            &format!("{whose}halt_poll_ns to 0 and 50000 alternately (now 200000)"),
            "--yes",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("shrink"), "{text}");
    }
}

#[test]
fn a_parameter_that_nobody_may_write_is_refused_before_anything_is_set() {
    use std::os::unix::fs::PermissionsExt;
    for sides in both() {
        let world = World::new(&sides);
        let ceiling = ceiling(&sides);
        let file = world.dir.path().join(ceiling.path());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
        let failure = Parameters::take(&world.root(), &sides, true).unwrap_err();
        assert_eq!(failure.exit, Exit::Unsupported);
        assert_eq!(world.now(), files(&sides.in_force));
    }
}
