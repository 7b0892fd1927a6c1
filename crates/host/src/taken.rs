//! The socket of a VMM, taken by a child: whatever a VMM shows is touched by a process that nothing is lost with.
//!
//! The descriptor behind a number that a VMM shows may be any file, and a path may lead to any file system, one of its own
//! that never answers too: to close the one or to look for the other may take for ever, deaf to signals. So a child takes
//! the descriptor, or connects, hands it on if it is a unix socket, and ends. All are waited for together; a child that hangs
//! is left behind, and its VMM is not asked again before that ends.
#![allow(
    unsafe_code,
    reason = "the child is forked, and does nothing but system calls"
)]

use std::cell::Cell;
use std::ffi::CString;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open, readlinkat_raw};
use rustix::io::Errno;
use rustix::net::sockopt::socket_domain;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg,
    sendmsg, socket_with, socketpair,
};
use rustix::path::DecInt;
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Signal, WaitOptions, chdir, kill_process, pidfd_getfd,
    pidfd_open, waitpid,
};

const AT_ONCE: usize = 64;

/// How long VMMs and children are waited for, all together. A VMM answers within 4 to 11 us; one that is stopped never does.
const PATIENCE: Duration = Duration::from_secs(2);
/// One that has used that up waits so long for each answer, and for a twentieth of the time that goes by.
const QUICK: Duration = Duration::from_millis(50);
const REGAINED: u32 = 20;

/// Children that are left behind: one for each VMM, and so many.
const LEFT_MOST: usize = 256;

/// How long a child that has answered may take to end, beside whatever else runs on its CPU.
const END: Duration = Duration::from_secs(1);

struct Left {
    child: Pid,
    of: Pid,
    /// It has not ended in time, and is not waited for again.
    is_late: bool,
}

static LEFT: Mutex<Vec<Left>> = Mutex::new(Vec::new());

/// How long a thread may still wait for what tenants answer, and when that was known.
#[derive(Debug, Clone, Copy)]
struct Patience {
    left: Duration,
    at: Instant,
}

thread_local! {
    static LEFT_TO_WAIT: Cell<Option<Patience>> = const { Cell::new(None) };
}

#[derive(Debug)]
pub(crate) struct Wait {
    began: Patience,
    pub(crate) until: Instant,
}

impl Wait {
    pub(crate) fn begin() -> Self {
        Self::after(LEFT_TO_WAIT.get(), Instant::now())
    }

    fn after(before: Option<Patience>, now: Instant) -> Self {
        let left = before.map_or(PATIENCE, |Patience { left, at }| {
            PATIENCE.min(left + now.duration_since(at) / REGAINED)
        });
        Self {
            began: Patience { left, at: now },
            until: now + left.max(QUICK),
        }
    }

