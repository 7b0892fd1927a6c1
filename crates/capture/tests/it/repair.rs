//! Captures that were cut or damaged: what `check` finds in them, and what `repair` makes of them.

use std::fs;
use std::path::Path;

use haltwise_capture::capture::Capture;
use haltwise_capture::check::{Verdict, check};
use haltwise_capture::convert::convert;
use haltwise_capture::error::CaptureWriteError;
use haltwise_capture::note::Note;
use haltwise_capture::recording::Recording;
use haltwise_capture::repair::repair;
use haltwise_capture::table::Table;
use tempfile::TempDir;

use crate::common::{self, ending, info, read_all, some_halts, started};
use crate::damage::{copy, under_way, unsummed};

/// A capture of 100 halts in ten batches.
fn recorded(is_ended: bool) -> TempDir {
    let (dir, recording) = under_way();
    if is_ended {
        recording.finish(ending()).unwrap();
    }
    dir
}

fn flip(path: &Path, offset: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[offset] ^= 1;
    fs::write(path, bytes).unwrap();
}

fn repaired(dir: &Path) -> (TempDir, Capture) {
    let new = tempfile::tempdir().unwrap();
    repair(dir, new.path()).unwrap();
    assert!(check(new.path()).unwrap().is_whole());
    let capture = Capture::open(new.path()).unwrap().as_stored();
    (new, capture)
}

#[test]
fn a_whole_capture_is_whole_and_its_repair_holds_the_same() {
    let dir = recorded(true);
    let found = check(dir.path()).unwrap();
    assert!(found.is_whole() && found.is_undamaged(), "{found:?}");
    assert!(
        found
            .tables
            .iter()
            .all(|table| table.verdict == Verdict::Whole)
    );
    let (_new, capture) = repaired(dir.path());
    let old = Capture::open(dir.path()).unwrap().as_stored();
    assert_eq!(capture.notes(), []);
    assert_eq!(read_all(&capture), read_all(&old));
    assert_eq!(capture.info().roster, old.info().roster);
    assert_eq!(capture.info().ended, old.info().ended);
}

#[test]
fn behind_a_damaged_batch_a_stream_is_read_on() {
    let dir = recorded(false);
    let path = dir.path().join("halts.arrows");
    let length = fs::read(&path).unwrap().len();
    flip(&path, length / 2);
    let found = check(dir.path()).unwrap();
    let halts = &found.tables[0];
    assert_eq!((halts.verdict, halts.rows), (Verdict::Damaged, 90));
    assert!(!found.is_whole() && !found.is_undamaged());
    let [damage] = halts.damage.as_slice() else {
        panic!("{halts:?}");
    };
    let (offset, bytes) = (damage.offset.unwrap(), damage.bytes.unwrap());
    assert!((offset..offset + bytes).contains(&(length as u64 / 2)));
    let (_new, capture) = repaired(dir.path());
    let table = "halts".to_owned();
    let notes = [
        Note::Cut,
        Note::Repaired {
            table,
            rows: 0,
            bytes,
        },
    ];
    assert_eq!(capture.notes(), notes);
    let halts = read_all(&capture).halts;
    let written = some_halts(100).halts;
    assert!(halts.iter().all(|halt| written.contains(halt)));
    assert_eq!((halts.len(), halts.last()), (90, written.last()));
}

#[test]
fn a_torn_tail_is_told_and_left_out() {
    let dir = recorded(false);
    let path = dir.path().join("halts.arrows");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 7]).unwrap();
    let found = check(dir.path()).unwrap();
    let halts = &found.tables[0];
    assert_eq!((halts.verdict, halts.rows), (Verdict::Torn, 90));
    assert!(halts.torn_bytes > 0 && !found.is_whole() && found.is_undamaged());
    let (_new, capture) = repaired(dir.path());
    assert_eq!(capture.notes(), [Note::Cut]);
    assert_eq!(capture.rows(Table::Halts), Some(90));
    let cut = capture.info().cut.clone().unwrap();
    assert_eq!(cut.torn_bytes["halts"], halts.torn_bytes);
}

