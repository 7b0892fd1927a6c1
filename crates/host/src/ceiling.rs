//! The ceiling of a VM, set from outside its VMM: the controller's side of `haltwise-governor`.
//!
//! A VMM that can be asked holds a memfd whose name tells the number of its socket. A duplicate of that socket
//! comes by `pidfd_getfd`, which requires the right to `ptrace` the VMM; a child takes it (`taken`). What a
//! VMM answers is not believed further than it goes: a number of an fd counts only where `/proc` shows a VM there.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use haltwise_core::ids::{Pid, VmKey};
pub use haltwise_governor::protocol::Vm as Governed;
use haltwise_governor::protocol::{MAX_VMS, REPLY_BYTES, Reply, Request, VERSION, read_memfd_name};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, sendmsg};

use crate::discovery::key_of;
use crate::process_files;
use crate::root::{Root, RootError};
use crate::taken::{self, At, Failed, Shown, Step, Wait};

const VM: &str = "anon_inode:kvm-vm";

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CeilingError {
    #[error("ask pid {0}: its VMM was started without libhaltwise_preload.so or haltwise-governor")]
    Absent(Pid),
    #[error(
        "ask pid {pid}: its VMM has version {found} of haltwise-governor, and this is version {VERSION}"
    )]
    Version { pid: Pid, found: u16 },
    #[error("ask pid {0}: the VMM has ended")]
    Gone(Pid),
    #[error(
        "ask pid {0}: not permitted (it takes the right to ptrace it: root, or CAP_SYS_PTRACE)"
    )]
    Denied(Pid),
    #[error("ask pid {pid}: {why}")]
    NoAnswer { pid: Pid, why: &'static str },
    #[error("set the ceiling of pid {pid}: it has no VM with fd {fd} (any more)")]
    NoVm { pid: Pid, fd: i32 },
    #[error(
        "ask pid {pid}: its VMM answers for {MAX_VMS} VMs of a process, and this one has {vms}, of which it cannot \
         be told which they are"
    )]
    TooMany { pid: Pid, vms: usize },
    #[error(transparent)]
    Read(#[from] RootError),
    #[error("{what} of pid {pid}")]
    Failed {
        what: &'static str,
        pid: Pid,
        #[source]
        source: std::io::Error,
    },
}

#[derive(Debug)]
pub struct Governor {
    root: Root,
    key: VmKey,
    socket: OwnedFd,
}

impl Governor {
    pub fn of(root: &Root, pid: Pid) -> Result<Self, CeilingError> {
        Self::of_all(root, &[pid]).remove(0)
    }

    /// Those of many VMMs, at the same time; as many as there are processes, in their order.
    pub fn of_all(root: &Root, pids: &[Pid]) -> Vec<Result<Self, CeilingError>> {
        let found: Vec<_> = pids.iter().map(|pid| shown(root, *pid)).collect();
        let all: Vec<Shown> = found
            .iter()
            .flatten()
            .map(|(_, shown)| shown.clone())
            .collect();
        let mut sockets = taken::take(&all).into_iter();
        let taken = found.into_iter().map(|found| {
            let (key, _) = found?;
            let socket = sockets.next().ok_or(CeilingError::Gone(key.pid))?;
            let governor = Self {
                root: root.clone(),
                key,
                socket: socket.map_err(|failed| not_taken(failed, key.pid))?,
            };
            match key_of(root, key.pid).map_err(|error| gone(error, key.pid))? {
                now if now == key => Ok(governor),
                _ => Err(CeilingError::Gone(key.pid)),
            }
        });
        taken.collect()
    }

    pub fn key(&self) -> VmKey {
        self.key
    }

    /// Its VMs. Fails where there are more than a reply can list: VMs go by their order, which would be wrong.
    pub fn vms(&self) -> Result<Vec<Governed>, CeilingError> {
        Self::vms_of(&[self]).remove(0)
    }

    pub fn vms_of(all: &[&Self]) -> Vec<Result<Vec<Governed>, CeilingError>> {
        let asked: Vec<_> = all.iter().map(|it| it.send(Request::List)).collect();
        let wait = Wait::begin();
        let answers = all.iter().zip(asked);
        answers
            .map(|(it, reply)| it.listed(it.receive(&reply?, &wait)?))
            .collect()
    }

