//! libvirt holds the agent's socket of its domains, and passes commands on: `virsh qemu-agent-command`.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use haltwise_core::ids::Pid;

use super::socket::rest;
use super::{AgentError, reply};

/// More is not read of what virsh prints, in bytes.
const LONGEST: u64 = 256 << 10;
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
        let said = read(child.stdout.take(), sender.clone());
        let complained = read(child.stderr.take(), sender);
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

/// Reads to the end, up to a limit, and reports that.
fn read<R: Read + Send + 'static>(
    from: Option<R>,
    ended: mpsc::Sender<()>,
) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(from) = from {
            // Output that came before an error is returned.
            drop(from.take(LONGEST).read_to_end(&mut bytes));
        }
        // The caller may have given up.
        let _ = ended.send(());
        bytes
    })
}
