//! Children that ask VMMs: whatever a VMM hands over is touched by a process that nothing is lost with.
//!
//! The descriptor behind a number that a VMM shows may be any file, one of its own file system that never answers too:
//! to close it may take for ever, deaf to signals. So each VMM is asked by a child of its own, which writes the answer
//! into a pipe before it closes anything. All are waited for together; a child that hangs is left behind, and only so
//! many of them.

#![allow(
    unsafe_code,
    reason = "the child is forked, and does nothing but system calls"
)]

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use haltwise_governor::protocol::{REPLY_BYTES, Request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
    SocketType, recv, sendmsg, socketpair,
};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Signal, WaitOptions, kill_process, pidfd_getfd, pidfd_open,
    waitpid,
};

/// How long VMMs may take to answer, all together. One takes 4 to 11 us; one that is stopped never answers.
const PATIENCE: Duration = Duration::from_secs(2);

/// Children at the same time.
const AT_ONCE: usize = 64;

/// Children that are left behind.
const LEFT_MOST: usize = 16;

/// How long those that have answered may take to end.
const END: Duration = Duration::from_millis(100);

/// Children that had not ended when they were last looked at.
static LEFT: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Whom to ask what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question {
    pub(super) process: Pid,
    /// The number of its socket.
    pub(super) socket: i32,
    pub(super) request: Request,
}

/// What a child came to: the first byte of its answer, before an error number and the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Step {
    Answered,
    Open,
    Duplicate,
    NoSocket,
    Pair,
    Send,
    Take,
    /// The parent's own: no child could be started, or none answered.
    Start,
    Late,
    TooManyLeft,
}

const STEPS: [Step; 7] = [
    Step::Answered,
    Step::Open,
    Step::Duplicate,
    Step::NoSocket,
    Step::Pair,
    Step::Send,
    Step::Take,
];

/// Why there is no reply.
#[derive(Debug, Clone, Copy)]
pub(super) struct Failed {
    pub(super) step: Step,
    pub(super) errno: Errno,
}

impl Failed {
    /// No child was asked.
    pub(super) const NONE: Self = Self {
        step: Step::Start,
        errno: Errno::CHILD,
    };
}

/// The bytes of a reply; one more than it has, to see that there are more.
type Bytes = [u8; REPLY_BYTES + 1];

/// Asks all of them at once; gives what each replied, in their order.
pub(super) fn ask(questions: &[Question]) -> Vec<Result<Vec<u8>, Failed>> {
    let groups = questions.chunks(AT_ONCE);
    groups.flat_map(ask_group).collect()
}

fn ask_group(questions: &[Question]) -> Vec<Result<Vec<u8>, Failed>> {
    let children: Vec<Result<Child, Failed>> = questions.iter().map(Child::start).collect();
    let until = Instant::now() + PATIENCE;
    let answers = children.iter().map(|child| match child {
        Ok(child) => child.answer(until),
        Err(failed) => Err(*failed),
    });
    let answers = answers.collect();
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    for child in children.into_iter().flatten() {
        // One that has answered is about to end.
        if Instant::now() >= until {
            let _ = kill_process(child.process, Signal::KILL);
        }
        left.push(child.process);
    }
    drop(left);
    reap();
    answers
}

