//! The command of a block: started by us in a process group of its own, ended with us, and what it
//! printed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context;
use rustix::fs::{MemfdFlags, OFlags};
use rustix::process::{Pid, Signal};

use crate::exit::Failure;

/// Placeholder in the arguments for the ceiling in nanoseconds.
pub(crate) const PLACE: &str = "{halt_poll_ns}";

/// Limit of the output that is read, in bytes; only the end of longer output is read.
const MOST_OUTPUT: u64 = 4 << 20;

/// How long the command may take to end after SIGTERM, in steps of [`STEP`].
const PATIENCE: u32 = 200;
const STEP: Duration = Duration::from_millis(10);

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

#[derive(Debug)]
pub(crate) struct Running {
    name: String,
    child: Child,
    output: File,
}

impl Running {
    pub(crate) fn start(command: &[OsString]) -> Result<Self, Failure> {
        let (program, arguments) = command.split_first().context("start the command")?;
        let name = program.to_string_lossy().into_owned();
        let memory = rustix::fs::memfd_create(c"haltwise-prove", MemfdFlags::CLOEXEC)
            .context("make room for what the command prints")?;
        // Two writers to one file: each appends.
        rustix::fs::fcntl_setfl(&memory, OFlags::APPEND)
            .context("make room for what the command prints")?;
        let output = File::from(memory);
        let copy = |file: &File| Ok::<_, anyhow::Error>(Stdio::from(file.try_clone()?));
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(copy(&output)?)
            .stderr(copy(&output)?)
            .process_group(0)
            .spawn()
            .with_context(|| format!("start `{name}`"))?;
        Ok(Self {
            name,
            child,
            output,
        })
    }

    pub(crate) fn group(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>, Failure> {
        let status = self.child.try_wait();
        Ok(status.with_context(|| format!("wait for `{}`", self.name))?)
    }

    /// Output of the command, stdout and stderr together: the end of the output, if it is long.
    pub(crate) fn output(&mut self) -> Result<String, Failure> {
        let context = "read what the command printed";
        let length = self.output.seek(SeekFrom::End(0)).context(context)?;
        let from = length.saturating_sub(MOST_OUTPUT);
        self.output.seek(SeekFrom::Start(from)).context(context)?;
        let mut bytes = Vec::new();
        self.output.read_to_end(&mut bytes).context(context)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group() {
            let _gone_already = rustix::process::kill_process_group(group, signal);
        }
    }
}

impl Drop for Running {
    /// The command is ours and does not outlive its block: SIGTERM, and after two seconds SIGKILL.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        self.signal(Signal::TERM);
        for _ in 0..PATIENCE {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(STEP);
        }
        self.signal(Signal::KILL);
        drop(self.child.wait());
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
        let mut running = Running::start(&[
            "sh".into(),
            "-c".into(),
            "echo out; echo err >&2; echo again; exit 3".into(),
        ])
        .unwrap();
        let status = loop {
            if let Some(status) = running.ended().unwrap() {
                break status;
            }
        };
        assert_eq!(status.code(), Some(3));
        assert_eq!(running.output().unwrap(), "out\nerr\nagain\n");
    }

    #[test]
    fn a_command_that_is_not_there_is_named() {
        let failure = Running::start(&["/no/such/command".into()]).unwrap_err();
        assert!(format!("{:#}", failure.error).contains("start `/no/such/command`"));
    }
}
