//! Files of owners who mean no good, through the reader itself.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;

use object::Endianness;
use rustix::fs::mknodat;

use super::super::elf;
use super::*;

/// An ask for an address in a file that no process has mapped: it is found by its name.
fn ask(path: &Path, offset: u64) -> Ask {
    let stat = fs::symlink_metadata(path).unwrap();
    Ask {
        pid: u32::MAX,
        mapping: Mapping {
            start: 0x1000,
            end: 0x2000,
            offset: 0,
            device: (rustix::fs::major(stat.dev()), rustix::fs::minor(stat.dev())),
            inode: stat.ino(),
            path: path.to_str().unwrap().to_owned(),
        },
        offset,
    }
}

fn answer(ask: &Ask) -> Answer {
    Files::new(&Root::host()).answer(ask)
}

fn written(folder: &tempfile::TempDir) -> PathBuf {
    let path = folder.path().join("vmm");
    let functions = [("_ZN3vmm3runEv", 0x40_0010, 0x10, false)];
    let bytes = elf::test::file(true, Endianness::Little, &functions);
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn only_the_mapped_file_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(&folder);
    let right = ask(&path, 0x1010);
    let other = Answer::Refused(Refusal::OtherFile);
    let (mut inode, mut device) = (right.clone(), right.clone());
    inode.mapping.inode += 1;
    device.mapping.device.1 += 1;
    assert_eq!((answer(&inode), answer(&device)), (other.clone(), other));
    // An answer for one mapping does not apply to another.
    let mut files = Files::new(&Root::host());
    files.answer(&inode);
    assert!(matches!(files.answer(&right), Answer::Name(_)));
}

#[test]
fn what_is_not_a_regular_file_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mode = Mode::from_raw_mode(0o600);
    mknodat(CWD, path("fifo"), FileType::Fifo, mode, 0).unwrap();
    symlink("/dev/zero", path("zero")).unwrap();
    symlink(path("fifo"), path("link")).unwrap();
    fs::create_dir(path("folder")).unwrap();
    for name in ["fifo", "zero", "link", "folder"] {
        let refused = Answer::Refused(Refusal::NotRegular);
        assert_eq!(answer(&ask(&path(name), 0)), refused, "{name}");
    }
    symlink("loop", path("loop")).unwrap();
    let refused = Answer::Refused(Refusal::Denied);
    assert_eq!(answer(&ask(&path("loop"), 0)), refused);
    let mut deep = ask(&path("fifo"), 0);
    deep.mapping.path = "/a".repeat(5000);
    assert_eq!(answer(&deep), refused);
    let mut gone = ask(&path("fifo"), 0);
    gone.mapping.path = path("none").to_str().unwrap().to_owned();
    assert_eq!(answer(&gone), Answer::Nameless);
}

#[test]
fn what_no_program_has_is_refused_and_text_is_nameless() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(&folder);
    let whole = fs::metadata(&path).unwrap().len();
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(whole / 2)
        .unwrap();
    let refused = Answer::Refused(Refusal::Malformed);
    assert_eq!(answer(&ask(&path, 0x1010)), refused);
    fs::write(&path, "#!/bin/sh\n".repeat(20)).unwrap();
    assert_eq!(answer(&ask(&path, 0x1010)), Answer::Nameless);
}

#[test]
fn no_more_files_are_kept_than_there_is_room_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(&folder);
    let mut files = Files::new(&Root::host());
    for nth in 0..2 * FILES_KEPT {
        let copy = folder.path().join(nth.to_string());
        fs::copy(&path, &copy).unwrap();
        assert!(matches!(files.answer(&ask(&copy, 0x1010)), Answer::Name(_)));
        assert!(files.known.len() <= FILES_KEPT);
    }
}