    fn end(&self, now: Instant) -> Patience {
        let took = now.duration_since(self.began.at);
        let left = self.began.left.saturating_sub(took);
        Patience { left, at: now }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        LEFT_TO_WAIT.set(Some(self.end(Instant::now())));
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Shown {
    pub(crate) of: Pid,
    pub(crate) at: At,
}

#[derive(Debug, Clone)]
pub(crate) enum At {
    Number(i32),
    /// The directory where it listens for streams, and the name there.
    Path(CString, SocketAddrUnix),
}

impl At {
    /// In two parts, since a path may be longer than an address can be.
    pub(crate) fn path(path: &Path) -> Result<Self, Errno> {
        let (directory, name) = path.parent().zip(path.file_name()).ok_or(Errno::INVAL)?;
        let directory = CString::new(directory.as_os_str().as_bytes());
        let directory = directory.map_err(|_| Errno::INVAL)?;
        Ok(Self::Path(directory, SocketAddrUnix::new(name)?))
    }
}

/// How far a child came; the first byte that it sends, before an error number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// No child was started, none answered, or it has a socket.
    Start,
    Open,
    Duplicate,
    NoSocket,
    Connect,
    /// One that looked at this VMM before.
    Hangs,
}

pub(crate) type Failed = (Step, Errno);

pub(crate) fn take(shown: &[Shown]) -> Vec<Result<OwnedFd, Failed>> {
    shown.chunks(AT_ONCE).flat_map(take_some).collect()
}

fn take_some(shown: &[Shown]) -> Vec<Result<OwnedFd, Failed>> {
    let hanging = hanging(shown);
    let start = |shown: &Shown| {
        if hanging.len() >= LEFT_MOST || hanging.contains(&shown.of) {
            return Err((Step::Hangs, Errno::AGAIN));
        }
        Child::start(shown)
    };
    let children: Vec<Result<Child, Failed>> = shown.iter().map(start).collect();
    let wait = Wait::begin();
    let taken = children.iter().map(|child| match child {
        Ok(child) => child.taken(wait.until),
        Err(failed) => Err(*failed),
    });
    let taken = taken.collect();
    // Those that have answered are about to end.
    let late = children.iter().flatten();
    for child in late.filter(|_| Instant::now() >= wait.until) {
        let _ = kill_process(child.process, Signal::KILL);
    }
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    left.extend(children.into_iter().flatten().map(|it| Left {
        child: it.process,
        of: it.of,
        is_late: false,
    }));
    taken
}

/// The VMMs whose children have not ended. Children of these VMMs have a moment to end, all together.
fn hanging(shown: &[Shown]) -> Vec<Pid> {
    let until = Instant::now() + END;
    let is_asked = |left: &Left| shown.iter().any(|shown| shown.of == left.of);
    loop {
        let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
        left.retain(|it| matches!(waitpid(Some(it.child), WaitOptions::NOHANG), Ok(None)));
        let is_over = Instant::now() >= until;
        for asked in left.iter_mut().filter(|it| is_asked(it)) {
            asked.is_late |= is_over;
        }
        if left.iter().all(|it| it.is_late || !is_asked(it)) {
            return left.iter().map(|it| it.of).collect();
        }
        drop(left);
        std::thread::sleep(Duration::from_millis(1));
    }
}

struct Child {
    process: Pid,
    of: Pid,
    answers: OwnedFd,
}

impl Child {
    fn start(shown: &Shown) -> Result<Self, Failed> {
        let (answers, to) = pair().map_err(|errno| (Step::Start, errno))?;
        // SAFETY: the child makes system calls on memory of its own, and ends by `_exit`: it takes no lock, allocates
        // nothing, and drops nothing of its parent's.
        let child = unsafe { libc::fork() };
        if child == 0 {
            serve(shown, &to);
        }
        let process = Pid::from_raw(child).filter(|_| child > 0);
        let process = process.ok_or((Step::Start, Errno::AGAIN))?;
        Ok(Self {
            process,
            of: shown.of,
            answers,
        })
    }

    fn taken(&self, until: Instant) -> Result<OwnedFd, Failed> {
        let failed = |errno| (Step::Start, errno);
        if !is_ready(&self.answers, until).map_err(failed)? {
            return Err(failed(Errno::TIMEDOUT));
        }
        let mut answer = [0; 5];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut answer)];
        let received = recvmsg(
            &self.answers,
            &mut into,
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        );
        received.map_err(failed)?;
        let socket = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => fds.last(),
            _ => None,
        });
        let [step, errno @ ..] = answer;
        let steps = [
            Step::Start,
            Step::Open,
            Step::Duplicate,
            Step::NoSocket,
            Step::Connect,
        ];
        let step = steps.get(usize::from(step)).copied();
        let errno = i32::from_ne_bytes(errno).max(1);
        let errno = Errno::from_raw_os_error(errno);
        socket.ok_or((step.unwrap_or(Step::Start), errno))
    }
}

pub(crate) fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    let kind = SocketType::SEQPACKET;
    socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
}

