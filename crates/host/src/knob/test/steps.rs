//! Steps one by one: order, refusals, reboots, what is left to others.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::world::{AT_BOOT, World, wish};
use crate::knob::*;

const CEILING: Parameter = Parameter::HaltPollNs;

#[test]
fn steps_are_undone_in_order_or_by_number() {
    let world = World::new();
    assert_eq!(
        world.apply(&wish(&[(CEILING, 80_000)]), None).unwrap(),
        Some(1)
    );
    assert_eq!(
        world.apply(&wish(&[(CEILING, 50_000)]), None).unwrap(),
        Some(2)
    );
    assert_eq!(
        world.apply(&wish(&[(Parameter::Shrink, 4)]), None).unwrap(),
        Some(3)
    );
    // Nothing to do is no step.
    assert_eq!(
        world.apply(&wish(&[(Parameter::Shrink, 4)]), None).unwrap(),
        None
    );
    let error = world.undo(Which::Step(1), None).unwrap_err().to_string();
    assert_eq!(
        error,
        "undo step 1: step 2 has turned halt_poll_ns since; undo that first"
    );
    let error = world.undo(Which::Step(9), None).unwrap_err().to_string();
    assert_eq!(error, "undo step 9: it is not in force (in force: 1, 2, 3)");
    world.undo(Which::Step(2), None).unwrap();
    assert_eq!(
        (world.get(CEILING), world.get(Parameter::Shrink)),
        (80_000, 4)
    );
    world.undo(Which::Newest, None).unwrap();
    world.undo(Which::Newest, None).unwrap();
    assert_eq!(world.values(), AT_BOOT);
    assert!(matches!(
        world.undo(Which::Newest, None),
        Err(KnobError::Nothing)
    ));
}

#[test]
fn what_somebody_else_set_is_theirs() {
    let world = World::new();
    world
        .apply(&wish(&[(CEILING, 80_000), (Parameter::Shrink, 4)]), None)
        .unwrap();
    world.set(CEILING, 70_000);
    let refused = world.apply(&wish(&[(CEILING, 50_000)]), None).unwrap_err();
    let said = refused.to_string();
    assert!(
        said.contains("halt_poll_ns is 70000, and step 1 (`haltwise apply`) wrote 80000"),
        "{said}"
    );
    assert!(said.contains("modified externally"), "{said}");
    assert_eq!(world.get(CEILING), 70_000);
    // The other one is still ours.
    let undone = world.undo(Which::Newest, None).unwrap();
    assert_eq!(undone.leaves[0].why, Why::Theirs);
    assert_eq!(
        (world.get(CEILING), world.get(Parameter::Shrink)),
        (70_000, 0)
    );
    // And theirs it stays, until somebody says otherwise, or the host is booted.
    let mut again = wish(&[(CEILING, 50_000)]);
    let refused = world.apply(&again, None).unwrap_err();
    assert!(matches!(refused, KnobError::Theirs(_)), "{refused}");
    again.take_over = true;
    world.apply(&again, None).unwrap();
    world.undo_all();
    assert_eq!(world.get(CEILING), 70_000);
}

#[test]
fn taking_over_is_journaled_and_undone_to_what_they_had() {
    let world = World::new();
    world.apply(&wish(&[(CEILING, 80_000)]), None).unwrap();
    world.set(CEILING, 70_000);
    let mut wanted = wish(&[(CEILING, 50_000)]);
    wanted.take_over = true;
    world.apply(&wanted, None).unwrap();
    assert_eq!(world.get(CEILING), 50_000);
    assert!(
        String::from_utf8(world.journal())
            .unwrap()
            .contains("\"takes_over\":[{\"parameter\":\"halt_poll_ns\"}]")
    );
    world.undo_all();
    assert_eq!(world.get(CEILING), 70_000);

    world.apply(&wish(&[(CEILING, 80_000)]), None).unwrap();
    world.set(CEILING, 60_000);
    world.undo_as(Which::Newest, true, None).unwrap();
    assert_eq!(world.get(CEILING), 70_000);
}

#[test]
fn a_boot_undoes_what_no_file_repeats() {
    let mut world = World::new();
    world.apply(&wish(&[(CEILING, 80_000)]), None).unwrap();
    world.reboot();
    // What was ours is gone, so that nothing is refused.
    world.apply(&wish(&[(CEILING, 60_000)]), None).unwrap();
    world.reboot();
    for _ in 0..2 {
        let undone = world.undo(Which::Newest, None).unwrap();
        assert_eq!(undone.turns, []);
        assert_eq!(undone.leaves[0].why, Why::Rebooted);
    }
    assert_eq!(world.values(), AT_BOOT);
}

