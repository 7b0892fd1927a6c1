//! Entry point for fuzzing: any bytes as what an agent answers to each command, no panic.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::LONGEST_VALUE;
use super::reply::{self, Handle, Info, Piece, Wrong};

/// Reads bytes as each reply that is asked for; gives as how many of them they could be read.
///
/// # Panics
/// If an error's text cannot be printed, or more was read of a file than was asked for.
pub fn agent_reply(bytes: &[u8]) -> u64 {
    let info = returned::<Info>(bytes);
    let piece = returned::<Piece>(bytes);
    let content = piece.as_ref().and_then(|it| it.bytes(LONGEST_VALUE));
    assert!(content.is_none_or(|content| content.len() <= LONGEST_VALUE));
    let permits = info.as_ref().map(|it| it.permits("guest-file-open"));
    let there = [
        permits.is_some(),
        piece.is_some(),
        returned::<Handle>(bytes).is_some(),
        returned::<Value>(bytes).is_some(),
    ];
    there.into_iter().map(u64::from).sum()
}

fn returned<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    match reply::read(bytes) {
        Ok(returned) => Some(returned),
        Err(Wrong::Form(_)) => None,
        Err(Wrong::Refused(text)) => {
            assert!(!text.chars().any(char::is_control), "{text:?}");
            None
        }
    }
}
