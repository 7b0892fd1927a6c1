//! Files that are refused; nothing behind a link is touched.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::directory::is_unused;
use super::output::{self, Readers};
use super::writer::{Account, Writer};
use super::*;

fn refused(error: &io::Error) -> Option<Refused> {
    if error.kind() == io::ErrorKind::IsADirectory {
        return Some(Refused::Kind("a directory"));
    }
    let inner = error.get_ref()?;
    inner.downcast_ref::<Refused>().copied()
}

/// A FIFO, a link to a file, a directory and a device in a folder.
fn zoo() -> (tempfile::TempDir, Vec<(&'static str, &'static str)>) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mode = Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(CWD, at("fifo"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    fs::create_dir(at("folder")).unwrap();
    fs::write(at("file"), "mine").unwrap();
    symlink(at("file"), at("link")).unwrap();
    symlink("/dev/null", at("device")).unwrap();
    let kinds = vec![
        ("fifo", "a FIFO"),
        ("folder", "a directory"),
        ("link", "a symbolic link"),
        ("device", "a symbolic link"),
    ];
    (folder, kinds)
}

#[test]
fn only_regular_files_are_read() {
    let (folder, kinds) = zoo();
    for (name, kind) in kinds {
        let path = folder.path().join(name);
        let error = open_member(&path).unwrap_err();
        assert_eq!(refused(&error), Some(Refused::Kind(kind)), "{name}");
    }
    // A path given by the caller may be a link; the target of the link may not be a device.
    assert_eq!(read(&folder.path().join("link")).unwrap(), b"mine");
    for (name, kind) in [
        ("device", "a device"),
        ("fifo", "a FIFO"),
        ("folder", "a directory"),
    ] {
        let error = open(&folder.path().join(name)).unwrap_err();
        assert_eq!(refused(&error), Some(Refused::Kind(kind)), "{name}");
    }
    assert!(open_text(&folder.path().join("fifo")).is_ok());
    assert!(open_text(&folder.path().join("device")).is_err());
}

#[test]
fn nothing_is_written_through_a_link_or_into_a_fifo() {
    let (folder, kinds) = zoo();
    for (name, kind) in kinds {
        let path = folder.path().join(name);
        let error = output::write(&path, b"theirs", Readers::Umask).unwrap_err();
        assert_eq!(refused(&error), Some(Refused::Kind(kind)), "{name}");
        assert!(output::append(&path).is_err(), "{name}");
    }
    assert_eq!(fs::read(folder.path().join("file")).unwrap(), b"mine");
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 5, "no temporary is left");
}

#[test]
fn a_file_is_replaced_whole_and_keeps_its_permissions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.html");
    output::write(&path, b"old", Readers::Umask).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    output::write(&path, b"new", Readers::Owner).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn what_is_written_in_one_step_follows_no_link_either() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("victim"), "mine").unwrap();
    let temporary = format!(".page.html.{}-0.tmp", std::process::id());
    symlink(at("victim"), at(&temporary)).unwrap();
    output::write(&at("page.html"), b"page", Readers::Umask).unwrap();
    assert_eq!(fs::read(at("victim")).unwrap(), b"mine");
    assert_eq!(fs::read(at("page.html")).unwrap(), b"page");
    assert!(!at("page.html").is_symlink());
}

#[test]
fn temporaries_follow_no_link() {
    let folder = tempfile::tempdir().unwrap();
    let victim = folder.path().join("victim");
    fs::write(&victim, "mine").unwrap();
    let path = folder.path().join("capture");
    let directory = Directory::make(&path).unwrap();
    // A user who may write to the directory knows the names.
    symlink(&victim, path.join("capture.json.tmp")).unwrap();
    symlink(&victim, path.join("halts.arrows")).unwrap();
    directory.replace("capture.json", b"{}").unwrap();
    assert_eq!(
        directory.create("halts.arrows").unwrap_err().kind(),
        io::ErrorKind::AlreadyExists
    );
    assert!(directory.read("halts.arrows").is_err());
    assert_eq!(fs::read(&victim).unwrap(), b"mine");
    assert_eq!(fs::read(path.join("capture.json")).unwrap(), b"{}");
}

fn account(id: u32) -> Account {
    Account { uid: id, gid: id }
}

fn writer(us: u32, by: Option<u32>) -> Writer {
    Writer::of(account(us), by.map(account))
}

#[test]
fn only_root_takes_notice_of_sudo() {
    assert_eq!(writer(0, Some(7)).by, Some(account(7)));
    assert_eq!(writer(0, Some(0)).by, None);
    assert_eq!(
        writer(0, Some(u32::MAX)).by,
        None,
        "`chown` would change nothing"
    );
    assert_eq!(writer(7, Some(8)).by, None);
}

#[test]
fn a_file_is_for_who_ran_sudo_unless_the_directory_is_roots() {
    let sudo = writer(0, Some(7));
    assert_eq!(sudo.files_in(7, 0o755), Some(account(7)));
    assert_eq!(sudo.files_in(0, 0o1777), Some(account(7)), "/tmp");
    assert_eq!(sudo.files_in(0, 0o755), None, "/etc");
    assert_eq!(writer(0, None).files_in(0, 0o1777), None);
}

