//! Steps one by one: refusals, reboots, what is left to others. `crates/cli/tests/knob` has more of them, with all that is
//! printed.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use haltwise_core::parameter::Parameter;

use super::fault;
use super::world::{AT_BOOT, World, persisted, request};
use crate::knob::*;

const CEILING: Parameter = Parameter::HaltPollNs;

#[test]
fn a_value_from_before_is_nothing_to_undo() {
    let world = World::new();
    for value in [80_000, AT_BOOT[3]] {
        world.apply(&request(&[(CEILING, value)])).unwrap();
    }
    assert!(matches!(world.undo(), Err(KnobError::Nothing)));
    // Unless a boot file of ours sets the parameter.
    let wanted = persisted(&[(CEILING, 80_000)]);
    world.apply(&wanted).unwrap();
    world.apply(&request(&[(CEILING, AT_BOOT[3])])).unwrap();
    let undone = world.undo().unwrap();
    assert_eq!(undone.steps.len(), 2);
    assert_eq!(world.file(BootFile::Modprobe), None);
}

#[test]
fn undo_can_take_over_what_they_set() {
    let world = World::new();
    world.apply(&request(&[(CEILING, 80_000)])).unwrap();
    world.set(CEILING, 60_000);
    world.undo_as(true).unwrap();
    assert_eq!(world.values(), AT_BOOT);
}

#[test]
fn what_a_file_repeats_is_undone_after_a_boot() {
    let mut world = World::new();
    world.apply(&request(&[(CEILING, 100_000)])).unwrap();
    let wanted = persisted(&[(CEILING, 80_000), (Parameter::Shrink, 2)]);
    world.apply(&wanted).unwrap();
    let modprobe = world.file(BootFile::Modprobe).unwrap();
    assert!(modprobe.ends_with("options kvm halt_poll_ns_shrink=2 halt_poll_ns=80000\n"));
    let tmpfiles = world.file(BootFile::Tmpfiles).unwrap();
    assert!(tmpfiles.ends_with("w /sys/module/kvm/parameters/halt_poll_ns - - - - 80000\n"));
    let more = persisted(&[(Parameter::Grow, 3)]);
    world.apply(&more).unwrap();
    world.reboot();
    assert_eq!(world.values()[..4], [3, 10_000, 2, 80_000]);
    // Set since by another program, while our file would set it at boot.
    world.set(Parameter::Grow, 7);
    let undone = world.undo().unwrap();
    assert!(undone.is_partial());
    assert_eq!(world.values()[..4], [7, 10_000, 0, 200_000]);
    assert_eq!(world.file(BootFile::Modprobe), None);
    world.reboot();
    assert_eq!(world.values(), AT_BOOT);
}

#[test]
fn a_full_disk_keeps_nothing_from_being_undone() {
    let world = World::new();
    world.apply(&request(&[(CEILING, 80_000)])).unwrap();
    // A directory in the place of the temporary file: the baseline cannot be replaced.
    let in_the_way = world.path("var/lib/haltwise/baseline.haltwise-new");
    fs::create_dir(&in_the_way).unwrap();
    let error = world
        .apply(&request(&[(Parameter::Shrink, 4)]))
        .unwrap_err();
    assert!(matches!(error, KnobError::Failed { .. }), "{error}");
    assert_eq!(world.get(Parameter::Shrink), 0);
    let error = world.undo().unwrap_err();
    assert!(matches!(error, KnobError::Unrecorded(_)), "{error}");
    assert_eq!(world.values(), AT_BOOT);
    fs::remove_dir(&in_the_way).unwrap();
    let again = world.undo().unwrap();
    assert_eq!(again.steps[0].left[0].why, Why::Restored);
    assert!(!again.is_partial(), "nothing is left that is set");
    assert_eq!(world.values(), AT_BOOT);
    let error = world.undo().unwrap_err();
    assert!(matches!(error, KnobError::Nothing), "{error}");
    // Nor where an apply was cut off after its write, and that cannot be recorded either.
    let world = World::new();
    let in_the_way = world.path("var/lib/haltwise/baseline.haltwise-new");
    let cut = fault::with(Some(6), || world.apply(&request(&[(CEILING, 80_000)])));
    assert!(cut.is_err());
    assert_eq!(world.get(CEILING), 80_000);
    drop(fs::remove_file(&in_the_way));
    fs::create_dir(&in_the_way).unwrap();
    let error = world.undo().unwrap_err();
    assert!(matches!(error, KnobError::Unrecorded(_)), "{error}");
    assert_eq!(world.values(), AT_BOOT);
}

