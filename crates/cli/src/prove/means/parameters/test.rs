//! In a made-up root: what is set, and that all is put back.

use std::fs;

use haltwise_core::kvm::{Arch, Version};

use super::*;

const IN_FORCE: Knobs = Knobs {
    halt_poll_ns: 200_000,
    grow: 2,
    grow_start: 10_000,
    shrink: 2,
};

struct World {
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        world.write("proc/sys/kernel/random/boot_id", "one");
        for parameter in Parameter::KVM {
            let file = format!("sys/module/kvm/parameters/{parameter}");
            world.write(&file, &of_kvm(&IN_FORCE, parameter).unwrap().to_string());
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

    fn now(&self) -> Knobs {
        let read = |parameter: Parameter| -> u32 {
            let file = format!("sys/module/kvm/parameters/{parameter}");
            let text = fs::read_to_string(self.dir.path().join(file)).unwrap();
            text.trim().parse().unwrap()
        };
        Knobs {
            halt_poll_ns: read(Parameter::HaltPollNs),
            grow: read(Parameter::Grow),
            grow_start: read(Parameter::GrowStart),
            shrink: read(Parameter::Shrink),
        }
    }
}

fn sides(a: &str, b: &str) -> Sides {
    let (version, arch) = (Version::new(6, 12), Arch::X86);
    let resolve = |text: &str| {
        let wanted: haltwise_core::prove::setting::WantedSetting = text.parse().unwrap();
        wanted.resolve(IN_FORCE, version, arch)
    };
    Sides {
        in_force: IN_FORCE,
        assumed: Vec::new(),
        a: resolve(a),
        b: resolve(b),
        version,
        arch,
        scopes: crate::prove::scopes::Scopes::default(),
    }
}

#[test]
fn each_setting_is_in_force_while_it_should_be_and_none_afterwards() {
    let world = World::new();
    let sides = sides("current", "kvm:max=50us,shrink=0");
    let mut parameters = Parameters::take(&world.root(), &sides).unwrap();
    for is_b in [false, true, true, false, true] {
        parameters.put(&sides, is_b).unwrap();
        assert_eq!(world.now(), sides.under(is_b));
    }
    parameters.restore().unwrap();
    assert_eq!(world.now(), IN_FORCE);
    // Nothing is left for an undo.
    drop(parameters);
    let writer = Writer::open(&world.root(), "test", None).unwrap();
    assert_eq!(writer.baseline().held, []);
}

#[test]
fn what_goes_away_puts_back() {
    let world = World::new();
    let sides = sides("off", "kvm:max=50us");
    let mut parameters = Parameters::take(&world.root(), &sides).unwrap();
    parameters.put(&sides, true).unwrap();
    assert_eq!(world.now(), sides.b);
    drop(parameters);
    assert_eq!(world.now(), IN_FORCE);
}

#[test]
fn what_somebody_else_sets_meanwhile_is_theirs() {
    let world = World::new();
    let sides = sides("off", "kvm:max=50us");
    let mut parameters = Parameters::take(&world.root(), &sides).unwrap();
    parameters.put(&sides, false).unwrap();
    world.write("sys/module/kvm/parameters/halt_poll_ns", "77");
    let failure = parameters.put(&sides, true).unwrap_err();
    assert_eq!(failure.exit, Exit::Failed);
    drop(parameters);
    assert_eq!(world.now().halt_poll_ns, 77);
}

#[test]
fn a_change_while_nothing_of_ours_is_in_force_ends_it_too() {
    for theirs in ["77", "50000"] {
        let world = World::new();
        let sides = sides("current", "kvm:max=50us");
        let mut parameters = Parameters::take(&world.root(), &sides).unwrap();
        parameters.put(&sides, false).unwrap();
        world.write("sys/module/kvm/parameters/halt_poll_ns", theirs);
        let failure = parameters.put(&sides, true).unwrap_err();
        let text = format!("{:#}", failure.error);
        assert!(
            text.contains("halt_poll_ns was modified externally to")
                && text.contains("it was 200000"),
            "{text}"
        );
        drop(parameters);
        assert_eq!(world.now().halt_poll_ns.to_string(), theirs);
    }
}

#[test]
fn only_what_differs_is_named_before_it_is_written() {
    let failure = refusal(&sides("off", "kvm:max=50us,grow=4"));
    let text = format!("{:#}", failure.error);
    assert_eq!(failure.exit, Exit::Usage);
    for part in [
        "halt_poll_ns_grow to 2 and 4 alternately (now 2)",
        "halt_poll_ns to 0 and 50000 alternately (now 200000)",
        "--yes",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("shrink"), "{text}");
}

#[test]
fn a_parameter_that_nobody_may_write_is_refused_before_anything_is_set() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    let file = world
        .dir
        .path()
        .join("sys/module/kvm/parameters/halt_poll_ns");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    let sides = sides("off", "kvm:max=50us,grow=4");
    let failure = Parameters::take(&world.root(), &sides).unwrap_err();
    assert_eq!(failure.exit, Exit::Unsupported);
    assert_eq!(world.now(), IN_FORCE);
}
