//! Where the kernel describes its tracepoints: the tracefs file system.
//!
//! Finds it where it is mounted, mounts it where it is not and we may, and reads events' `format`
//! files. It turns nothing on: who listens to an event does that elsewhere ([`crate::perf`]).

mod format;

use std::path::Path;

use haltwise_core::recording::Missing;
use rustix::mount::{MountFlags, mount};

use crate::collector::CollectError;
use crate::root::{Root, RootError};

pub use self::format::{EventFormat, Field, FormatError};

/// Where tracefs is looked for, in this order.
const PLACES: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

#[derive(Debug, Clone)]
pub struct Tracefs {
    root: Root,
    at: &'static str,
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

/// The limit of latencies that `kvm_vcpu_wakeup` reports, with the first patch of `contrib/kernel`.
pub(crate) fn latency_of_kvm(wakeup: &EventFormat) -> Option<Missing> {
    let why = "latencies are KVM's own (latency_ns of kvm_vcpu_wakeup), which has none where a signal ended a sleep";
    let missing = |_| Missing::new("wake_latency_ns of signals", why);
    wakeup.number("latency_ns").ok().map(missing)
}

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
    pub fn find(root: &Root) -> Result<Self, CollectError> {
        let tracefs = |at| Self {
            root: root.clone(),
            at,
        };
        match standing(root) {
            Standing::Mounted(at) => Ok(tracefs(at)),
            Standing::Closed(_) => Err(CollectError::Denied {
                what: "read tracefs".to_owned(),
                need: "root, or a mount of tracefs that we may read",
            }),
            Standing::Mountable if root.is_host() => {
                mount_at(&root.path(PLACES[0]))?;
                Ok(tracefs(PLACES[0]))
            }
            Standing::Mountable | Standing::Unsupported => {
                Err(CollectError::unsupported("find tracefs"))
            }
        }
    }

    /// The format file of an event, as it is.
    pub(crate) fn format_of(&self, system: &str, name: &str) -> Result<String, RootError> {
        let path = format!("{}/events/{system}/{name}/format", self.at);
        self.root.text(path)
    }

    /// Reads where the fields of an event are; `None` where this kernel does not have it, or the module that has it is
    /// not loaded.
    pub fn event(&self, system: &str, name: &str) -> Result<Option<EventFormat>, CollectError> {
        let text = match self.format_of(system, name) {
            Ok(text) => text,
            Err(error) if error.is_absent() => return Ok(None),
            Err(error) => return Err(CollectError::unread(error)),
        };
        let format = EventFormat::parse(&text).map_err(|error| {
            CollectError::unsupported(format!("read format of {system}:{name}: {error}"))
        });
        format.map(Some)
    }

    /// The same of an event without which nothing can be recorded.
    pub fn needed(&self, system: &str, name: &str) -> Result<EventFormat, CollectError> {
        let absent = || CollectError::unsupported(format!("find tracepoint {system}:{name}"));
        self.event(system, name)?.ok_or_else(absent)
    }
}

fn mount_at(path: &Path) -> Result<(), CollectError> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    match mount("tracefs", path, "tracefs", flags, None) {
        // Another process, or another thread of ours, has mounted it since we looked.
        Ok(()) | Err(rustix::io::Errno::BUSY) => Ok(()),
        Err(rustix::io::Errno::PERM | rustix::io::Errno::ACCESS) => Err(CollectError::Denied {
            what: "mount tracefs".to_owned(),
            need: "CAP_SYS_ADMIN",
        }),
        Err(errno) => {
            let what = format!("mount tracefs at {}", path.display());
            Err(CollectError::failed(what)(errno))
        }
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
            Err(CollectError::Unsupported { .. })
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
        let told = |name| tracefs.needed("kvm", name).unwrap_err().to_string();
        assert_eq!(
            told("kvm_vcpu_wakeup"),
            "find tracepoint kvm:kvm_vcpu_wakeup: not offered by this kernel"
        );
        fs::write(events.join("kvm/kvm_vcpu_wakeup/format"), "nonsense").unwrap();
        assert_eq!(
            told("kvm_vcpu_wakeup"),
            "read format of kvm:kvm_vcpu_wakeup: no line `name:`: not offered by this kernel"
        );
    }
}
