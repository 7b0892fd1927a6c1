//! Written facts come back: any facts, in any split into flushes, finished or cut at any byte.

use std::fs;

use crate::common::{ending, read_all, some_halts, sorted, started};
use crate::facts::Draw;
use haltwise_capture::capture::Capture;
use haltwise_capture::convert::convert;
use haltwise_capture::info::State;
use haltwise_capture::note::Note;
use haltwise_capture::table::Table;
use haltwise_core::event::Facts;
use haltwise_core::workload::SplitMix64;
use proptest::prelude::*;

fn facts() -> impl Strategy<Value = Facts> {
    any::<u64>().prop_map(|seed| Draw(SplitMix64(seed)).facts())
}

fn joined(flushes: &[Facts]) -> Facts {
    let mut all = Facts::default();
    for flush in flushes.iter().cloned().map(sorted) {
        all.halts.extend(flush.halts);
        all.windows.extend(flush.windows);
        all.counts.extend(flush.counts);
        all.knobs.extend(flush.knobs);
        all.host.extend(flush.host);
        all.idle_states.extend(flush.idle_states);
        all.lost.extend(flush.lost);
        all.exits.extend(flush.exits);
        all.profile.frames.extend(flush.profile.frames);
        all.profile.stacks.extend(flush.profile.stacks);
        all.profile.threads.extend(flush.profile.threads);
        all.profile.samples.extend(flush.profile.samples);
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Facts written, then read, are equal: while recording, when cut, when finished, when repaired.
    #[test]
    fn facts_come_back(flushes in prop::collection::vec(facts(), 0..5), by_finish in any::<bool>()) {
        let (dir, mut recording) = started();
        for flush in &flushes {
            recording.append(flush).unwrap();
        }
        let all = joined(&flushes);
        let live = Capture::open(dir.path()).unwrap();
        prop_assert_eq!(live.notes(), &[Note::StillRecording]);
        prop_assert_eq!(&read_all(&live), &all);
        if by_finish {
            recording.finish(ending()).unwrap();
        } else {
            drop(recording);
            let cut = Capture::open(dir.path()).unwrap();
            prop_assert_eq!(cut.notes(), &[Note::Cut]);
            prop_assert_eq!(&read_all(&cut), &all);
            convert(dir.path()).unwrap();
        }
        let done = Capture::open(dir.path()).unwrap();
        prop_assert_eq!(done.info().state, State::Complete);
        prop_assert_eq!(done.notes().contains(&Note::Cut), !by_finish);
        prop_assert_eq!(done.rows(Table::Halts), Some(all.halts.len() as u64));
        prop_assert_eq!(&read_all(&done), &all);
        for table in Table::STREAMED {
            prop_assert!(!dir.path().join(table.stream_file()).exists());
        }
    }

    /// A stream cut at any byte gives the whole batches before the cut, and says what was left out.
    #[test]
    fn a_cut_gives_a_prefix(flushes in prop::collection::vec(facts(), 1..5), at in 0..1000_u64) {
        let (dir, mut recording) = started();
        let path = dir.path().join(Table::Halts.stream_file());
        let mut ends = vec![(fs::metadata(&path).unwrap().len(), 0)];
        let mut halts = Vec::new();
        for flush in &flushes {
            recording.append(flush).unwrap();
            halts.extend(sorted(flush.clone()).halts);
            ends.push((fs::metadata(&path).unwrap().len(), halts.len()));
        }
        drop(recording);
        let length = ends.last().unwrap().0;
        let cut = length * at / 1000;
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(cut).unwrap();

        let capture = Capture::open(dir.path()).unwrap().as_stored();
        let whole = ends.iter().rev().find(|(end, _)| *end <= cut).map_or(0, |(_, rows)| *rows);
        let read: Vec<_> = capture.halts().unwrap().map(Result::unwrap).collect();
        prop_assert_eq!(&read[..], &halts[..whole]);
        prop_assert_eq!(capture.rows(Table::Halts), Some(whole as u64));
        let torn = capture.notes().iter().find_map(|note| match note {
            Note::TornTail { offset, bytes, .. } => Some(offset + bytes),
            _ => None,
        });
        prop_assert!(torn.is_none_or(|end| end == cut));
        let summary = convert(dir.path()).unwrap();
        prop_assert_eq!(summary.tables["halts"].rows, whole as u64);
        let repaired = Capture::open(dir.path()).unwrap().as_stored();
        let again: Vec<_> = repaired.halts().unwrap().map(Result::unwrap).collect();
        prop_assert_eq!(again, read);
    }
}

#[test]
fn every_byte_of_a_small_stream_may_be_the_last() {
    let (dir, mut recording) = started();
    for n in 1..=2 {
        recording.append(&some_halts(n)).unwrap();
    }
    drop(recording);
    let path = dir.path().join(Table::Halts.stream_file());
    let bytes = fs::read(&path).unwrap();
    let mut seen = Vec::new();
    for length in 0..=bytes.len() {
        fs::write(&path, &bytes[..length]).unwrap();
        let capture = Capture::open(dir.path()).unwrap().as_stored();
        let rows = capture.halts().unwrap().map(Result::unwrap).count();
        assert_eq!(capture.rows(Table::Halts), Some(rows as u64), "{length}");
        seen.push(rows);
    }
    assert!(seen.is_sorted());
    seen.dedup();
    assert_eq!(seen, [0, 1, 3]);
}

#[test]
fn no_batch_is_large_however_large_the_flush() {
    let (dir, mut recording) = started();
    recording.append(&some_halts(200_000)).unwrap();
    let longest = |dir: &std::path::Path| {
        let mut rows = Capture::open(dir).unwrap().halts().unwrap();
        let batches = std::iter::from_fn(|| rows.next_batch()).map(|batch| batch.unwrap().len());
        let batches: Vec<usize> = batches.collect();
        assert_eq!(batches.iter().sum::<usize>(), 200_000);
        batches.into_iter().max()
    };
    assert_eq!(longest(dir.path()), Some(32 * 1024));
    recording.finish(ending()).unwrap();
    assert_eq!(longest(dir.path()), Some(16 * 1024));
}
