//! Where a recorder can write: its output, and nowhere else.
//!
//! The process gets mounts of its own, all of them read-only but those of its output. That holds for whatever it
//! opens by a name, `/proc` and `/sys` among it. Landlock would say the same, but forbids what a recorder is for:
//! a process bound by it may not look into processes that are not.
//!
//! The only file of the sandbox with unsafe code. JUSTIFICATION: no crate here has a call for `mount_setattr`.
#![expect(unsafe_code, reason = "a system call without a wrapper")]

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::mount::mount_bind;
use rustix::thread::UnshareFlags;

#[repr(C)]
#[derive(Debug, Default)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// `MOUNT_ATTR_RDONLY` of the same file.
const READ_ONLY: u64 = 1;
/// `MS_SLAVE`: what is mounted on the host later is seen, and what is mounted here is not seen there.
const SLAVE: u64 = 1 << 19;
const RECURSIVE: libc::c_uint = 0x8000;

/// Makes all mounts read-only for this process and its children to come, but for some directories.
pub(super) fn read_only_but(outputs: &[PathBuf]) -> io::Result<()> {
    let outputs = outermost(outputs)?;
    #[expect(
        deprecated,
        reason = "what is unsafe about it are tables of descriptors, which stay shared"
    )]
    rustix::thread::unshare(UnshareFlags::NEWNS)?;
    let slave = Attributes {
        propagation: SLAVE,
        ..Attributes::default()
    };
    let read_only = Attributes {
        set: READ_ONLY,
        ..Attributes::default()
    };
    let writable = Attributes {
        clear: READ_ONLY,
        ..Attributes::default()
    };
    // First of all: the next mount must not be one of the host's.
    set(Path::new("/"), RECURSIVE, &slave)?;
    for output in &outputs {
        mount_bind(output, output)?;
    }
    set(Path::new("/"), RECURSIVE, &read_only)?;
    for output in &outputs {
        set(output, 0, &writable)?;
    }
    // A name without a slash in front leads to where we were, below the mounts made here. Where that has no name any
    // more, nothing can be made there either.
    if let Ok(here) = std::env::current_dir() {
        std::env::set_current_dir(here)?;
    }
    Ok(())
}

/// Those of them that lie in no other: a mount of one would hide that of another inside it, which could then not be
/// made writable.
fn outermost(outputs: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    let there = outputs.iter().map(std::fs::canonicalize);
    let mut there: Vec<PathBuf> = there.collect::<Result<_, _>>()?;
    there.sort_unstable();
    let mut outermost: Vec<PathBuf> = Vec::new();
    for path in there {
        if !outermost.last().is_some_and(|last| path.starts_with(last)) {
            outermost.push(path);
        }
    }
    Ok(outermost)
}

fn set(path: &Path, flags: libc::c_uint, attributes: &Attributes) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the kernel reads the text up to its NUL and as many bytes of the attributes as is said; both outlive
    // the call, and it writes nothing.
    let failed = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            std::ptr::from_ref(attributes),
            size_of::<Attributes>(),
        )
    };
    if failed == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn an_output_within_another_is_none_of_its_own() {
        let here = tempfile::tempdir().unwrap();
        let here = std::fs::canonicalize(here.path()).unwrap();
        let of = |name: &str| {
            let path = here.join(name);
            std::fs::create_dir_all(&path).unwrap();
            path
        };
        let [outer, inner, other] = ["a", "a/b/c", "a-b"].map(of);
        std::os::unix::fs::symlink(&outer, here.join("link")).unwrap();
        let link = here.join("link");
        let all = [inner.clone(), link, other.clone(), outer.clone()];
        assert_eq!(outermost(&all).unwrap(), [outer, other.clone()]);
        assert_eq!(
            outermost(&[inner.clone(), other.clone()]).unwrap(),
            [inner, other]
        );
        outermost(&[here.join("none")]).unwrap_err();
    }
}
