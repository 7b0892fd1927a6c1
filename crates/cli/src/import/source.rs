//! Where the text comes from. Reading waits in short steps, so that a signal ends it even while
//! nothing comes.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd as _;
use std::path::Path;

use haltwise_capture::files;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::collect::interrupt::Interrupt;

const WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

#[derive(Debug)]
pub(super) struct Source<'a> {
    file: File,
    interrupt: &'a Interrupt,
}

impl<'a> Source<'a> {
    pub(super) fn open(path: &Path, interrupt: &'a Interrupt) -> io::Result<Self> {
        let file = if path == Path::new("-") {
            io::stdin().as_fd().try_clone_to_owned()?.into()
        } else {
            files::open_text(path)?
        };
        Ok(Self { file, interrupt })
    }

    pub(super) fn size(&self) -> Option<u64> {
        let metadata = self.file.metadata().ok()?;
        (metadata.is_file() && metadata.len() > 0).then_some(metadata.len())
    }
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.interrupt.came().is_some() {
                // Not `Interrupted`: the caller would read again.
                return Err(io::Error::other("interrupted"));
            }
            let mut fds = [PollFd::new(&self.file, PollFlags::IN)];
            match poll(&mut fds, Some(&WAIT)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => match self.file.read(buffer) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => return read,
                },
                Err(error) => return Err(error.into()),
            }
        }
    }
}
