//! The two ways to an agent: QEMU's socket, with lines of JSON in order, and libvirt, which holds the socket of its
//! domains and passes commands on (`virsh qemu-agent-command`).

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use haltwise_core::ids::Pid;
use rustix::io::Errno;
use rustix::net::sockopt;

use super::{AgentError, reply};
use crate::clock;
use crate::taken::{self, At, Shown, Step};

/// No answer is longer, in bytes: `guest-info` of QEMU 7.2 has 4 KiB. Neither is what is read of virsh.
const LONGEST: usize = 256 << 10;
/// Before the answer to `guest-sync-delimited`, and nowhere else in JSON.
const SENTINEL: u8 = 0xff;
/// Largest ID that `guest-sync-delimited` may name: an `int` in old agents.
const LARGEST_ID: u64 = 0x7fff_ffff;

#[derive(Debug)]
pub(super) struct Socket {
    stream: UnixStream,
    pid: Pid,
    held: Vec<u8>,
}

impl Socket {
    /// Connects, and finds the start of the answers: an agent may still have one for the client connected before.
    pub(super) fn connect(path: &Path, pid: Pid, until: Instant) -> Result<Self, AgentError> {
        let stream = connect(path, pid)?;
        let owner = sockopt::socket_peercred(&stream).map_err(|source| AgentError::Failed {
            what: "look whose socket is the one of the guest agent",
            pid,
            source: source.into(),
        })?;
        // A command line may name any socket, and we may connect to all of them.
        let found = owner.pid.as_raw_nonzero().get();
        if u32::try_from(found).ok() != Some(pid.0) {
            return Err(AgentError::OtherOwner { pid, found });
        }
        let mut socket = Self {
            stream,
            pid,
            held: Vec::new(),
        };
        socket.synchronise(until)?;
        Ok(socket)
    }

    fn synchronise(&mut self, until: Instant) -> Result<(), AgentError> {
        let id = clock::monotonic_ns() & LARGEST_ID;
        let request =
            serde_json::json!({"execute": "guest-sync-delimited", "arguments": {"id": id}});
        let mut bytes = vec![SENTINEL];
        bytes.extend_from_slice(format!("{request}\n").as_bytes());
        self.send(&bytes, until)?;
        loop {
            self.take(SENTINEL, until)?;
            let line = self.take(b'\n', until)?;
            let start = line.iter().rposition(|byte| *byte == SENTINEL);
            let line = &line[start.map_or(0, |at| at + 1)..];
            if reply::read::<u64>(line) == Ok(id) {
                return Ok(());
            }
        }
    }

    pub(super) fn ask(&mut self, request: &str, until: Instant) -> Result<Vec<u8>, AgentError> {
        self.send(format!("{request}\n").as_bytes(), until)?;
        self.take(b'\n', until)
    }

    fn send(&mut self, mut bytes: &[u8], until: Instant) -> Result<(), AgentError> {
        while !bytes.is_empty() {
            let rest = rest(self.pid, until)?;
            let sent = self.stream.set_write_timeout(Some(rest));
            match sent.and_then(|()| self.stream.write(bytes)) {
                Ok(sent) => bytes = bytes.get(sent..).unwrap_or_default(),
                Err(error) => self.failed("write to the guest agent", error)?,
            }
        }
        Ok(())
    }

    /// Takes the bytes before the next `end`, which is dropped.
    fn take(&mut self, end: u8, until: Instant) -> Result<Vec<u8>, AgentError> {
        let mut looked = 0;
        loop {
            let new = self.held.get(looked..).unwrap_or_default();
            if let Some(at) = new.iter().position(|byte| *byte == end) {
                let rest = self.held.split_off(looked + at + 1);
                let mut taken = std::mem::replace(&mut self.held, rest);
                taken.pop();
                return Ok(taken);
            }
            looked = self.held.len();
            if looked > LONGEST {
                let why = "its answer is longer than 256 KiB";
                return Err(AgentError::Malformed { pid: self.pid, why });
            }
            let rest = rest(self.pid, until)?;
            let mut piece = [0; 4096];
            let read = self.stream.set_read_timeout(Some(rest));
            match read.and_then(|()| self.stream.read(&mut piece)) {
                Ok(0) => {
                    let source = io::Error::from(ErrorKind::UnexpectedEof);
                    self.failed("read from the guest agent", source)?;
                }
                Ok(read) => self.held.extend_from_slice(&piece[..read]),
                Err(error) => self.failed("read from the guest agent", error)?,
            }
        }
    }