#[test]
fn what_a_file_repeats_is_undone_after_a_boot() {
    let mut world = World::new();
    world.apply(&wish(&[(CEILING, 100_000)]), None).unwrap();
    let mut wanted = wish(&[(CEILING, 80_000), (Parameter::Shrink, 2)]);
    wanted.persist = true;
    world.apply(&wanted, None).unwrap();
    assert!(
        world
            .file(BootFile::Modprobe)
            .unwrap()
            .ends_with("options kvm halt_poll_ns_shrink=2 halt_poll_ns=80000\n")
    );
    assert!(
        world
            .file(BootFile::Tmpfiles)
            .unwrap()
            .ends_with("w /sys/module/kvm/parameters/halt_poll_ns - - - - 80000\n")
    );
    let mut more = wish(&[(Parameter::Grow, 3)]);
    more.persist = true;
    world.apply(&more, None).unwrap();
    world.reboot();
    assert_eq!(world.values(), [3, 10_000, 2, 80_000]);
    world.undo(Which::Newest, None).unwrap();
    assert_eq!(world.values(), [2, 10_000, 2, 80_000]);
    // The step before was never repeated by a file: it is the boot's value that comes back.
    world.undo(Which::Newest, None).unwrap();
    assert_eq!(world.get(CEILING), AT_BOOT[3]);
    assert_eq!(world.file(BootFile::Modprobe), None);
    world.undo_all();
    assert_eq!(world.values(), AT_BOOT);
}

#[test]
fn a_file_of_somebody_else_is_kept() {
    let world = World::new();
    world.set_file(BootFile::Modprobe, Some("options kvm ignore_msrs=1\n"));
    let mut wanted = wish(&[(CEILING, 80_000)]);
    wanted.persist = true;
    let error = world.apply(&wanted, None).unwrap_err().to_string();
    assert!(
        error.ends_with("is there already, and is not ours"),
        "{error}"
    );
    wanted.take_over = true;
    world.apply(&wanted, None).unwrap();
    world.undo_all();
    assert_eq!(
        world.file(BootFile::Modprobe).unwrap(),
        "options kvm ignore_msrs=1\n"
    );
}

#[test]
fn a_kernel_that_lacks_or_locks_a_parameter_is_told() {
    let world = World::new();
    let path = world.path(Parameter::GrowStart.path());
    fs::remove_file(&path).unwrap();
    let error = world
        .apply(&wish(&[(Parameter::GrowStart, 1)]), None)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "set halt_poll_ns_grow_start: this kernel has no such parameter (it came with Linux 5.1)"
    );
    let path = world.path(CEILING.path());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let error = world
        .apply(&wish(&[(CEILING, 1)]), None)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("read-only on this host, for everybody"),
        "{error}"
    );
    fs::remove_dir_all(world.path("sys/module/kvm")).unwrap();
    let error = world.apply(&wish(&[(CEILING, 1)]), None).unwrap_err();
    assert!(matches!(error, KnobError::NoKvm));
    assert_eq!(world.journal(), b"");
}

#[test]
fn one_writer_at_a_time_and_readers_wait_for_nobody() {
    let world = World::new();
    let held = Keeper::open(&world.root(), "haltwise apply", None).unwrap();
    let error = Keeper::open(&world.root(), "haltwise undo", None).unwrap_err();
    assert!(matches!(error, KnobError::Busy { .. }), "{error}");
    assert!(Look::at(&world.root()).unwrap().is_none());
    drop(held);
    assert!(Look::at(&world.root()).unwrap().is_some());
}

#[test]
fn looking_writes_nothing_and_knows_what_is_open() {
    let world = World::new();
    assert!(
        Look::at(&world.root())
            .unwrap()
            .unwrap()
            .state
            .steps
            .is_empty()
    );
    assert!(!world.path("var").exists());
    // Cut off between the journal and the parameter, then between the parameter and the journal.
    for (before, outcome) in [(5, Outcome::NotDone), (6, Outcome::Done)] {
        let world = World::new();
        let fault = Fault::Stop { before, torn: 0 };
        world
            .apply(&wish(&[(CEILING, 80_000)]), Some(fault))
            .unwrap_err();
        let journal = world.journal();
        let look = Look::at(&world.root()).unwrap().unwrap();
        assert_eq!(
            look.open.unwrap().results,
            [outcome],
            "before effect {before}"
        );
        assert_eq!(
            look.state.steps.len(),
            usize::from(outcome == Outcome::Done)
        );
        assert_eq!(world.journal(), journal);
        let keeper = Keeper::open(&world.root(), "haltwise undo", None).unwrap();
        assert_eq!(keeper.settled().unwrap().results, [outcome]);
    }
}

