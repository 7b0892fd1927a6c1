//! Children that die, answer nonsense, or not at all: names are lost, and nothing else.

use std::os::unix::fs::symlink;

use super::super::files::Mapping;
use super::*;
use crate::root::made_up;

fn ask(inode: u64) -> Ask {
    Ask {
        pid: 1,
        mapping: Mapping {
            start: 0x1000,
            end: 0x2000,
            offset: 0,
            device: (0, 1),
            inode,
            path: "/lib/\u{1b}[2Jvmm".to_owned(),
        },
        offset: 0x10,
    }
}

/// Asks for three functions of each of more files than there are children; gives why names are missing, and of
/// how many functions. `program` is the child.
fn missing(program: &str) -> Vec<(Refusal, u64)> {
    let (folder, root) = made_up(&[("proc/self/stat", "")]);
    symlink(program, folder.path().join("proc/self/exe")).unwrap();
    let mut namer = Namer::new(&root);
    namer.patience = Duration::from_millis(100);
    for inode in 0..u64::from(CHILDREN) + 2 {
        for _ in 0..3 {
            assert_eq!(namer.name(&ask(inode)), None);
        }
    }
    assert_eq!(namer.started, CHILDREN);
    for (note, (refusal, (_, count))) in namer.missing().iter().zip(&namer.refused) {
        assert_eq!(note.field, "sample_frames.symbol");
        let said = format!(
            "{count} addresses in VMMs have no function names. Of their file, {refusal}: /lib/?[2Jvmm"
        );
        assert_eq!(note.reason, said);
    }
    let refused = namer.refused.iter();
    refused.map(|(why, (_, count))| (*why, *count)).collect()
}

#[test]
fn a_child_that_fails_costs_names_and_is_replaced_a_few_times() {
    let never = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/never-answers");
    // `echo` prints what no reader answers, or has ended before it is asked; there is no program of the third
    // name.
    for (program, expected) in [
        ("/bin/true", &[Refusal::Died][..]),
        ("/bin/echo", &[Refusal::Died, Refusal::Nonsense]),
        ("/none", &[Refusal::NoReader]),
        (never, &[Refusal::Late]),
    ] {
        let missing = missing(program);
        let (exhausted, rest): (Vec<_>, Vec<_>) = missing
            .iter()
            .partition(|(refusal, _)| *refusal == Refusal::Exhausted);
        assert_eq!(exhausted, [(Refusal::Exhausted, 6)]);
        assert!(
            rest.iter().all(|(why, _)| expected.contains(why)),
            "{program}: {missing:?}"
        );
        assert_eq!(rest.iter().map(|(_, count)| count).sum::<u64>(), 24);
    }
}

/// A child that works for longer than it may sleep is waited for: the machine is slow; no process holds the file back.
#[test]
fn a_child_that_works_is_not_late() {
    let (folder, root) = made_up(&[("proc/self/stat", "")]);
    let slow = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/answers-after-work"
    );
    symlink(slow, folder.path().join("proc/self/exe")).unwrap();
    let mut namer = Namer::new(&root);
    namer.patience = Duration::from_millis(300);
    // Has started before it is asked: what of its start is sleep does not count here.
    namer.child = Some(Running::start(&root).unwrap());
    let id = namer.child.as_ref().unwrap().process.id();
    symlink(
        format!("/proc/{id}"),
        folder.path().join(format!("proc/{id}")),
    )
    .unwrap();
    assert_eq!(namer.name(&ask(1)).as_deref(), Some("worked"));
    assert!(namer.missing().is_empty());
}

#[test]
fn all_files_together_have_a_time() {
    let (_folder, root) = made_up(&[("proc/self/stat", "")]);
    let mut namer = Namer::new(&root);
    namer.waited = ALLOWED + Duration::from_secs(1_000_000);
    assert_eq!(namer.name(&ask(1)), None);
    assert_eq!(namer.started, 0);
    let expected = Refusal::OverTime.to_string();
    assert!(namer.missing()[0].reason.contains(&expected));
}

#[test]
fn what_is_too_long_or_nonsense_is_not_waited_for() {
    let name = Answer::Name("\u{1}".repeat(NAME_MOST));
    assert!(line(&name).unwrap().len() <= ANSWER_MOST);
    for long in ["\u{1}", "\u{7ff}", "/a"] {
        let ask = Ask {
            pid: u32::MAX,
            mapping: Mapping {
                start: u64::MAX,
                end: u64::MAX,
                offset: u64::MAX,
                inode: u64::MAX,
                device: (u32::MAX, u32::MAX),
                path: long.repeat(100_000),
            },
            offset: u64::MAX,
        };
        assert!(asked(&ask).unwrap().len() <= ASK_MOST);
    }
    let named = |length| answer(&line(&Answer::Name("a".repeat(length))).unwrap());
    assert!(named(NAME_MOST).unwrap().is_some() && named(NAME_MOST + 1).is_err());
    for bytes in [&[b' '; ANSWER_MOST + 1][..], b"\xff\n", b"{}\n", b"1\n2\n"] {
        assert!(said::<Answer>(bytes, ANSWER_MOST).is_err());
    }
}
