//! A file's transfers through `io_uring`: many under way at once, and none that the caller waits for.
//!
//! Source: `io_uring(7)`, `io_uring_setup(2)`. A kernel, a sandbox or the sysctl `kernel.io_uring_disabled` may refuse a
//! ring; [`Ring::new`] says so.

#![expect(unsafe_code, reason = "io_uring's entries name buffers")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use io_uring::{IoUring, opcode, types};

use super::Transfer;

/// A ring on a file. It owns every transfer that is under way, and outlives it.
pub struct Ring {
    /// By the number that the kernel gives back.
    under_way: BTreeMap<u64, Transfer>,
    next: u64,
    most: usize,
    kernel: IoUring,
    file: File,
}

#[derive(Debug)]
pub struct Completed {
    pub number: u64,
    /// It, with the bytes that were read.
    pub transfer: Transfer,
    pub result: io::Result<()>,
}

impl Ring {
    /// For so many transfers at once; an error if this system allows no ring.
    pub fn new(file: File, most: u16) -> io::Result<Self> {
        Ok(Self {
            under_way: BTreeMap::new(),
            next: 0,
            most: most.into(),
            kernel: IoUring::new(most.into())?,
            file,
        })
    }

    pub fn has_room(&self) -> bool {
        self.under_way.len() < self.most
    }

    /// Begins a transfer, at the next [`Ring::submit`]; gives its number.
    pub fn begin(&mut self, transfer: Transfer) -> io::Result<u64> {
        if !self.has_room() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let length = u32::try_from(transfer.bytes.len()).map_err(io::Error::other)?;
        let number = self.next;
        self.next += 1;
        let transfer = self.under_way.entry(number).or_insert(transfer);
        let file = types::Fd(self.file.as_raw_fd());
        let entry = if transfer.is_write {
            let from = transfer.bytes.as_ptr();
            let write = opcode::Write::new(file, from, length);
            write.offset(transfer.at).build()
        } else {
            let to = transfer.bytes.as_mut_ptr();
            opcode::Read::new(file, to, length)
                .offset(transfer.at)
                .build()
        };
        let entry = entry.user_data(number);
        // SAFETY: the bytes are on the heap, in `under_way`, where no code touches them until the kernel has said
        // that it is done, nor drops them, nor the file: see `drop`.
        let pushed = unsafe { self.kernel.submission().push(&entry) };
        if pushed.is_err() {
            self.under_way.remove(&number);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(number)
    }

    /// Hands the kernel all that was begun.
    pub fn submit(&mut self) -> io::Result<()> {
        match self.kernel.submit() {
            // It takes them with the next ones.
            Err(error) if is_for_now(&error) => Ok(()),
            submitted => submitted.map(|_| ()),
        }
    }

    /// A transfer that is over, if there is one.
    pub fn completed(&mut self) -> Option<Completed> {
        let over = self.kernel.completion().next()?;
        let number = over.user_data();
        let mut transfer = self.under_way.remove(&number)?;
        let result = match usize::try_from(over.result()) {
            Ok(done) if done >= transfer.bytes.len() => Ok(()),
            // The rest of a short transfer is done here: short transfers are rare, and show the ends of files.
            Ok(done) => transfer.run(&self.file, done),
            Err(_) => Err(io::Error::from_raw_os_error(-over.result())),
        };
        Some(Completed {
            number,
            transfer,
            result,
        })
    }
}

/// Readable once a transfer is over.
impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring's descriptor is open as long as self, which the result borrows.
        unsafe { BorrowedFd::borrow_raw(self.kernel.as_raw_fd()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        while !self.under_way.is_empty() {
            while self.completed().is_some() {}
            if self.under_way.is_empty() {
                break;
            }
            if let Err(error) = self.kernel.submit_and_wait(1)
                && !is_for_now(&error)
            {
                // The time at which the kernel is done with them is not known.
                std::mem::forget(std::mem::take(&mut self.under_way));
            }
        }
    }
}

/// Whether the kernel may take it the next time.
fn is_for_now(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, ResourceBusy, WouldBlock};
    matches!(error.kind(), Interrupted | ResourceBusy | WouldBlock)
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use haltwise_core::units::Nanos;
    use haltwise_lab::clock;

    fn ring(most: u16) -> Option<(Ring, File)> {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let same = file.try_clone().unwrap();
        // This system may allow none.
        Some((Ring::new(file, most).ok()?, same))
    }

    fn transfer(is_write: bool, at: u64, bytes: Vec<u8>) -> Transfer {
        Transfer {
            is_write,
            at,
            bytes,
        }
    }

    fn next(ring: &mut Ring) -> Completed {
        loop {
            if let Some(over) = ring.completed() {
                return over;
            }
            clock::wait_readable(ring, Some(Nanos(1_000_000_000))).unwrap();
        }
    }

    #[test]
    fn what_is_written_is_read_back_whatever_comes_first() {
        let Some((mut ring, _)) = ring(4) else { return };
        let writes = [0_u8, 1, 2, 3].map(|place| {
            let bytes = vec![place + 1; 512];
            let write = transfer(true, u64::from(place) * 512, bytes);
            ring.begin(write).unwrap()
        });
        assert!(!ring.has_room());
        assert!(ring.begin(transfer(false, 0, vec![0])).is_err());
        ring.submit().unwrap();
        let mut over = writes.map(|_| next(&mut ring).number);
        over.sort_unstable();
        assert_eq!(over, writes);
        ring.begin(transfer(false, 256, vec![0; 512])).unwrap();
        ring.submit().unwrap();
        let read = next(&mut ring);
        assert!(read.result.is_ok());
        assert_eq!(read.transfer.bytes[..256], [1; 256]);
        assert_eq!(read.transfer.bytes[256..], [2; 256]);
    }

    #[test]
    fn a_read_over_the_end_is_an_error_of_its_own() {
        let Some((mut ring, _)) = ring(2) else { return };
        for (at, length, whole) in [(7680, 512, true), (7681, 512, false), (9000, 1, false)] {
            ring.begin(transfer(false, at, vec![0; length])).unwrap();
            ring.submit().unwrap();
            assert_eq!(next(&mut ring).result.is_ok(), whole, "{at}");
        }
    }

    #[test]
    fn a_ring_that_is_dropped_waits_for_what_is_under_way() {
        let Some((mut ring, same)) = ring(8) else {
            return;
        };
        for place in 0..8_u64 {
            ring.begin(transfer(true, place * 1024, vec![7; 1024]))
                .unwrap();
        }
        drop(ring);
        let mut bytes = vec![0; 8192];
        std::os::unix::fs::FileExt::read_exact_at(&same, &mut bytes, 0).unwrap();
        assert_eq!(bytes, vec![7; 8192]);
    }
}