    /// The VMs of many VMMs, and whom to ask about them, in their order.
    pub fn list_all(
        root: &Root,
        pids: &[Pid],
    ) -> Vec<Result<(VmKey, Vec<Governed>), CeilingError>> {
        let governors = Self::of_all(root, pids);
        let taken: Vec<&Self> = governors.iter().flatten().collect();
        let mut answers = Self::vms_of(&taken).into_iter();
        let each = pids.iter().zip(governors);
        let listed = each.map(|(pid, governor)| {
            let key = governor?.key;
            let vms = answers.next().unwrap_or(Err(CeilingError::Gone(*pid)))?;
            Ok((key, vms))
        });
        listed.collect()
    }

    fn listed(&self, reply: Reply) -> Result<Vec<Governed>, CeilingError> {
        if reply.vms().len() == MAX_VMS {
            let pid = self.key.pid;
            let numbers = self.root.numbers(format!("proc/{pid}/fd"))?.into_iter();
            let is_vm = |fd: &u32| i32::try_from(*fd).is_ok_and(|fd| self.is_vm(fd));
            let vms = numbers.filter(is_vm).count();
            if vms > MAX_VMS {
                return Err(CeilingError::TooMany { pid, vms });
            }
        }
        let vms = reply.vms().iter().filter(|vm| self.is_vm(vm.fd));
        Ok(vms.copied().collect())
    }

    pub fn vm(&self, ordinal: u32) -> Result<Option<Governed>, CeilingError> {
        let mut vms = self.vms()?;
        vms.sort_by_key(|vm| vm.fd);
        let place = usize::try_from(ordinal).unwrap_or(usize::MAX);
        Ok(vms.get(place).copied())
    }

    pub(crate) fn set(&self, fd: i32, ns: u32) -> Result<(), CeilingError> {
        let pid = self.key.pid;
        if !self.is_vm(fd) {
            return Err(CeilingError::NoVm { pid, fd });
        }
        let reply = self.send(Request::SetCeiling { fd, ns })?;
        match self.receive(&reply, &Wait::begin())?.errno {
            0 => Ok(()),
            errno if errno == Errno::NOENT.raw_os_error() => Err(CeilingError::NoVm { pid, fd }),
            errno => Err(CeilingError::Failed {
                what: "set the ceiling",
                pid,
                source: std::io::Error::from_raw_os_error(errno),
            }),
        }
    }

    fn is_vm(&self, fd: i32) -> bool {
        let pid = self.key.pid;
        let link = move |root: &Root| root.link(format!("proc/{pid}/fd/{fd}"));
        let link = process_files::look(&self.root, pid, link);
        matches!(link, Ok(Ok(to)) if to.as_os_str() == VM)
    }

    fn send(&self, request: Request) -> Result<OwnedFd, CeilingError> {
        let pid = self.key.pid;
        let failed = |what| move |errno| not_done(what, pid, errno);
        let (ours, theirs) = taken::pair().map_err(failed("make a socket for the reply"))?;
        let attached = [theirs.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&attached));
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let bytes = request.encode();
        let no_answer = |why| CeilingError::NoAnswer { pid, why };
        // The only other end is the VMM's then: if it ends, so does the wait.
        match sendmsg(&self.socket, &[IoSlice::new(&bytes)], &mut control, flags) {
            Ok(_) => Ok(ours),
            Err(Errno::AGAIN) => Err(no_answer("it does not read what it is asked")),
            Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => {
                Err(no_answer("it has closed its socket"))
            }
            Err(source) => Err(failed("send a request")(source)),
        }
    }

    fn receive(&self, from: &OwnedFd, wait: &Wait) -> Result<Reply, CeilingError> {
        let pid = self.key.pid;
        let no_answer = |why| CeilingError::NoAnswer { pid, why };
        let failed = |what| move |errno| not_done(what, pid, errno);
        if !taken::is_ready(from, wait.until).map_err(failed("wait for a reply"))? {
            return Err(no_answer("it did not answer in time; is it stopped?"));
        }
        // No room for descriptors: the kernel drops what comes with a reply.
        let mut bytes = [0; REPLY_BYTES + 1];
        let taken = recv(from, &mut bytes, RecvFlags::DONTWAIT);
        let (taken, _) = taken.map_err(failed("take the reply"))?;
        if taken == 0 {
            return Err(no_answer("it ended, or refused the request"));
        }
        let reply = bytes.get(..taken).and_then(Reply::decode);
        reply.ok_or_else(|| no_answer("what it answered is no reply"))
    }
}

fn shown(root: &Root, pid: Pid) -> Result<(VmKey, Shown), CeilingError> {
    let key = key_of(root, pid).map_err(|error| gone(error, pid))?;
    let number = socket_number(root, pid)?;
    let of = rustix::process::Pid::from_raw(pid.0.cast_signed()).ok_or(CeilingError::Gone(pid))?;
    let at = At::Number(number);
    Ok((key, Shown { of, at }))
}

