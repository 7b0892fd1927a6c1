//! The command of a block, and what it printed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::process::{ExitStatus, Stdio};

use anyhow::{Context, anyhow};
use haltwise_host::command::{self, Ended};
use rustix::fs::{MemfdFlags, OFlags};
use rustix::process::Pid;

use crate::exit::Failure;

/// Placeholder in the arguments for the ceiling in nanoseconds.
pub(crate) const PLACE: &str = "{halt_poll_ns}";

/// Limit of the output that is read, in bytes; only the end of longer output is read.
const MOST_OUTPUT: u64 = 4 << 20;

pub(crate) fn takes_ceiling(command: &[OsString]) -> bool {
    command.iter().any(|word| find(word).is_some())
}

fn find(word: &OsStr) -> Option<usize> {
    let place = PLACE.as_bytes();
    let bytes = word.as_encoded_bytes();
    bytes.windows(place.len()).position(|part| part == place)
}

/// The command with the ceiling in its place, as often as it stands there.
pub(crate) fn with_ceiling(command: &[OsString], ceiling_ns: u32) -> Vec<OsString> {
    let number = ceiling_ns.to_string();
    let word = |word: &OsString| match word.to_str() {
        Some(text) => OsString::from(text.replace(PLACE, &number)),
        None => word.clone(),
    };
    command.iter().map(word).collect()
}

/// A command under way. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) name: String,
    command: command::Running,
    output: File,
}

impl Running {
    pub(crate) fn start(words: &[OsString]) -> Result<Self, Failure> {
        let program = words.first().context("start the command")?;
        let name = program.to_string_lossy().into_owned();
        let memory = rustix::fs::memfd_create(c"haltwise-prove", MemfdFlags::CLOEXEC)
            .context("make room for what the command prints")?;
        // Two writers to one file: each appends.
        rustix::fs::fcntl_setfl(&memory, OFlags::APPEND)
            .context("make room for what the command prints")?;
        let output = File::from(memory);
        let copy = || Ok::<_, anyhow::Error>(Stdio::from(output.try_clone()?));
        let streams = [Stdio::null(), copy()?, copy()?];
        let command = command::Running::start_with(words, None, streams)
            .with_context(|| format!("start `{name}`"))?;
        Ok(Self {
            name,
            command,
            output,
        })
    }

    pub(crate) fn group(&self) -> Pid {
        self.command.group()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.command.has_ended()
    }

    /// How the command ended by itself, and its output, stdout and stderr together: the end of the output, if it is
    /// long.
    pub(crate) fn end(mut self) -> Result<(ExitStatus, String), Failure> {
        let ended = self.command.end();
        let ended = ended.with_context(|| format!("wait for `{}`", self.name))?;
        let Ended::Itself(status) = ended else {
            return Err(anyhow!("wait for `{}`: it was ended", self.name).into());
        };
        let context = "read what the command printed";
        let length = self.output.seek(SeekFrom::End(0)).context(context)?;
        let from = length.saturating_sub(MOST_OUTPUT);
        self.output.seek(SeekFrom::Start(from)).context(context)?;
        let mut bytes = Vec::new();
        self.output.read_to_end(&mut bytes).context(context)?;
        Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_ceiling_goes_where_its_place_is() {
        let command = words("lab --cap {halt_poll_ns} --both={halt_poll_ns}ns,{halt_poll_ns} {x}");
        assert!(takes_ceiling(&command));
        assert_eq!(
            with_ceiling(&command, 50_000),
            words("lab --cap 50000 --both=50000ns,50000 {x}")
        );
        assert!(!takes_ceiling(&words("lab {halt_poll} halt_poll_ns")));
    }

    #[test]
    fn what_a_command_prints_is_kept_and_how_it_ended_is_known() {
        let script = "echo out; echo err >&2; echo again; exit 3";
        let running = Running::start(&["sh".into(), "-c".into(), script.into()]).unwrap();
        while !running.has_ended() {
            std::thread::yield_now();
        }
        let (status, output) = running.end().unwrap();
        assert_eq!(status.code(), Some(3));
        assert_eq!(output, "out\nerr\nagain\n");
    }
}
