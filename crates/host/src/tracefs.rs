//! Where the kernel describes its tracepoints: the tracefs file system.
//!
//! Finds it where it is mounted, mounts it where it is not and we may, and reads events' `format`
//! files. It turns nothing on: who listens to an event does that elsewhere ([`crate::perf`]).

mod format;

use std::path::PathBuf;

use rustix::mount::{MountFlags, mount};

use crate::root::{Root, RootError};

pub use self::format::{EventFormat, Field, FormatError};

/// Where tracefs is looked for, in this order.
const PLACES: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

#[derive(Debug, Clone)]
pub struct Tracefs {
    root: Root,
    at: &'static str,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TracefsError {
    /// This kernel has none.
    #[error("find tracefs: not offered by this kernel")]
    Unsupported,
    /// It is there, or could be mounted, but not by us.
    #[error("{what} {}: not permitted (needs {need})", path.display())]
    Denied {
        what: &'static str,
        path: PathBuf,
        need: &'static str,
    },
    #[error("mount tracefs at {}", path.display())]
    Mount {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// This kernel does not have that event, or the module that has it is not loaded.
    #[error("find tracepoint {event}: not offered by this kernel")]
    NoEvent {
        /// The event as `system:name`.
        event: String,
    },
    /// A file could not be read.
    #[error(transparent)]
    Read(#[from] RootError),
    /// A format file does not say what it should.
    #[error("read format of {event}")]
    Format {
        /// The event as `system:name`.
        event: String,
        #[source]
        source: FormatError,
    },
}

/// Where tracefs stands on this host, without changing anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Mounted(&'static str),
    Closed(&'static str),
    /// Not mounted; the kernel has it.
    Mountable,
    Unsupported,
}

/// Looks where tracefs stands.
pub fn standing(root: &Root) -> Standing {
    let mut closed = None;
    for place in PLACES {
        match root.list(format!("{place}/events")) {
            Ok(_) => return Standing::Mounted(place),
            Err(error) if error.is_denied() => closed = closed.or(Some(place)),
            Err(_) => {}
        }
    }
    if let Some(place) = closed {
        return Standing::Closed(place);
    }
    let known = root.text("proc/filesystems").is_ok_and(|text| {
        text.lines()
            .any(|line| line.split_ascii_whitespace().last() == Some("tracefs"))
    });
    if known {
        Standing::Mountable
    } else {
        Standing::Unsupported
    }
}

impl Tracefs {
    /// Finds tracefs, and mounts it if it is not mounted.
    pub fn find(root: &Root) -> Result<Self, TracefsError> {
        let tracefs = |at| Self {
            root: root.clone(),
            at,
        };
        match standing(root) {
            Standing::Mounted(at) => Ok(tracefs(at)),
            Standing::Closed(at) => Err(TracefsError::Denied {
                what: "read",
                path: root.path(at),
                need: "root, or a mount of tracefs that we may read",
            }),
            Standing::Mountable if root.is_host() => {
                mount_at(root.path(PLACES[0]))?;
                Ok(tracefs(PLACES[0]))
            }
            Standing::Mountable | Standing::Unsupported => Err(TracefsError::Unsupported),
        }
    }

    /// The format file of an event, as it is; `None` where it cannot be read.
    pub fn format_text(&self, system: &str, name: &str) -> Option<String> {
        let path = format!("{}/events/{system}/{name}/format", self.at);
        self.root.text(path).ok()
    }

    /// Reads where the fields of an event are.
    pub fn event(&self, system: &str, name: &str) -> Result<EventFormat, TracefsError> {
        let event = || format!("{system}:{name}");
        let path = format!("{}/events/{system}/{name}/format", self.at);
        match self.root.text(&path) {
            Ok(text) => EventFormat::parse(&text).map_err(|source| TracefsError::Format {
                event: event(),
                source,
            }),
            Err(error) if error.is_absent() => Err(TracefsError::NoEvent { event: event() }),
            Err(error) => Err(error.into()),
        }
    }
}

fn mount_at(path: PathBuf) -> Result<(), TracefsError> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    match mount("tracefs", &path, "tracefs", flags, None) {
        // Another process, or another thread of ours, has mounted it since we looked.
        Ok(()) | Err(rustix::io::Errno::BUSY) => Ok(()),
        Err(rustix::io::Errno::PERM | rustix::io::Errno::ACCESS) => Err(TracefsError::Denied {
            what: "mount tracefs at",
            path,
            need: "CAP_SYS_ADMIN",
        }),
        Err(errno) => Err(TracefsError::Mount {
            path,
            source: errno.into(),
        }),
    }
}

#[cfg(test)]
mod test {
    use std::fs;

    use super::*;

    #[test]
    fn every_standing_is_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        assert_eq!(standing(&root), Standing::Unsupported);
        assert!(matches!(
            Tracefs::find(&root),
            Err(TracefsError::Unsupported)
        ));
        fs::create_dir(dir.path().join("proc")).unwrap();
        fs::write(
            dir.path().join("proc/filesystems"),
            "nodev\ttracefs\n\text4\n",
        )
        .unwrap();
        assert_eq!(standing(&root), Standing::Mountable);
        let events = dir.path().join("sys/kernel/debug/tracing/events");
        fs::create_dir_all(events.join("kvm/kvm_vcpu_wakeup")).unwrap();
        assert_eq!(
            standing(&root),
            Standing::Mounted("sys/kernel/debug/tracing")
        );
        let tracefs = Tracefs::find(&root).unwrap();
        let told = |name| tracefs.event("kvm", name).unwrap_err().to_string();
        assert_eq!(
            told("kvm_vcpu_wakeup"),
            "find tracepoint kvm:kvm_vcpu_wakeup: not offered by this kernel"
        );
        fs::write(events.join("kvm/kvm_vcpu_wakeup/format"), "nonsense").unwrap();
        assert_eq!(
            told("kvm_vcpu_wakeup"),
            "read format of kvm:kvm_vcpu_wakeup"
        );
    }
}