fn not_taken((step, errno): Failed, pid: Pid) -> CeilingError {
    let no_answer = |why| CeilingError::NoAnswer { pid, why };
    let what = match (step, errno) {
        (Step::NoSocket, _) => return no_answer("what it shows is no socket"),
        (Step::Hangs, _) => return no_answer("the child that asked it before hangs in its file"),
        (Step::Open | Step::Duplicate, Errno::SRCH | Errno::BADF) => {
            return CeilingError::Gone(pid);
        }
        (Step::Open | Step::Duplicate, Errno::PERM | Errno::ACCESS) => {
            return CeilingError::Denied(pid);
        }
        (Step::Open, _) => "open a pidfd",
        (Step::Duplicate, _) => "duplicate the socket",
        (Step::Start | Step::Connect, _) => "have a child take the socket",
    };
    not_done(what, pid, errno)
}

fn not_done(what: &'static str, pid: Pid, errno: Errno) -> CeilingError {
    let source = errno.into();
    CeilingError::Failed { what, pid, source }
}

/// Why the ceilings of processes' VMs cannot be set, of those of which they cannot.
pub fn obstacles(root: &Root, processes: &BTreeSet<Pid>) -> BTreeMap<Pid, String> {
    let pids: Vec<Pid> = processes.iter().copied().collect();
    let each = pids.iter().zip(Governor::list_all(root, &pids));
    each.filter_map(|(pid, listed)| {
        let listed = listed.map(|(_, vms)| vms);
        Some((*pid, obstacle(root, *pid, listed)?))
    })
    .collect()
}

fn obstacle(
    root: &Root,
    pid: Pid,
    answered: Result<Vec<Governed>, CeilingError>,
) -> Option<String> {
    let error = match answered {
        Ok(vms) if vms.is_empty() => return Some("its VMM reports no VM".to_owned()),
        Ok(_) => return None,
        Err(error) => error,
    };
    Some(match error {
        CeilingError::Absent(_) if is_static(root, pid) => {
            "its VMM is linked statically, so that haltwise-governor must be built in".to_owned()
        }
        CeilingError::Absent(_) => {
            "its VMM was started without libhaltwise_preload.so (haltwise-exec)".to_owned()
        }
        error => error.to_string(),
    })
}

/// Whether no dynamic linker is in a process, so that nothing can be preloaded.
fn is_static(root: &Root, pid: Pid) -> bool {
    let maps = move |root: &Root| root.text(format!("proc/{pid}/maps"));
    let maps = process_files::look(root, pid, maps);
    matches!(maps, Ok(Ok(maps)) if !maps.lines().any(|line| line.contains("/ld-")))
}

fn socket_number(root: &Root, pid: Pid) -> Result<i32, CeilingError> {
    process_files::look(root, pid, move |root| shown_number(root, pid))?
}

fn shown_number(root: &Root, pid: Pid) -> Result<i32, CeilingError> {
    let directory = format!("proc/{pid}/fd");
    let numbers = root.numbers(&directory).map_err(|error| match error {
        error if error.is_denied() => CeilingError::Denied(pid),
        error => gone(error, pid),
    })?;
    let (mut other, mut is_closed) = (None, false);
    for number in numbers {
        let link = match root.link(format!("{directory}/{number}")) {
            Ok(link) => link,
            Err(error) => {
                is_closed |= error.is_denied();
                continue;
            }
        };
        match read_sign(&link) {
            Some((VERSION, fd)) => return Ok(fd),
            Some((found, _)) => other = Some(found),
            None => {}
        }
    }
    Err(match other {
        Some(found) => CeilingError::Version { pid, found },
        None if is_closed => CeilingError::Denied(pid),
        None => CeilingError::Absent(pid),
    })
}

fn gone(error: RootError, pid: Pid) -> CeilingError {
    if error.is_absent() {
        return CeilingError::Gone(pid);
    }
    error.into()
}

/// Version, and number of the controlling end, given what `/proc` calls a descriptor.
fn read_sign(link: &Path) -> Option<(u16, i32)> {
    let name = link.to_str()?.strip_prefix("/memfd:")?;
    read_memfd_name(name.strip_suffix(" (deleted)").unwrap_or(name))
}

/// Whether a descriptor says that its VMM can be asked by this version.
pub(crate) fn shows_sign(link: &Path) -> bool {
    read_sign(link).is_some_and(|(version, _)| version == VERSION)
}

#[cfg(test)]
mod test;
