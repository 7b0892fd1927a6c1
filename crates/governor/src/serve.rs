//! The thread that answers controllers.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::fs::{MemfdFlags, fstat, memfd_create};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags,
    SocketType, recvmsg, send, socketpair,
};

use crate::protocol::{REQUEST_BYTES, Reply, Request, memfd_name};
use crate::table::VMS;
use crate::thread::{self, Blocked};

/// The process whose controllers are answered; a child is another.
static SERVED: AtomicI32 = AtomicI32::new(0);

fn this_process() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

pub(crate) fn is_served() -> bool {
    SERVED.load(Ordering::Acquire) == this_process()
}

/// Starts the thread, once in a process. Where that fails, nothing is there.
pub(crate) fn start() {
    let this = this_process();
    let before = SERVED.swap(this, Ordering::AcqRel);
    if before == this {
        return;
    }
    if before != 0 {
        VMS.forget();
    }
    if start_thread().is_none() {
        SERVED.store(0, Ordering::Release);
    }
}

fn start_thread() -> Option<()> {
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .ok()?;
    let name = memfd_name(theirs.as_raw_fd());
    let sign = memfd_create(name, MemfdFlags::CLOEXEC).ok()?;
    let blocked = Blocked::all()?;
    let started = thread::start(ours, answer);
    drop(blocked);
    if started {
        // As long as the process: controllers take their duplicates of it.
        let _ = (theirs.into_raw_fd(), sign.into_raw_fd());
    }
    started.then_some(())
}

/// Answers until the socket is gone: the VMM may close what it does not know.
fn answer(socket: &OwnedFd) {
    let Ok(ours) = identity(socket.as_fd()) else {
        return;
    };
    loop {
        // Its number may be another file's by now, whose messages are not for us.
        if identity(socket.as_fd()) != Ok(ours) {
            return;
        }
        match take(socket.as_fd()) {
            Ok(Some((request, to))) => give(request, &to),
            Ok(None) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

fn identity(fd: BorrowedFd<'_>) -> Result<(u64, u64), Errno> {
    fstat(fd).map(|it| (it.st_dev, it.st_ino))
}

/// The next request and where its reply goes; `None` for anything else.
fn take(socket: BorrowedFd<'_>) -> Result<Option<(Request, OwnedFd)>, Errno> {
    let mut bytes = [0; REQUEST_BYTES + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(&mut bytes)];
    let taken = recvmsg(socket, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut attached = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            for fd in fds {
                attached = Some(fd);
            }
        }
    }
    let request = bytes.get(..taken.bytes).and_then(Request::decode);
    Ok(request.zip(attached))
}

/// Does what was asked, and replies with the result. Never waits for the process that asked.
fn give(request: Request, to: &OwnedFd) {
    let errno = |error: std::io::Error| error.raw_os_error().unwrap_or(Errno::NOENT.raw_os_error());
    let reply = match request {
        Request::List => Reply::list(VMS.list()),
        Request::SetCeiling { fd, ns } => {
            let set = VMS.set_ceiling(fd, ns);
            Reply::of(set.map_or_else(errno, |()| 0))
        }
    };
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    // A client that is gone needs no reply.
    let _ = send(to, &reply.encode(), flags);
}