#[test]
fn one_writer_at_a_time_and_readers_wait_for_nobody() {
    let world = World::new();
    let held = Writer::open(&world.root(), "haltwise apply").unwrap();
    let error = Writer::open(&world.root(), "haltwise undo").unwrap_err();
    assert!(matches!(error, KnobError::Busy { .. }), "{error}");
    let error = Snapshot::read(&world.root()).unwrap_err();
    assert!(matches!(error, KnobError::Busy { .. }), "{error}");
    drop(held);
    assert!(Snapshot::read(&world.root()).is_ok());
}

#[test]
fn looking_writes_nothing_and_knows_what_was_cut_off() {
    let world = World::new();
    let look = Snapshot::read(&world.root()).unwrap();
    assert_eq!(look.baseline, Baseline::default());
    assert!(!world.path("var").exists());
    // Cut off between the baseline and the parameter, then between the parameter and the baseline.
    for (before, outcome) in [(5, Outcome::NotDone), (6, Outcome::Done)] {
        let world = World::new();
        let wanted = request(&[(CEILING, 80_000)]);
        fault::with(Some(before), || world.apply(&wanted)).unwrap_err();
        let file = || fs::read(world.path(BASELINE)).unwrap();
        let left = file();
        let results = [(Target::Parameter(CEILING), outcome)];
        let look = Snapshot::read(&world.root()).unwrap();
        assert_eq!(look.cut_off.unwrap().results, results);
        let is_set = outcome == Outcome::Done;
        assert_eq!(look.baseline.held.len(), usize::from(is_set));
        assert_eq!(file(), left);
        let writer = Writer::open(&world.root(), "haltwise undo").unwrap();
        assert_eq!(writer.now().cut_off.as_ref().unwrap().results, results);
    }
}

#[test]
fn a_damaged_baseline_stops_everything_and_says_where() {
    let world = World::new();
    world.apply(&request(&[(CEILING, 80_000)])).unwrap();
    let text = fs::read_to_string(world.path(BASELINE)).unwrap();
    for (from, to, said) in [
        (
            "\"80000\"",
            "\"80000x\"",
            "has a value of halt_poll_ns that it cannot be",
        ),
        ("\"80000\",", "\"80000\"", "at line"),
        ("\"schema\": 1", "\"schema\": 2", "has schema 2, not 1"),
    ] {
        fs::write(world.path(BASELINE), text.replace(from, to)).unwrap();
        let error = world.undo().unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
        assert_eq!(world.get(CEILING), 80_000);
    }
}