#[test]
fn a_directory_is_ours_alone_or_refused() {
    let (user, sudo) = (writer(7, None), writer(0, Some(7)));
    let foreign = |owner, us| Err(Refused::Foreign { owner, us });
    for (writer, owner, mode, verdict) in [
        (user, 7, 0o40755, Ok(())),
        (user, 7, 0o40700, Ok(())),
        (user, 8, 0o40755, foreign(8, 7)),
        (user, 0, 0o40755, foreign(0, 7)),
        (user, 7, 0o40775, Err(Refused::Open { mode: 0o775 })),
        (user, 7, 0o40757, Err(Refused::Open { mode: 0o757 })),
        (user, 7, 0o41777, Err(Refused::Open { mode: 0o1777 })),
        (sudo, 7, 0o40755, Ok(())),
        (sudo, 0, 0o40755, Ok(())),
        (sudo, 8, 0o40700, foreign(8, 0)),
        (sudo, 7, 0o40777, Err(Refused::Open { mode: 0o777 })),
    ] {
        let found = writer.must_own(owner, mode);
        assert_eq!(found, verdict, "{writer:?} {owner} {mode:o}");
    }
}

#[test]
fn what_is_made_is_for_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mode = |name: &str| {
        let found = fs::metadata(folder.path().join(name)).unwrap();
        found.permissions().mode() & 0o7777
    };
    let directory = Directory::make(&folder.path().join("of/ours/capture")).unwrap();
    drop(directory.create("halts.arrows").unwrap());
    directory.replace("capture.json", b"{}").unwrap();
    for name in ["of", "of/ours", "of/ours/capture"] {
        assert_eq!(mode(name), 0o700, "{name}");
    }
    for name in ["halts.arrows", "capture.json"] {
        assert_eq!(mode(&format!("of/ours/capture/{name}")), 0o600, "{name}");
    }
    output::write(&folder.path().join("folded"), b"x", Readers::Owner).unwrap();
    drop(output::append(&folder.path().join("ledger.jsonl")).unwrap());
    assert_eq!([mode("folded"), mode("ledger.jsonl")], [0o600; 2]);
}

#[test]
fn a_file_goes_where_no_other_user_can_change_it() {
    let (user, root, sudo) = (writer(7, None), writer(0, None), writer(0, Some(7)));
    let foreign = |owner, us| Err(Refused::Foreign { owner, us });
    for (writer, owner, group, mode, verdict) in [
        (user, 7, 7, 0o755, Ok(())),
        // A group of one's own, as many distributions have it.
        (user, 7, 7, 0o775, Ok(())),
        (user, 7, 100, 0o775, Err(Refused::Open { mode: 0o775 })),
        (user, 7, 7, 0o777, Err(Refused::Open { mode: 0o777 })),
        (user, 0, 0, 0o1777, Ok(())),
        (user, 0, 0, 0o755, Ok(())),
        (user, 8, 8, 0o755, foreign(8, 7)),
        (user, 8, 8, 0o1777, foreign(8, 7)),
        (root, 7, 7, 0o755, foreign(7, 0)),
        (sudo, 7, 7, 0o755, Ok(())),
        (sudo, 7, 7, 0o775, Ok(())),
        (sudo, 8, 8, 0o755, foreign(8, 0)),
        (root, 0, 0, 0o1777, Ok(())),
        (root, 0, 0, 0o777, Err(Refused::Open { mode: 0o777 })),
    ] {
        let found = writer.may_use(owner, group, mode);
        assert_eq!(found, verdict, "{writer:?} {owner} {group} {mode:o}");
    }
}

#[test]
fn a_capture_goes_into_no_link_and_no_used_directory() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("empty")).unwrap();
    symlink(at("empty"), at("link")).unwrap();
    assert!(is_unused(&at("none")).unwrap());
    assert!(is_unused(&at("empty")).unwrap());
    for name in ["link", "link/"] {
        let error = is_unused(&at(name)).unwrap_err();
        let refused = refused(&error);
        assert!(
            matches!(refused, Some(Refused::NoDirectory(_))) || name == "link/",
            "{error}"
        );
    }
    fs::write(at("empty/x"), "").unwrap();
    assert!(!is_unused(&at("empty")).unwrap());
    fs::set_permissions(at("empty"), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(
        refused(&is_unused(&at("empty")).unwrap_err()),
        Some(Refused::Open { .. })
    ));
}

#[test]
fn a_directory_that_goes_away_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/capture");
    let directory = Directory::make(&path).unwrap();
    let file = directory.create("x").unwrap();
    assert!(directory.is_there().unwrap() && directory.holds("x", &file).unwrap());
    fs::rename(path.join("x"), path.join("y")).unwrap();
    assert!(!directory.holds("x", &file).unwrap());
    fs::write(path.join("x"), "").unwrap();
    assert!(
        !directory.holds("x", &file).unwrap(),
        "another of the same name"
    );
    fs::rename(&path, folder.path().join("elsewhere")).unwrap();
    assert!(!directory.is_there().unwrap());
    fs::create_dir(&path).unwrap();
    assert!(!directory.is_there().unwrap(), "another of the same name");
}