/// Waits a little for children that have ended; gives how many have not.
fn reap() -> usize {
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    let until = Instant::now() + END;
    loop {
        left.retain(|child| matches!(waitpid(Some(*child), WaitOptions::NOHANG), Ok(None)));
        if left.is_empty() || Instant::now() >= until {
            return left.len();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

struct Child {
    process: Pid,
    answers: OwnedFd,
}

impl Child {
    fn start(question: &Question) -> Result<Self, Failed> {
        let failed = |step| move |errno| Failed { step, errno };
        let is_full = LEFT.lock().unwrap_or_else(PoisonError::into_inner).len() >= LEFT_MOST;
        if is_full && reap() >= LEFT_MOST {
            return Err(failed(Step::TooManyLeft)(Errno::AGAIN));
        }
        let (answers, to) = pipe_with(PipeFlags::CLOEXEC).map_err(failed(Step::Start))?;
        // SAFETY: the child makes system calls on memory of its own, and ends by `_exit`: it takes no lock, allocates
        // nothing, and drops nothing of its parent's.
        match unsafe { libc::fork() } {
            0 => serve(question, &to),
            child => match Pid::from_raw(child) {
                Some(process) if child > 0 => Ok(Self { process, answers }),
                _ => Err(failed(Step::Start)(Errno::AGAIN)),
            },
        }
    }

    fn answer(&self, until: Instant) -> Result<Vec<u8>, Failed> {
        let failed = |step, errno| Failed { step, errno };
        let mut ready = [PollFd::new(&self.answers, PollFlags::IN)];
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            match poll(&mut ready, Timespec::try_from(rest).ok().as_ref()) {
                Ok(0) => return Err(failed(Step::Late, Errno::TIMEDOUT)),
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed(Step::Start, errno)),
            }
        }
        let mut bytes = [0; 5 + REPLY_BYTES + 1];
        let read = rustix::io::read(&self.answers, &mut bytes);
        let read = read.map_err(|errno| failed(Step::Start, errno))?;
        let Some((head, reply)) = bytes[..read].split_first_chunk::<5>() else {
            return Err(failed(Step::Late, Errno::PIPE));
        };
        let errno = i32::from_ne_bytes([head[1], head[2], head[3], head[4]]);
        match STEPS.get(usize::from(head[0])) {
            Some(Step::Answered) => Ok(reply.to_vec()),
            step => Err(failed(
                step.copied().unwrap_or(Step::Late),
                Errno::from_raw_os_error(errno),
            )),
        }
    }
}

/// The child: asks, answers into the pipe, and ends. Only the last may hang.
fn serve(question: &Question, to: &OwnedFd) -> ! {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let _ = rustix::process::setpgid(None, None);
    let mut reply: Bytes = [0; REPLY_BYTES + 1];
    let mut handed_over = None;
    let (head, length) = match asked(question, &mut handed_over, &mut reply) {
        Ok(length) => ((Step::Answered, 0), length),
        Err((step, errno)) => ((step, errno.raw_os_error()), 0),
    };
    let mut answer = [0; 5 + REPLY_BYTES + 1];
    answer[0] = head.0 as u8;
    answer[1..5].copy_from_slice(&head.1.to_ne_bytes());
    answer[5..5 + length].copy_from_slice(&reply[..length]);
    let _ = rustix::io::write(to, &answer[..5 + length]);
    // What others wait for the end of goes first: locks, pipes.
    close_all_but(
        handed_over
            .as_ref()
            .map_or(u32::MAX, |fd| fd.as_raw_fd().cast_unsigned()),
    );
    std::mem::forget(handed_over);
    // SAFETY: it ends this process, with no exit handlers, which are its parent's.
    unsafe { libc::_exit(0) }
}

fn close_all_but(kept: u32) {
    for (from, to) in [
        (0, kept.saturating_sub(1)),
        (kept.saturating_add(1), u32::MAX),
    ] {
        // SAFETY: what it closes are this process's own copies, which nobody uses any more.
        unsafe { libc::syscall(libc::SYS_close_range, from, to, 0_u32) };
    }
}

/// Asks; gives how many bytes came, and what the VMM handed over, which is closed when the process ends.
fn asked(
    question: &Question,
    handed_over: &mut Option<OwnedFd>,
    reply: &mut Bytes,
) -> Result<usize, (Step, Errno)> {
    let at = |step| move |errno| (step, errno);
    let process = pidfd_open(question.process, PidfdFlags::empty()).map_err(at(Step::Open))?;
    let socket = pidfd_getfd(&process, question.socket, PidfdGetfdFlags::empty());
    let socket = &*handed_over.insert(socket.map_err(at(Step::Duplicate))?);
    if !is_socket(socket.as_fd()) {
        return Err((Step::NoSocket, Errno::NOTSOCK));
    }
    let kind = SocketType::SEQPACKET;
    let pair = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
    let (ours, theirs) = pair.map_err(at(Step::Pair))?;
    let attached = [theirs.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&attached));
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let bytes = question.request.encode();
    sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, flags).map_err(at(Step::Send))?;
    // The only other end is the VMM's now: if it ends, so does the wait.
    drop(theirs);
    // No room for descriptors: the kernel drops what comes with a reply.
    let (taken, _) = recv(&ours, &mut reply[..], RecvFlags::empty()).map_err(at(Step::Take))?;
    Ok(taken)
}

/// Whether a descriptor is one, by its name alone: nothing is asked of the file.
fn is_socket(fd: BorrowedFd<'_>) -> bool {
    let mut path = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0";
    let (mut number, mut digits) = (fd.as_raw_fd().cast_unsigned(), [0; 10]);
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    let shown = &digits[first..];
    path[14..14 + shown.len()].copy_from_slice(shown);
    let Ok(path) = std::ffi::CStr::from_bytes_until_nul(&path) else {
        return false;
    };
    let mut name = [0; 8];
    let read = rustix::fs::readlinkat_raw(rustix::fs::CWD, path, &mut name);
    read.is_ok() && &name == b"socket:["
}
