//! Lines that were whole, cut, changed, moved and made up.

use proptest::prelude::*;

use super::super::entry::{Act, End, Outcome};
use super::super::fuzz;
use super::*;

fn entry(seq: u64) -> Entry {
    Entry {
        seq,
        unix_ns: 1_767_225_600_000_000_000,
        boot: "b00t".to_owned(),
        who: "haltwise undo \u{1f}\"\n".to_owned(),
        act: Act::End(End {
            step: seq,
            results: vec![Outcome::Done, Outcome::NotDone, Outcome::Theirs],
            found_later: false,
        }),
    }
}

fn journal(length: u64) -> Vec<u8> {
    let mut text = String::new();
    let mut sum = FIRST_SUM;
    for seq in 1..=length {
        let (line, next) = write(&entry(seq), sum).unwrap();
        text.push_str(&line);
        sum = next;
    }
    text.into_bytes()
}

#[test]
fn the_sum_is_the_one_that_everybody_calls_crc_32() {
    // The check value of CRC-32/ISO-HDLC is that of "123456789"; ours begins with eight digits.
    assert_eq!(sum(0x1234_5678, "9"), 0xcbf4_3926);
}

#[test]
fn what_was_written_is_read() {
    for length in 0..4 {
        let bytes = journal(length);
        let reading = read(&bytes).unwrap();
        let expected: Vec<_> = (1..=length).map(entry).collect();
        assert_eq!(reading.entries, expected);
        assert_eq!(reading.whole_bytes, bytes.len() as u64);
        assert_eq!(reading.torn_bytes, 0);
    }
}

#[test]
fn a_journal_cut_anywhere_has_its_whole_lines_and_one_torn_one() {
    let bytes = journal(3);
    let ends: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b'\n').collect();
    for cut in 0..=bytes.len() {
        let reading = read(&bytes[..cut]).unwrap();
        let whole = ends.iter().filter(|end| **end < cut).count();
        assert_eq!(reading.entries.len(), whole, "cut to {cut}");
        let torn = cut - whole.checked_sub(1).map_or(0, |last| ends[last] + 1);
        assert_eq!(reading.torn_bytes, torn as u64, "cut to {cut}");
    }
}

#[test]
fn every_changed_byte_of_a_whole_line_is_told_with_its_place() {
    let bytes = journal(2);
    let first = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    for at in 0..bytes.len() - 1 {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        if at == first {
            // Two lines became one.
            assert_eq!(read(&changed).unwrap_err().line, 1);
            continue;
        }
        let damage = read(&changed).unwrap_err();
        assert_eq!(damage.line, if at < first { 1 } else { 2 }, "byte {at}");
        assert_eq!(damage.at, if at < first { 0 } else { first + 1 });
    }
}

#[test]
fn lines_taken_out_moved_or_repeated_are_told() {
    let bytes = journal(3);
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let damage = |order: &[usize]| {
        let bytes: Vec<u8> = order.iter().flat_map(|at| lines[*at]).copied().collect();
        read(&bytes).unwrap_err().line
    };
    assert_eq!(damage(&[1, 2]), 1);
    assert_eq!(damage(&[0, 2]), 2);
    assert_eq!(damage(&[0, 2, 1]), 2);
    assert_eq!(damage(&[0, 0]), 2);
    assert_eq!(damage(&[0, 1, 2, 2]), 4);
}

#[test]
fn a_whole_line_of_a_later_version_is_not_guessed_at() {
    let text = r#"{"seq":1,"unix_ns":0,"boot":"","who":"","act":{"invented":{}}}"#;
    let line = format!("{HEAD}{:08x}{MIDDLE}{text}{TAIL}\n", sum(FIRST_SUM, text));
    let damage = read(line.as_bytes()).unwrap_err();
    assert!(damage.what.contains("not understood"), "{damage}");
    assert!(damage.what.contains("invented"), "{damage}");
}

proptest! {
    /// Any bytes are read or refused.
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzz::journal(&bytes);
    }

    /// A journal with any few bytes changed is read or refused, and an entry never changes.
    #[test]
    fn any_damage(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = journal(3);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        fuzz::journal(&bytes);
        if let Ok(reading) = read(&bytes) {
            for (entry, seq) in reading.entries.iter().zip(1..) {
                prop_assert_eq!(entry, &self::entry(seq));
            }
        }
    }
}