/// Numbers that do not pack, so that a row group of halts has blocks of its own.
#[test]
fn damaged_bytes_cost_the_halts_of_their_row_group() {
    const GROUP: u64 = 16_384;
    let mut facts = some_halts(43_196);
    let mut random = haltwise_core::workload::SplitMix64(7);
    let mut now_ns = 1_000_000_000;
    for halt in &mut facts.halts {
        (halt.start_ns, halt.halt_ns) = (now_ns, 5_700 + (random.next_u64() >> 32));
        now_ns += halt.halt_ns + 3_000;
    }
    let dir = common::recorded(&facts);
    let path = dir.path().join("halts.parquet");
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 50].fill(0x5a);
    fs::write(&path, bytes).unwrap();
    let found = check(dir.path()).unwrap();
    let halts = &found.tables[0];
    assert_eq!(
        (halts.verdict, halts.rows),
        (Verdict::Damaged, 43_196 - GROUP)
    );
    assert_eq!(halts.damage[0].rows, Some(GROUP), "{halts:?}");
    let new = tempfile::tempdir().unwrap();
    repair(dir.path(), new.path()).unwrap();
    let capture = Capture::open(new.path()).unwrap().as_stored();
    let told = capture.notes();
    assert!(
        matches!(told[..], [Note::Repaired { rows: GROUP, .. }]),
        "{told:?}"
    );
    let kept = read_all(&capture).halts;
    let (first, last) = facts.halts.split_at(16_384);
    assert_eq!(kept, [first, &last[16_384..]].concat());
}

#[test]
fn what_is_missing_rewritten_or_without_checksums_is_told() {
    let table = Table::Halts;
    let dir = recorded(true);
    let path = dir.path().join("halts.parquet");
    fs::remove_file(&path).unwrap();
    let capture = Capture::open(dir.path()).unwrap();
    assert_eq!(capture.notes(), [Note::MissingTable { table, path }]);
    assert_eq!(capture.rows(table), None);
    assert_eq!(capture.halts().unwrap().count(), 0);
    let found = check(dir.path()).unwrap();
    let halts = &found.tables[0];
    assert_eq!(
        (halts.verdict, halts.written),
        (Verdict::Missing, Some(100))
    );
    assert!(!found.is_undamaged());

    let dir = recorded(true);
    copy("halts.parquet", &common::recorded(&some_halts(7)), &dir);
    let (written, found) = (100, 7);
    let differ = Note::RowsDiffer {
        table,
        written,
        found,
    };
    assert!(Capture::open(dir.path()).unwrap().notes().contains(&differ));
    let found = check(dir.path()).unwrap();
    assert_eq!(found.tables[0].verdict, Verdict::Rewritten);
    assert!(!found.is_whole());

    let dir = recorded(true);
    let path = dir.path().join("capture.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"cpus\": 2", "\"cpus\": 3")).unwrap();
    let capture = Capture::open(dir.path()).unwrap();
    let changed = path.clone();
    assert_eq!(capture.notes(), [Note::InfoChanged { path: changed }]);
    assert_eq!(check(dir.path()).unwrap().info, Verdict::Damaged);
    fs::write(&path, unsummed(&text)).unwrap();
    let found = check(dir.path()).unwrap();
    assert!(!found.is_whole());
    assert_eq!(
        (found.info, found.tables[0].verdict),
        (Verdict::Damaged, Verdict::Unsummed)
    );
}

#[test]
fn a_capture_that_is_being_recorded_is_checked_and_neither_repaired_nor_converted() {
    let (dir, mut recording) = started();
    recording.append(&some_halts(10)).unwrap();
    let found = check(dir.path()).unwrap();
    assert!(found.is_live && found.is_whole(), "{found:?}");
    let new = tempfile::tempdir().unwrap();
    for refused in [repair(dir.path(), new.path()), convert(dir.path())] {
        assert!(matches!(
            refused,
            Err(CaptureWriteError::StillRecording { .. })
        ));
    }
    drop(recording);
    let refused = [
        repair(dir.path(), dir.path()).err(),
        Recording::create(dir.path(), info()).err(),
    ];
    for error in refused.map(Option::unwrap) {
        assert!(
            error.to_string().ends_with("the directory is not empty"),
            "{error}"
        );
    }
}