#[test]
fn what_others_may_write_is_not_believed() {
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let allow = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let world = World::new();
    world.apply(&request(&[(CEILING, 80_000)])).unwrap();
    let path = world.path(BASELINE);
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(mode(&world.path("var/lib/haltwise/lock")), 0o600);
    let refused = |what: &str| {
        let undo = world.undo().unwrap_err().to_string();
        let look = Snapshot::read(&world.root()).unwrap_err().to_string();
        assert!(
            undo.ends_with(what) && look.ends_with(what),
            "{undo}; {look}"
        );
    };
    allow(&path, 0o666);
    refused("others may write it");
    allow(&path, 0o600);
    allow(path.parent().unwrap(), 0o777);
    refused("others may write it");
    allow(path.parent().unwrap(), 0o700);
    allow(&world.path("var/lib/haltwise/lock"), 0o644);
    let error = world.undo().unwrap_err().to_string();
    assert!(
        error.ends_with("others may open it, and so lock it"),
        "{error}"
    );
    allow(&world.path("var/lib/haltwise/lock"), 0o600);
    let aside = path.with_file_name("aside");
    fs::rename(&path, &aside).unwrap();
    std::os::unix::fs::symlink(&aside, &path).unwrap();
    refused("it is a link");
    fs::remove_file(&path).unwrap();
    let (fifo, mode) = (rustix::fs::FileType::Fifo, 0o600.into());
    rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, mode, 0).unwrap();
    refused("it is no regular file");
    assert_eq!(world.get(CEILING), 80_000);
}

#[test]
fn a_boot_file_of_another_program_is_refused() {
    let mut wanted = persisted(&[(CEILING, 80_000)]);
    let theirs = "options kvm ignore_msrs=1\n";
    for take_over in [false, true] {
        wanted.take_over = take_over;
        let world = World::new();
        world.set_file(BootFile::Modprobe, Some(theirs));
        let error = world.apply(&wanted).unwrap_err();
        assert!(matches!(error, KnobError::Occupied { .. }), "{error}");
        assert_eq!(world.file(BootFile::Modprobe).as_deref(), Some(theirs));
        assert_eq!(world.values(), AT_BOOT);
        // The same of one that was ours.
        let world = World::new();
        world.apply(&wanted).unwrap();
        world.set_file(BootFile::Modprobe, Some(theirs));
        let error = world.apply(&wanted).unwrap_err();
        assert!(matches!(error, KnobError::Occupied { .. }), "{error}");
        assert!(world.undo_as(take_over).unwrap().is_partial());
        assert_eq!(world.file(BootFile::Modprobe).as_deref(), Some(theirs));
        // A removed one is written again where it is to be taken over.
        let world = World::new();
        world.apply(&wanted).unwrap();
        world.set_file(BootFile::Modprobe, None);
        let again = world.apply(&wanted);
        assert_eq!(again.is_ok(), take_over, "{again:?}");
        assert_eq!(world.file(BootFile::Modprobe).is_some(), take_over);
    }
}

#[test]
fn a_forged_baseline_writes_nothing_to_boot_files() {
    let world = World::new();
    let wanted = persisted(&[(CEILING, 80_000)]);
    world.apply(&wanted).unwrap();
    let mut writer = Writer::open(&world.root(), "haltwise undo").unwrap();
    let mut reversal = writer.now().reversal(false).unwrap();
    for change in &mut reversal.steps[0].changes {
        if change.target == Target::File(BootFile::Modprobe) {
            change.new = Some("install kvm /bin/sh -c evil\n".to_owned());
        }
    }
    let error = writer.undo(&reversal).unwrap_err();
    assert!(matches!(error, KnobError::Forged { .. }), "{error}");
    drop(writer);
    // Undo does not believe such a baseline either.
    let error = world.undo().unwrap_err();
    assert!(matches!(error, KnobError::Damaged { .. }), "{error}");
    let text = world.file(BootFile::Modprobe).unwrap();
    assert!(!text.contains("install"), "{text}");
}

#[test]
fn what_is_read_after_our_boot_files_is_named() {
    let (_dir, root) = crate::root::made_up(&[
        (
            "etc/modprobe.d/a-early.conf",
            "options kvm halt_poll_ns=1\n",
        ),
        (
            "usr/lib/modprobe.d/zz-late.conf",
            "# options kvm halt_poll_ns=3\noptions kvm halt_poll_ns=2 ignore_msrs=1\n",
        ),
        (
            "etc/tmpfiles.d/zz.conf",
            "w /sys/module/kvm/parameters/halt_poll_ns_grow - - - - 7\n",
        ),
        (
            "proc/cmdline",
            "quiet kvm.halt_poll_ns=80000 kvm.halt_poll_ns_grow=9\n",
        ),
    ]);
    let values = [(CEILING, 80_000), (Parameter::Grow, 3)];
    let values = values.into_iter().collect();
    let lines = lines(&root);
    let found: Vec<_> = rivals(&lines, &values)
        .map(|it| (it.place.as_str(), it.parameter, it.value.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            ("/usr/lib/modprobe.d/zz-late.conf", CEILING, "2"),
            ("/etc/tmpfiles.d/zz.conf", Parameter::Grow, "7"),
            ("the kernel's command line", Parameter::Grow, "9"),
        ]
    );
}

