//! Replies that an agent may give. Every byte of a reply is a guest's.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::discovery::printable_within;

/// More of an error is not shown, in characters.
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

/// Text of an agent or of virsh, made printable.
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
