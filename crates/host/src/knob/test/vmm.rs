//! A VMM that a made-up host has: a thread of this process that answers as `haltwise-governor` does. Its VMs are
//! numbers; `/proc` below the made-up root shows them.

use std::collections::BTreeMap;
use std::fs;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use haltwise_core::ids::Pid;
use haltwise_governor::protocol::{Reply, Request, Vm, memfd_name};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags,
    SocketType, recvmsg, send, socketpair,
};

/// The number of the first VM's fd.
const FIRST: i32 = 1_000;

type Ceilings = Arc<Mutex<BTreeMap<i32, Option<u32>>>>;

#[derive(Debug)]
pub(super) struct Vmm {
    ceilings: Ceilings,
    /// Requests that it takes before it closes its socket.
    patience: Arc<AtomicU32>,
    /// Where it is asked; the thread ends when this is closed.
    _control: OwnedFd,
}

impl Vmm {
    pub(super) fn pid() -> Pid {
        Pid(std::process::id())
    }

    pub(super) fn start(root: &Path, vms: u32) -> Self {
        let kind = SocketType::SEQPACKET;
        let pair = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
        let (control, answering) = pair.unwrap();
        let ceilings = (0..vms).map(|vm| (FIRST + vm.cast_signed(), None));
        let ceilings: Ceilings = Arc::new(Mutex::new(ceilings.collect()));
        let fds = root.join(format!("proc/{}/fd", Self::pid()));
        fs::create_dir_all(&fds).unwrap();
        let sign = format!("/memfd:{} (deleted)", memfd_name(control.as_raw_fd()));
        symlink(sign, fds.join("3")).unwrap();
        for fd in ceilings.lock().unwrap().keys() {
            symlink("anon_inode:kvm-vm", fds.join(fd.to_string())).unwrap();
        }
        let patience = Arc::new(AtomicU32::new(u32::MAX));
        let theirs = (Arc::clone(&ceilings), Arc::clone(&patience));
        std::thread::spawn(move || while serve(&answering, &theirs.0, &theirs.1) {});
        Self {
            ceilings,
            patience,
            _control: control,
        }
    }

    /// As another process that began at `start_ticks`.
    pub(super) fn restart(&self, root: &Path, start_ticks: u64) {
        let stat = root.join(format!("proc/{}/stat", Self::pid()));
        let before = "0 ".repeat(18);
        let text = format!("{} (vmm) S {before}{start_ticks} 0", Self::pid());
        fs::write(stat, text).unwrap();
        for own in self.ceilings.lock().unwrap().values_mut() {
            *own = None;
        }
    }

    pub(super) fn end(&self, root: &Path, ordinal: u32) {
        let fd = FIRST + ordinal.cast_signed();
        self.ceilings.lock().unwrap().remove(&fd);
        fs::remove_file(root.join(format!("proc/{}/fd/{fd}", Self::pid()))).unwrap();
    }

    /// It answers so many requests more, and closes its socket when it has taken the next.
    pub(super) fn closes_after(&self, requests: u32) {
        self.patience.store(requests, Ordering::SeqCst);
    }

    pub(super) fn cap(&self, ordinal: u32, ns: u32) {
        let fd = FIRST + ordinal.cast_signed();
        self.ceilings.lock().unwrap().insert(fd, Some(ns));
    }

    pub(super) fn ceiling(&self, ordinal: u32) -> Option<u32> {
        self.ceilings.lock().unwrap()[&(FIRST + ordinal.cast_signed())]
    }
}

/// Answers one request; whether there may be more.
fn serve(socket: &OwnedFd, ceilings: &Ceilings, patience: &AtomicU32) -> bool {
    let mut bytes = [0; 64];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(&mut bytes)];
    let Ok(taken) = recvmsg(socket, &mut into, &mut control, RecvFlags::empty()) else {
        return false;
    };
    let Some(request) = Request::decode(&bytes[..taken.bytes]) else {
        return false;
    };
    if patience.fetch_sub(1, Ordering::SeqCst) == 0 {
        return false;
    }
    let mut ceilings = ceilings.lock().unwrap();
    let reply = match request {
        Request::List => Reply::list((ceilings.iter()).map(|(fd, ceiling_ns)| Vm {
            fd: *fd,
            ceiling_ns: *ceiling_ns,
        })),
        Request::SetCeiling { fd, ns } => match ceilings.get_mut(&fd) {
            Some(own) => {
                *own = Some(ns);
                Reply::of(0)
            }
            None => Reply::of(Errno::NOENT.raw_os_error()),
        },
    };
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            for fd in fds {
                let _ended = send(&fd, &reply.encode(), SendFlags::NOSIGNAL);
            }
        }
    }
    true
}
