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

#[test]
fn symbols_become_the_names_of_their_source() {
    for (symbol, name) in [
        ("main", "main"),
        ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
        ("_RNvC6_123foo3bar", "123foo::bar"),
        ("_ZN3foo3barEi", "foo::bar(int)"),
        ("_Zwhat", "_Zwhat"),
        ("", ""),
    ] {
        assert_eq!(written_name(symbol.as_bytes()), name, "{symbol}");
    }
    assert_eq!(written_name(b"a\xffb"), "a\u{fffd}b");
}

/// Names that grow by doubling: what stands for the whole before is named again and again.
#[test]
fn no_symbol_grows_without_end() {
    let mut doubling = "_Z1fIiE".to_owned();
    let mut deep = "_Z1f".to_owned();
    for nth in 0..400 {
        write!(doubling, "1aIS{}_S{}_E", nth % 10, nth % 10).unwrap();
        deep.push('P');
    }
    deep.push('i');
    let tuple = format!("_RNvC1a1b{}", "TBa_Ba_E".repeat(400));
    let rust = format!("_R{}C1a{}", "Nt".repeat(1500), "1b".repeat(1500));
    let long = "x".repeat(4096);
    for symbol in [doubling, deep, tuple, rust, long] {
        let name = written_name(symbol.as_bytes());
        assert!(!name.is_empty() && name.len() <= NAME_MOST, "{name}");
    }
}

const MAPS: &str = "\
55d0c8a00000-55d0c8a02000 r--p 00000000 fd:00 1234                       /usr/bin/a vmm
55d0c8a02000-55d0c8a21000 r-xp 00002000 fd:00 1234                       /usr/bin/a vmm (deleted)
7f0000000000-7f0000001000 rwxp 00000000 00:00 0
7f0000002000-7f0000003000 rw-p 00000000 00:00 0                          [heap]
7ffc3a1f6000-7ffc3a1f8000 r-xp 00000000 00:00 0                          [vdso]
broken
";

#[test]
fn only_code_counts_and_paths_may_hold_spaces() {
    let mappings = parse_maps(MAPS);
    let paths: Vec<&str> = mappings.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(paths, ["/usr/bin/a vmm (deleted)", "", "[vdso]"]);
    let vmm = find_mapping(&mappings, 0x55d0_c8a0_2000).unwrap();
    assert_eq!(
        (vmm.offset, vmm.inode, vmm.device),
        (0x2000, 1234, (0xfd, 0))
    );
    assert!(vmm.is_file() && !mappings[1].is_file() && !mappings[2].is_file());
    for outside in [
        0,
        0x55d0_c8a0_1fff,
        0x55d0_c8a2_1000,
        0x7f00_0000_2000,
        u64::MAX,
    ] {
        assert_eq!(find_mapping(&mappings, outside), None, "{outside:#x}");
    }
}
