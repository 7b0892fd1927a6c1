//! A file system of a tenant's, in which to close a file takes for ever, and to look for one called `never` (`linux/fuse.h`).

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// Mounted until it is dropped, which lets go of the processes that wait.
pub(super) struct Hanging {
    folder: tempfile::TempDir,
}

const LOOKUP: u32 = 1;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const FLUSH: u32 = 25;
const INIT: u32 = 26;

impl Hanging {
    /// `None` where this machine has no FUSE, or does not permit the mount.
    pub(super) fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let device = File::options().read(true).write(true).open("/dev/fuse");
        let device = device.ok()?;
        let number = device.as_raw_fd();
        let options = format!("fd={number},rootmode=40000,user_id=0,group_id=0,allow_other\0");
        let options = std::ffi::CStr::from_bytes_with_nul(options.as_bytes()).unwrap();
        let (path, none) = (folder.path(), MountFlags::empty());
        mount("hanging", path, "fuse", none, options).ok()?;
        std::thread::spawn(move || while serve(&device).is_ok() {});
        Some(Self { folder })
    }

    pub(super) fn file(&self) -> std::path::PathBuf {
        self.folder.path().join("file")
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        // As the tenant ends: the connection is aborted, and the processes that wait are let go.
        let flags = UnmountFlags::DETACH | UnmountFlags::FORCE;
        unmount(self.folder.path(), flags).unwrap();
    }
}

/// Answers one request; none that flushes a file.
fn serve(mut device: &File) -> std::io::Result<()> {
    let mut request = vec![0; 1 << 17];
    let _ = device.read(&mut request)?;
    let word = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().unwrap());
    let (opcode, unique) = (word(4), &request[8..16]);
    // Inode, size, blocks and three times of 64 bits; then of 32 bits, from the tenth on the mode.
    let attributes = |inode: u64, mode: u32| {
        let mut bytes = [0_u8; 88];
        bytes[..8].copy_from_slice(&inode.to_ne_bytes());
        bytes[60..64].copy_from_slice(&mode.to_ne_bytes());
        bytes[64..68].copy_from_slice(&1_u32.to_ne_bytes());
        bytes
    };
    let body = match opcode {
        FLUSH => return Ok(()),
        INIT => {
            let mut bytes = vec![0; 64];
            bytes[..8].copy_from_slice(&[7, 0, 0, 0, 31, 0, 0, 0]);
            bytes[20..24].copy_from_slice(&4_096_u32.to_ne_bytes());
            bytes
        }
        LOOKUP if request[40..].starts_with(b"never") => return Ok(()),
        LOOKUP => {
            let mut bytes = vec![0; 40];
            bytes[0] = 2;
            bytes.extend(attributes(2, 0o100_644));
            bytes
        }
        GETATTR => {
            let mut bytes = vec![0; 16];
            bytes.extend(match request[16] {
                1 => attributes(1, 0o40_755),
                _ => attributes(2, 0o100_644),
            });
            bytes
        }
        OPEN => vec![0; 16],
        _ => Vec::new(),
    };
    let errno = if body.is_empty() { -38_i32 } else { 0 };
    let length = i32::try_from(16 + body.len()).unwrap();
    let mut reply = [length, errno].map(i32::to_ne_bytes).concat();
    reply.extend(unique);
    reply.extend(body);
    // No process waits for some of the replies.
    let _ = device.write_all(&reply);
    Ok(())
}
