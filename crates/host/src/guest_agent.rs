//! The parameters of the governor haltpoll in a Linux guest, read and set from its host through the QEMU guest agent.
//!
//! A guest is not trusted, and neither is its agent: replies are bounded in length and time, and only a number, Y or N
//! ever comes out of one. Text of an agent stands in errors alone, cut and made printable. Five commands are used:
//! `guest-info`, `guest-file-open`, `-read`, `-write` and `-close`, after `guest-sync-delimited`; never `guest-exec`.

pub(crate) mod reply;
mod socket;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use haltwise_core::ids::{Pid, VmKey};
use haltwise_core::parameter::Parameter;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use self::reply::{Handle, Info, Piece};
use self::socket::{Socket, Virsh};
use crate::discovery::{self, AgentChannel, agent_channel};
use crate::root::{Root, RootError};

const PATIENCE: Duration = Duration::from_secs(5);
/// This much of each read or write of a parameter does not count against `PATIENCE`: a recording may ask for hours.
const QUICK: Duration = Duration::from_millis(250);
/// No value of a parameter is longer, in bytes, and neither is the name of a boot.
const LONGEST_VALUE: usize = 64;
/// A new one at each boot of a Linux guest (random(4)).
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const BOOT_ID_LENGTH: usize = 36;
const NEEDED: [&str; 4] = [
    "guest-file-open",
    "guest-file-read",
    "guest-file-write",
    "guest-file-close",
];

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    #[error("ask the guest agent of pid {0}: the VM has ended")]
    Gone(Pid),
    #[error("ask the guest agent of pid {pid}: {why}")]
    NoChannel { pid: Pid, why: &'static str },
    #[error(
        "ask the guest agent of pid {pid}: the socket on its command line belongs to pid {found}"
    )]
    OtherOwner { pid: Pid, found: i32 },
    #[error("{what} of pid {pid}")]
    Failed {
        what: &'static str,
        pid: Pid,
        #[source]
        source: std::io::Error,
    },
    #[error(
        "ask the guest agent of pid {0}: the guest's agent did not answer in time: is qemu-guest-agent running in \
         the guest?"
    )]
    Silent(Pid),
    #[error("ask the guest agent of pid {pid}: {why}")]
    Malformed { pid: Pid, why: &'static str },
    #[error(
        "ask the guest agent of pid {pid}: the agent does not permit {command}: its setting --block-rpcs or \
         --allow-rpcs (older: --blacklist; BLACKLIST_RPC or FILTER_RPC_ARGS in /etc/sysconfig/qemu-ga) denies it"
    )]
    Disabled { pid: Pid, command: &'static str },
    #[error("{command} in the guest of pid {pid}: {text}")]
    Refused {
        pid: Pid,
        command: &'static str,
        text: String,
    },
    #[error(
        "read {parameter} in the guest of pid {pid}: the guest has no such parameter (its kernel has no governor \
         haltpoll): {text}"
    )]
    Absent {
        pid: Pid,
        parameter: Parameter,
        text: String,
    },
    #[error(transparent)]
    Read(#[from] RootError),
}

#[derive(Debug)]
pub(crate) struct GuestAgent {
    root: Root,
    key: VmKey,
    line: Line,
    boot: Option<String>,
    until: Instant,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) value: String,
    /// The guest's boot; `None` where its agent does not read that out.
    pub(crate) boot: Option<String>,
}

#[derive(Debug)]
enum Line {
    Socket(Socket),
    Virsh(Virsh),
}

impl GuestAgent {
    pub(crate) fn of(root: &Root, vm: VmKey, until: Instant) -> Result<Self, AgentError> {
        let pid = vm.pid;
        is_running(root, vm)?;
        let line = match agent_channel(root, pid)? {
            AgentChannel::Socket(path) => Line::Socket(Socket::connect(&path, pid, until)?),
            AgentChannel::Libvirt(uuid) => Line::Virsh(Virsh::new("virsh", uuid, pid)),
            AgentChannel::None(why) => return Err(AgentError::NoChannel { pid, why }),
        };
        let mut agent = Self {
            root: root.clone(),
            key: vm,
            line,
            boot: None,
            until,
        };
        agent.permits()?;
        agent.boot = agent.boot_id()?;
        Ok(agent)
    }

    fn permits(&mut self) -> Result<(), AgentError> {
        let info: Info = self.ask("guest-info", None)?;
        let pid = self.key.pid;
        match NEEDED.into_iter().find(|command| !info.permits(command)) {
            Some(command) => Err(AgentError::Disabled { pid, command }),
            None => Ok(()),
        }
    }