    /// Nothing, if it is to be tried again until the time is over.
    fn failed(&self, what: &'static str, source: io::Error) -> Result<(), AgentError> {
        let pid = self.pid;
        match source.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(()),
            _ => Err(AgentError::Failed { what, pid, source }),
        }
    }
}

/// The time that is left; a time limit of 0 would be none.
pub(super) fn rest(pid: Pid, until: Instant) -> Result<Duration, AgentError> {
    let rest = until.saturating_duration_since(Instant::now());
    if rest.is_zero() {
        return Err(AgentError::Silent(pid));
    }
    Ok(rest)
}

/// Connects by a child, since the path may lead to a file system of the VMM's own.
fn connect(path: &Path, pid: Pid) -> Result<UnixStream, AgentError> {
    let failed = |source: Errno| AgentError::Failed {
        what: "connect to the guest agent",
        pid,
        source: source.into(),
    };
    let of = rustix::process::Pid::from_raw(pid.0.cast_signed());
    let shown = Shown {
        of: of.ok_or(AgentError::Gone(pid))?,
        at: At::path(path).map_err(failed)?,
    };
    match taken::take(&[shown]).remove(0) {
        Ok(socket) => Ok(UnixStream::from(socket)),
        // Another client is connected and the queue is full, or the path leads nowhere that answers.
        Err((Step::Start, Errno::TIMEDOUT) | (Step::Hangs, _)) => Err(AgentError::Silent(pid)),
        Err((_, errno)) => Err(failed(errno)),
    }
}

/// Beside the agent's own time: libvirt waits for it, and ends the wait itself.
const OWN: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Virsh {
    program: String,
    /// No word that virsh could take for an option.
    uuid: String,
    pid: Pid,
}

impl Virsh {
    pub(super) fn new(program: &str, uuid: String, pid: Pid) -> Self {
        Self {
            program: program.to_owned(),
            uuid,
            pid,
        }
    }

    pub(super) fn ask(
        &self,
        command: &'static str,
        request: &str,
        until: Instant,
    ) -> Result<Vec<u8>, AgentError> {
        let pid = self.pid;
        let failed = |source| AgentError::Failed {
            what: "run virsh to ask the guest agent",
            pid,
            source,
        };
        // To libvirt 0 is no wait at all.
        let seconds = rest(pid, until)?.as_secs().max(1).to_string();
        let until = until + OWN;
        let mut child = Command::new(&self.program)
            .args(["-c", "qemu:///system", "qemu-agent-command"])
            .args(["--timeout", &seconds, &self.uuid, request])
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let (sender, ended) = mpsc::channel();
        let said = read_all(child.stdout.take(), sender.clone());
        let complained = read_all(child.stderr.take(), sender);
        let in_time = (0..2).all(|_| {
            let rest = until.saturating_duration_since(Instant::now());
            ended.recv_timeout(rest).is_ok()
        });
        if !in_time {
            // It has ended by itself if that fails.
            drop(child.kill());
            child.wait().map_err(failed)?;
            return Err(AgentError::Silent(pid));
        }
        let status = child.wait().map_err(failed)?;
        let (said, complained) = (said.join(), complained.join());
        if status.success() {
            return Ok(said.unwrap_or_default());
        }
        let text = String::from_utf8_lossy(&complained.unwrap_or_default()).into_owned();
        let text = reply::shown(text.trim_start_matches("error: "));
        Err(AgentError::Refused { pid, command, text })
    }
}

fn read_all<R: Read + Send + 'static>(
    from: Option<R>,
    ended: mpsc::Sender<()>,
) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(from) = from {
            // Output that came before an error is returned.
            drop(from.take(LONGEST as u64).read_to_end(&mut bytes));
        }
        // The caller may have given up.
        let _ = ended.send(());
        bytes
    })
}
