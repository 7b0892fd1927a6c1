//! Packed files come back, and files that an attacker packs go nowhere.

use std::fs;

use proptest::prelude::*;

use super::*;

fn directory(at: &Path) -> Directory {
    Directory::make(at).unwrap()
}

fn archive(entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
    let mut made = Builder::new(Vec::new());
    for (name, kind, bytes) in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_size(bytes.len() as u64);
        header.set_mode(0o777);
        if kind.is_symlink() {
            header.set_link_name("/etc/passwd").unwrap();
        }
        // `set_path` refuses what an attacker writes.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        made.append(&header, *bytes).unwrap();
    }
    made.into_inner().unwrap()
}

fn unpacked(bytes: &[u8]) -> (Result<(), ArchiveError>, Vec<String>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let result = unpack(bytes, &directory(&dir.path().join("cap")));
    let mut names: Vec<String> = fs::read_dir(dir.path().join("cap"))
        .unwrap()
        .map(|it| it.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    (result, names, dir)
}

#[test]
fn what_is_packed_is_unpacked_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("from");
    fs::create_dir(&from).unwrap();
    let large: Vec<u8> = (0..=u8::MAX).cycle().take(300_000).collect();
    for (name, bytes) in [
        ("capture.json", &b"{}"[..]),
        ("halts.parquet", &large),
        ("vms.parquet", b""),
    ] {
        fs::write(from.join(name), bytes).unwrap();
    }
    // No file of a capture, and none that could be read.
    std::os::unix::fs::symlink("/etc/passwd", from.join("link")).unwrap();
    let mut bytes = Vec::new();
    pack(&from, &mut bytes).unwrap();
    let (result, names, to) = unpacked(&bytes);
    result.unwrap();
    assert_eq!(names, ["capture.json", "halts.parquet", "vms.parquet"]);
    for name in names {
        let read = |dir: &Path| fs::read(dir.join(&name)).unwrap();
        assert_eq!(read(&to.path().join("cap")), read(&from), "{name}");
    }
}

#[test]
fn a_directory_above_the_files_is_taken_as_the_capture() {
    let bytes = archive(&[
        ("cap/", EntryType::Directory, b""),
        ("cap/capture.json", EntryType::Regular, b"{}"),
        ("./vms.parquet", EntryType::Regular, b"1"),
    ]);
    let (result, names, _dir) = unpacked(&bytes);
    result.unwrap();
    assert_eq!(names, ["capture.json", "vms.parquet"]);
}

#[test]
fn nothing_leaves_the_directory_and_nothing_but_files_is_made() {
    for (name, kind) in [
        ("../capture.json", EntryType::Regular),
        ("/etc/capture.json", EntryType::Regular),
        ("a/../../capture.json", EntryType::Regular),
        ("a/b/capture.json", EntryType::Regular),
        (".capture.json", EntryType::Regular),
        ("a b", EntryType::Regular),
        ("capture.json", EntryType::Symlink),
        ("capture.json", EntryType::Link),
        ("capture.json", EntryType::Fifo),
        ("capture.json", EntryType::Char),
        ("capture.json", EntryType::GNUSparse),
    ] {
        let (result, names, dir) = unpacked(&archive(&[(name, kind, b"")]));
        let error = result.unwrap_err();
        assert!(
            matches!(error, ArchiveError::Foreign(_) | ArchiveError::Read(_)),
            "{name} {kind:?}: {error}"
        );
        assert!(names.is_empty(), "{name} {kind:?}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "{name}");
    }
}

#[test]
fn a_name_that_comes_twice_is_an_error() {
    let one = ("capture.json", EntryType::Regular, &b"1"[..]);
    let (result, _, _dir) = unpacked(&archive(&[one, one]));
    assert!(matches!(result, Err(ArchiveError::Write { .. })));
}

#[test]
fn an_archive_without_files_is_an_error() {
    for bytes in [
        &b""[..],
        &archive(&[]),
        &archive(&[("a", EntryType::Directory, b"")]),
    ] {
        assert!(matches!(unpacked(bytes).0, Err(ArchiveError::Empty)));
    }
}

proptest! {
    #[test]
    fn an_archive_that_was_cut_is_an_error(cut in 1_usize..1_900) {
        let mut bytes = archive(&[
            ("capture.json", EntryType::Regular, &[7; 700]),
        ]);
        // The header, two blocks of the file; what follows are blocks of zeros.
        bytes.truncate(cut.min(512 + 699));
        prop_assert!(unpacked(&bytes).0.is_err());
    }

    #[test]
    fn bytes_are_no_way_out(bytes in proptest::collection::vec(any::<u8>(), 0..4_096)) {
        let (_, _, dir) = unpacked(&bytes);
        prop_assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
