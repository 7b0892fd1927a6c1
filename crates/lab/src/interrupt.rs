//! SIGINT and SIGTERM as a file that becomes readable.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use signal_hook::consts::{SIGINT, SIGTERM};

/// Readable once one of the signals has come. They no longer end the process by themselves.
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
