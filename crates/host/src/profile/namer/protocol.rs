//! Requests to the child, and its answers: a line of JSON each. Neither side believes the other's lengths.

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::super::files::{Answer, Ask};
use super::super::written_name::NAME_MOST;

/// A path in an ask is cut at so many bytes: `/proc/PID/maps` prints paths of any length.
const PATH_MOST: usize = 4 << 10;

/// No ask is longer: each byte of its path takes six at most.
pub(super) const ASK_MOST: usize = 32 << 10;

/// No answer is longer: one with a name as long as any.
pub(super) const ANSWER_MOST: usize = 4 << 10;

/// An ask as a line. A path that is longer than any is cut.
pub(super) fn asked(ask: &Ask) -> io::Result<Vec<u8>> {
    let mut ask = ask.clone();
    let path = &mut ask.mapping.path;
    path.truncate(path.floor_char_boundary(PATH_MOST));
    line(&ask)
}

/// Decodes an answer of the child; no name is longer than ours.
pub(super) fn answer(bytes: &[u8]) -> io::Result<Option<Answer>> {
    match said(bytes, ANSWER_MOST)? {
        Some(Answer::Name(name)) if name.len() > NAME_MOST => {
            Err(io::ErrorKind::InvalidData.into())
        }
        answer => Ok(answer),
    }
}

pub(super) fn line(said: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(said)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Decodes a line; `None` if the line has not ended.
pub(super) fn said<T: DeserializeOwned>(bytes: &[u8], most: usize) -> io::Result<Option<T>> {
    match bytes {
        _ if bytes.len() > most => Err(io::ErrorKind::InvalidData.into()),
        [line @ .., b'\n'] => match serde_json::from_slice(line) {
            Ok(said) => Ok(Some(said)),
            Err(_) => Err(io::ErrorKind::InvalidData.into()),
        },
        _ => Ok(None),
    }
}

#[cfg(test)]
mod test {
    use super::super::super::maps::Mapping;
    use super::*;

    #[test]
    fn what_is_too_long_or_nonsense_is_not_waited_for() {
        let name = Answer::Name("\u{1}".repeat(NAME_MOST));
        assert!(line(&name).unwrap().len() <= ANSWER_MOST);
        for long in ["\u{1}", "\u{7ff}", "/a"] {
            let asked = Ask {
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
            assert!(super::asked(&asked).unwrap().len() <= ASK_MOST);
        }
        let named = |length| answer(&line(&Answer::Name("a".repeat(length))).unwrap());
        assert!(named(NAME_MOST).unwrap().is_some() && named(NAME_MOST + 1).is_err());
        for bytes in [&[b' '; ANSWER_MOST + 1][..], b"\xff\n", b"{}\n", b"1\n2\n"] {
            assert!(said::<Answer>(bytes, ANSWER_MOST).is_err());
        }
    }
}
