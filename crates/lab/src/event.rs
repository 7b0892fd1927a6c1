//! Files that `poll` takes: an eventfd that KVM takes too (vmm-sys-util's, with `AsFd`), and signals.

#![expect(unsafe_code, reason = "an fd of a type without AsFd")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use vmm_sys_util::eventfd::{EFD_CLOEXEC, EFD_NONBLOCK, EventFd};

/// A counter in the kernel that can be added to, and taken down to zero.
#[derive(Debug)]
pub struct Event(EventFd);

impl Event {
    /// One at zero, never blocking.
    pub fn new() -> io::Result<Self> {
        EventFd::new(EFD_NONBLOCK | EFD_CLOEXEC).map(Self)
    }

    pub fn signal(&self) -> io::Result<()> {
        self.0.write(1)
    }

    /// Takes what has been added since, 0 if nothing.
    pub fn take(&self) -> io::Result<u64> {
        match self.0.read() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            other => other,
        }
    }

    pub fn fd(&self) -> &EventFd {
        &self.0
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as self, which the result borrows.
        unsafe { BorrowedFd::borrow_raw(self.0.as_raw_fd()) }
    }
}

/// Something that happens once: seen without a system call, and waited for in `poll`.
#[derive(Debug)]
pub struct Flag {
    raised: AtomicBool,
    event: Event,
}

impl Flag {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            raised: AtomicBool::new(false),
            event: Event::new()?,
        })
    }

    pub fn raise(&self) -> io::Result<()> {
        self.raised.store(true, Ordering::Release);
        self.event.signal()
    }

    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Acquire)
    }
}

impl AsFd for Flag {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// Readable once SIGINT or SIGTERM has come. They no longer end the process by themselves.
#[derive(Debug)]
pub struct Interrupt(UnixStream);

impl Interrupt {
    pub fn new() -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM] {
            signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
        }
        Ok(Self(reader))
    }
}

impl AsFd for Interrupt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