#[test]
fn damage_within_the_journal_stops_everything_and_says_where() {
    let world = World::new();
    world.apply(&wish(&[(CEILING, 80_000)]), None).unwrap();
    let text = String::from_utf8(world.journal()).unwrap();
    fs::write(world.path(JOURNAL), text.replace("80000", "90000")).unwrap();
    let error = world.undo(Which::Newest, None).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(
        source.starts_with("line 1 (at byte 0) has the sum"),
        "{source}"
    );
    assert_eq!(world.get(CEILING), 80_000);
}

#[test]
fn a_journal_that_others_may_write_is_not_believed() {
    let world = World::new();
    world.apply(&wish(&[(CEILING, 80_000)]), None).unwrap();
    let path = world.path(JOURNAL);
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(mode(&world.path("var/lib/haltwise/lock")), 0o600);
    let allow = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    allow(&path, 0o666);
    let refused = |what: &str| {
        let undo = world.undo(Which::Newest, None).unwrap_err().to_string();
        let look = Look::at(&world.root()).unwrap_err().to_string();
        assert!(
            undo.ends_with(what) && look.ends_with(what),
            "{undo}; {look}"
        );
    };
    refused("others may write it");
    // One that an earlier version made: nobody could have written it, and now nobody may read it.
    allow(&path, 0o644);
    world.undo(Which::Newest, None).unwrap();
    assert_eq!(mode(&path), 0o600);
    allow(&world.path("var/lib/haltwise/lock"), 0o644);
    let error = world.undo(Which::Newest, None).unwrap_err().to_string();
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
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    refused("it is no regular file");
}

#[test]
fn a_boot_file_of_somebody_else_gets_back_its_mode_and_its_link() {
    let mut wanted = wish(&[(CEILING, 80_000)]);
    wanted.persist = true;
    wanted.take_over = true;
    let world = World::new();
    let path = world.path(Target::File(BootFile::Modprobe).path());
    world.set_file(BootFile::Modprobe, Some("options kvm ignore_msrs=1\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    world.apply(&wanted, None).unwrap();
    world.undo_all();
    let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode, 0o640);
    let elsewhere = world.path("etc/kvm-options");
    fs::rename(&path, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    world.apply(&wanted, None).unwrap();
    assert!(!path.symlink_metadata().unwrap().is_symlink());
    world.undo_all();
    assert_eq!(fs::read_link(&path).unwrap(), elsewhere);
    let text = world.file(BootFile::Modprobe).unwrap();
    assert_eq!(text, "options kvm ignore_msrs=1\n");
}

#[test]
fn a_forged_step_writes_nothing_to_boot_files() {
    let world = World::new();
    let mut wanted = wish(&[(CEILING, 80_000)]);
    wanted.persist = true;
    world.apply(&wanted, None).unwrap();
    let mut keeper = Keeper::open(&world.root(), "haltwise undo", None).unwrap();
    let mut reversal = keeper.reversal(Which::Newest, false).unwrap();
    for turn in &mut reversal.turns {
        if turn.target == Target::File(BootFile::Modprobe) {
            turn.new = Some("install kvm /bin/sh -c evil\n".to_owned());
        }
    }
    let error = keeper.undo(&reversal).unwrap_err();
    assert!(matches!(error, KnobError::Forged { .. }), "{error}");
    let text = world.file(BootFile::Modprobe).unwrap();
    assert!(!text.contains("install"), "{text}");
}

#[test]
fn what_is_read_after_our_boot_files_is_named() {
    let world = World::new();
    world.set_file(BootFile::Modprobe, None);
    let put = |below: &str, text: &str| {
        let path = world.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put(
        "etc/modprobe.d/a-early.conf",
        "options kvm halt_poll_ns=1\n",
    );
    put(
        "usr/lib/modprobe.d/zz-late.conf",
        "# options kvm halt_poll_ns=3\noptions kvm halt_poll_ns=2 ignore_msrs=1\n",
    );
    put(
        "etc/tmpfiles.d/zz.conf",
        "w /sys/module/kvm/parameters/halt_poll_ns_grow - - - - 7\n",
    );
    put(
        "proc/cmdline",
        "quiet kvm.halt_poll_ns=80000 kvm.halt_poll_ns_grow=9\n",
    );
    let values = [(CEILING, 80_000), (Parameter::Grow, 3)].into();
    let found = rivals(&world.root(), &values);
    let found: Vec<_> = (found.iter())
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