/// As a proof does: other values for a while, then back.
#[test]
fn a_writer_returns_to_an_earlier_baseline() {
    let world = World::new();
    let applied = request(&[(CEILING, 80_000)]);
    world.apply(&applied).unwrap();
    let set = |writer: &mut Writer, value| {
        let wanted = request(&[(CEILING, value), (Parameter::Shrink, value)]);
        let proposal = writer.now().propose(&wanted).unwrap();
        writer.apply(&proposal).unwrap();
    };
    // The last of them is what it was before the first apply.
    for last in [30_000, AT_BOOT[3]] {
        let mut writer = Writer::open(&world.root(), "haltwise prove").unwrap();
        let earlier = writer.now().baseline.clone();
        for value in [50_000, last] {
            set(&mut writer, value);
        }
        assert_eq!(world.get(CEILING), last);
        assert_eq!(writer.return_to(&earlier).unwrap(), []);
        assert_eq!(writer.now().baseline.held, earlier.held);
        assert_eq!(
            (world.get(CEILING), world.get(Parameter::Shrink)),
            (80_000, 0)
        );
    }
    let mut writer = Writer::open(&world.root(), "haltwise prove").unwrap();
    let earlier = writer.now().baseline.clone();
    set(&mut writer, 50_000);
    world.set(CEILING, 7);
    let left = writer.return_to(&earlier).unwrap();
    assert_eq!(left, [Target::Parameter(CEILING)]);
    assert_eq!((world.get(CEILING), world.get(Parameter::Shrink)), (7, 0));
    drop(writer);
    assert!(world.undo().unwrap().is_partial());
}

#[test]
fn the_governor_of_a_guest_is_set_kept_and_restored() {
    let mut world = World::new();
    let kvm = world.path("sys/module/kvm");
    let shrink = world.path(Parameter::GuestAllowShrink.path());
    let wanted = persisted(&[
        (Parameter::GuestHaltPollNs, 750_000),
        (Parameter::GuestAllowShrink, 0),
        (CEILING, 80_000),
    ]);
    world.apply(&wanted).unwrap();
    assert_eq!(fs::read_to_string(&shrink).unwrap().trim(), "N");
    let modprobe = world.file(BootFile::Modprobe).unwrap();
    assert!(modprobe.contains("options kvm halt_poll_ns=80000\noptions haltpoll "));
    assert!(modprobe.contains("guest_halt_poll_allow_shrink=N"));
    world.reboot();
    assert_eq!(world.get(Parameter::GuestHaltPollNs), 750_000);
    assert_eq!(world.get(Parameter::GuestAllowShrink), 0);
    world.undo_whole();
    assert_eq!(world.values(), AT_BOOT);
    assert_eq!(world.file(BootFile::Modprobe), None);
    // A guest has no KVM of its own.
    fs::remove_dir_all(kvm).unwrap();
    let wanted = request(&[(Parameter::GuestAllowShrink, 0)]);
    world.apply(&wanted).unwrap();
    fs::write(&shrink, "maybe").unwrap();
    let error = world.undo().unwrap_err();
    assert!(error.to_string().contains("Y or N"), "{error}");
    fs::write(&shrink, "Y").unwrap();
    let taken_back = world.apply(&wanted);
    assert!(taken_back.is_err(), "it was modified externally");
}