/// Waits until there is something to read or the other end is closed; false at the deadline.
pub(crate) fn is_ready(from: &impl AsFd, until: Instant) -> Result<bool, Errno> {
    let mut ready = [PollFd::new(from, PollFlags::IN)];
    loop {
        let rest = until.saturating_duration_since(Instant::now());
        match poll(&mut ready, Timespec::try_from(rest).ok().as_ref()) {
            Err(Errno::INTR) => {}
            polled => return polled.map(|count| count > 0),
        }
    }
}

fn serve(shown: &Shown, to: &OwnedFd) -> ! {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let _ = rustix::process::setpgid(None, None);
    let taken = match &shown.at {
        At::Number(number) => duplicated(shown.of, *number),
        At::Path(directory, name) => {
            connected(directory, name).map_err(|errno| (Step::Connect, errno))
        }
    };
    let (step, errno) = match &taken {
        Ok(fd) if is_unix_socket(fd.as_fd()) => (Step::Start, 0),
        Ok(_) => (Step::NoSocket, Errno::NOTSOCK.raw_os_error()),
        Err((step, errno)) => (*step, errno.raw_os_error()),
    };
    let mut answer = [step as u8; 5];
    answer[1..].copy_from_slice(&errno.to_ne_bytes());
    let fds = taken.as_ref().ok().map(|fd| [fd.as_fd()]);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if let Some(fds) = fds.as_ref().filter(|_| step == Step::Start) {
        control.push(SendAncillaryMessage::ScmRights(fds));
    }
    let _ = sendmsg(
        to,
        &[IoSlice::new(&answer)],
        &mut control,
        SendFlags::NOSIGNAL,
    );
    // Descriptors whose closing others wait for are closed first: locks, pipes.
    let kept = taken
        .as_ref()
        .map_or(u32::MAX, |fd| fd.as_raw_fd().cast_unsigned());
    for (from, to) in [
        (0, kept.saturating_sub(1)),
        (kept.saturating_add(1), u32::MAX),
    ] {
        // SAFETY: it closes this process's copies of descriptors, and uses none of them afterwards.
        unsafe { libc::syscall(libc::SYS_close_range, from, to, 0_u32) };
    }
    // SAFETY: it ends this process, with no exit handlers, which are its parent's.
    unsafe { libc::_exit(0) }
}

fn connected(directory: &CString, name: &SocketAddrUnix) -> Result<OwnedFd, Errno> {
    chdir(directory)?;
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    connect(&socket, name)?;
    Ok(socket)
}

fn duplicated(process: Pid, number: i32) -> Result<OwnedFd, Failed> {
    let process = pidfd_open(process, PidfdFlags::empty());
    let process = process.map_err(|errno| (Step::Open, errno))?;
    let taken = pidfd_getfd(&process, number, PidfdGetfdFlags::empty());
    taken.map_err(|errno| (Step::Duplicate, errno))
}

/// By its name first, since nothing may be asked of another file.
fn is_unix_socket(fd: BorrowedFd<'_>) -> bool {
    let own = open(c"/proc/self/fd", OFlags::PATH, Mode::empty());
    let mut name = [0; 8];
    let read = own.and_then(|own| readlinkat_raw(own, DecInt::from_fd(fd), &mut name));
    read.is_ok() && &name == b"socket:[" && socket_domain(fd) == Ok(AddressFamily::UNIX)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn those_that_do_not_answer_take_two_seconds_and_a_twentieth_of_the_time() {
        let began = Instant::now();
        let (mut now, mut left) = (began, None);
        for _ in 0..100 {
            let wait = Wait::after(left, now);
            left = Some(wait.end(wait.until));
            now = wait.until + Duration::from_secs(1);
        }
        let waited = (now - began).saturating_sub(100 * Duration::from_secs(1));
        let most = PATIENCE + 100 * (QUICK + Duration::from_secs(1) / REGAINED);
        assert!(waited > PATIENCE && waited <= most, "{waited:?}");
        let rested = Wait::after(left, now + PATIENCE * REGAINED);
        assert_eq!(rested.until - rested.began.at, PATIENCE);
    }
}
