//! Entry point for fuzzing: any bytes as a journal, no panic, no contradiction.

use super::line::{self, FIRST_SUM, Reading};
use super::state::State;

/// Reads bytes as a journal; gives how many entries it holds.
///
/// # Panics
/// If bytes are neither read nor refused, or if what was read does not read back.
pub fn journal(bytes: &[u8]) -> u64 {
    let reading = match line::read(bytes) {
        Ok(reading) => reading,
        Err(damage) => {
            assert!(damage.at <= bytes.len() && damage.line > 0, "{damage}");
            return 0;
        }
    };
    let Reading {
        entries,
        whole_bytes,
        torn_bytes,
        ..
    } = &reading;
    assert_eq!(whole_bytes + torn_bytes, bytes.len() as u64);
    drop(State::of(entries));
    let mut text = String::new();
    let mut sum = FIRST_SUM;
    for entry in entries {
        let (line, next) = line::write(entry, sum).expect("an entry is plain data");
        text.push_str(&line);
        sum = next;
    }
    let again = line::read(text.as_bytes()).map(|again| again.entries);
    assert_eq!(again.as_ref(), Ok(entries));
    entries.len() as u64
}