    /// The name of the guest's boot, if it says one: an agent may be kept from that file alone.
    fn boot_id(&mut self) -> Result<Option<String>, AgentError> {
        let text = match self.read_file(BOOT_ID) {
            Ok(text) => text,
            Err(AgentError::Refused { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let is_uuid = |text: &String| {
            let mut bytes = text.bytes();
            text.len() == BOOT_ID_LENGTH && bytes.all(|it| it.is_ascii_hexdigit() || it == b'-')
        };
        Ok(text.filter(is_uuid))
    }

    fn read_file(&mut self, path: &str) -> Result<Option<String>, AgentError> {
        let handle = self.open(path, "r")?;
        let arguments = json!({"handle": handle, "count": LONGEST_VALUE});
        let piece = self.ask::<Piece>("guest-file-read", Some(arguments));
        let closed = self.close(handle);
        let bytes = piece?.bytes(LONGEST_VALUE);
        closed?;
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        Ok(text.map(|text| text.strip_suffix('\n').unwrap_or(&text).to_owned()))
    }

    pub(crate) fn read(&mut self, parameter: Parameter) -> Result<Seen, AgentError> {
        let pid = self.key.pid;
        let text = self
            .read_file(&path_of(parameter))
            .map_err(|error| match error {
                AgentError::Refused { text, .. } if text.contains("No such file") => {
                    AgentError::Absent {
                        pid,
                        parameter,
                        text,
                    }
                }
                error => error,
            })?;
        let why = "what it read is not a value of the parameter";
        let text = text.ok_or(AgentError::Malformed { pid, why })?;
        let value = parameter.value(&text).ok();
        // The one way in which the kernel writes it: nothing else of a guest's text gets any further.
        let written = value.map(|value| parameter.written(value));
        let value = written.filter(|written| *written == text);
        let value = value.ok_or(AgentError::Malformed { pid, why })?;
        let boot = self.boot.clone();
        Ok(Seen { value, boot })
    }

    /// Writes a value. Whether it was taken shows when it is read.
    pub(crate) fn write(&mut self, parameter: Parameter, value: &str) -> Result<(), AgentError> {
        let text = format!("{value}\n");
        let handle = self.open(&path_of(parameter), "w")?;
        let arguments = json!({"handle": handle, "buf-b64": STANDARD.encode(&text)});
        let written = self.ask::<Value>("guest-file-write", Some(arguments));
        // The agent buffers: the kernel's refusal comes with the close.
        let closed = self.close(handle);
        written?;
        closed
    }

    fn open(&mut self, path: &str, mode: &str) -> Result<Handle, AgentError> {
        self.ask("guest-file-open", Some(json!({"path": path, "mode": mode})))
    }

    fn close(&mut self, handle: Handle) -> Result<(), AgentError> {
        let arguments = json!({ "handle": handle });
        self.ask::<Value>("guest-file-close", Some(arguments))
            .map(drop)
    }

    fn ask<T: DeserializeOwned>(
        &mut self,
        command: &'static str,
        arguments: Option<Value>,
    ) -> Result<T, AgentError> {
        is_running(&self.root, self.key)?;
        let mut request = json!({ "execute": command });
        if let Some(arguments) = arguments {
            request["arguments"] = arguments;
        }
        let pid = self.key.pid;
        let asked = match &mut self.line {
            Line::Socket(socket) => socket.ask(&request.to_string(), self.until),
            Line::Virsh(virsh) => virsh.ask(command, &request.to_string(), self.until),
        };
        let bytes = match asked {
            Ok(bytes) => bytes,
            Err(error) => {
                // A VM that ends while it is asked has ended, whatever came first.
                is_running(&self.root, self.key)?;
                return Err(error);
            }
        };
        match reply::read(&bytes) {
            Ok(returned) => Ok(returned),
            Err(reply::Wrong::Form(why)) => Err(AgentError::Malformed { pid, why }),
            Err(reply::Wrong::Refused(text)) => Err(AgentError::Refused { pid, command, text }),
        }
    }
}

fn path_of(parameter: Parameter) -> String {
    format!("/{}", parameter.path())
}

fn is_running(root: &Root, vm: VmKey) -> Result<(), AgentError> {
    let is_alive = discovery::is_alive(root, vm)?;
    is_alive.then_some(()).ok_or(AgentError::Gone(vm.pid))
}

/// Agents that were asked. All that one takes for its answers is limited together: one that was silent once is not waited for
/// again, and one that is slow is silent.
#[derive(Debug, Default)]
pub(crate) struct Sessions(RefCell<BTreeMap<VmKey, Session>>);

#[derive(Debug)]
struct Session {
    /// `None` where an answer may still be under way: the next conversation begins with another connection.
    agent: Option<GuestAgent>,
    patience: Duration,
}

impl Sessions {
    pub(crate) fn read(
        &self,
        root: &Root,
        vm: VmKey,
        parameter: Parameter,
    ) -> Result<Option<Seen>, AgentError> {
        match self.with(root, vm, |agent| agent.read(parameter)) {
            Err(AgentError::Gone(_)) => Ok(None),
            read => read.map(Some),
        }
    }

    pub(crate) fn write(
        &self,
        root: &Root,
        vm: VmKey,
        parameter: Parameter,
        value: &str,
    ) -> Result<(), AgentError> {
        self.with(root, vm, |agent| agent.write(parameter, value))
    }

    fn with<T>(
        &self,
        root: &Root,
        vm: VmKey,
        act: impl FnOnce(&mut GuestAgent) -> Result<T, AgentError>,
    ) -> Result<T, AgentError> {
        let mut sessions = self.0.borrow_mut();
        let session = sessions.entry(vm).or_insert(Session {
            agent: None,
            patience: PATIENCE,
        });
        if session.patience.is_zero() {
            return Err(AgentError::Silent(vm.pid));
        }
        let began = Instant::now();
        let until = began + session.patience;
        let agent = match session.agent.take() {
            Some(agent) => Ok(agent),
            None => GuestAgent::of(root, vm, until),
        };
        let done = agent.and_then(|mut agent| {
            agent.until = until;
            let done = act(&mut agent);
            let is_kept = matches!(
                done,
                Ok(_) | Err(AgentError::Refused { .. } | AgentError::Absent { .. })
            );
            session.agent = is_kept.then_some(agent);
            done
        });
        let took = began.elapsed().saturating_sub(QUICK);
        session.patience = match done {
            Err(AgentError::Silent(_)) => Duration::ZERO,
            _ => session.patience.saturating_sub(took),
        };
        done
    }
}

#[cfg(test)]
pub(crate) mod test;
