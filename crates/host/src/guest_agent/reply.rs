//! Replies that an agent may give. Every byte of a reply is a guest's.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::LONGEST_VALUE;
use crate::discovery::printable_within;

const LONGEST_TEXT: usize = 240;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Handle(i64);

#[derive(Debug, Deserialize)]
pub(super) struct Info {
    supported_commands: Vec<Command>,
}

#[derive(Debug, Deserialize)]
struct Command {
    name: String,
    enabled: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Piece {
    #[serde(rename = "buf-b64")]
    text: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// It is none.
    Form(&'static str),
    /// It is an error: what the agent said, cut and printable.
    Refused(String),
}

#[derive(Debug, Deserialize)]
struct Envelope<T> {
    #[serde(rename = "return")]
    returned: Option<T>,
    error: Option<Failure>,
}

#[derive(Debug, Deserialize)]
struct Failure {
    #[serde(default)]
    desc: String,
}

/// Reads one answer. `serde_json` refuses what is nested more than 128 deep.
pub(super) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Wrong> {
    let envelope: Envelope<T> = serde_json::from_slice(bytes)
        .map_err(|_| Wrong::Form("what it answered is not a reply to the command"))?;
    match envelope {
        Envelope {
            error: Some(failure),
            ..
        } => Err(Wrong::Refused(shown(&failure.desc))),
        Envelope {
            returned: Some(returned),
            ..
        } => Ok(returned),
        _ => Err(Wrong::Form("its reply has neither a result nor an error")),
    }
}

pub(super) fn shown(text: &str) -> String {
    let text = printable_within(text, LONGEST_TEXT);
    text.unwrap_or_else(|| "an error without text".to_owned())
}

impl Info {
    pub(super) fn permits(&self, name: &str) -> bool {
        let mut commands = self.supported_commands.iter();
        commands.any(|command| command.name == name && command.enabled)
    }
}

impl Piece {
    /// Bytes that were read, unless there are more than `longest`.
    pub(super) fn bytes(&self, longest: usize) -> Option<Vec<u8>> {
        // Four characters for three bytes.
        if self.text.len() > longest.div_ceil(3) * 4 {
            return None;
        }
        let bytes = STANDARD.decode(&self.text).ok()?;
        (bytes.len() <= longest).then_some(bytes)
    }
}

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
    match read(bytes) {
        Ok(returned) => Some(returned),
        Err(Wrong::Form(_)) => None,
        Err(Wrong::Refused(text)) => {
            assert!(!text.chars().any(char::is_control), "{text:?}");
            None
        }
    }
}
