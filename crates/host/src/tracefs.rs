//! Where the kernel describes its tracepoints: the tracefs file system.
//!
//! Finds it where it is mounted, mounts it where it is not and we may, and reads events' `format`
//! files. It turns nothing on: who listens to an event does that elsewhere ([`crate::perf`]).

use std::path::Path;

use haltwise_core::recording::Missing;
use rustix::mount::{MountFlags, mount};

use crate::collector::CollectError;
use crate::root::{Root, RootError};

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

    pub(crate) fn format_of(&self, system: &str, name: &str) -> Result<String, RootError> {
        let path = format!("{}/events/{system}/{name}/format", self.at);
        self.root.text(path)
    }

    /// Reads where the fields of an event are; `None` where this kernel does not have it, or its module is not loaded.
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

/// An event's `format` file. Safe on any text: what cannot be understood is an error or a field left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFormat {
    pub name: String,
    /// Its number: `common_type` of its records, and what perf is asked for.
    pub id: u64,
    fields: Vec<Field>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    pub offset: usize,
    pub size: usize,
    pub signed: bool,
}

impl EventFormat {
    pub fn parse(text: &str) -> Result<Self, String> {
        let after = |prefix: &str| {
            let mut lines = text.lines();
            lines.find_map(|line| Some(line.strip_prefix(prefix)?.trim()))
        };
        let no_line = |prefix| format!("no line `{prefix}`");
        let name = after("name:").ok_or_else(|| no_line("name:"))?;
        let id = after("ID:").and_then(|id| id.parse().ok());
        let id = id.ok_or_else(|| no_line("ID:"))?;
        let mut fields = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let trimmed = line.trim();
            if trimmed.starts_with("print fmt:") {
                break;
            }
            if trimmed.starts_with("field:") {
                fields.push(Field::parse(trimmed).ok_or_else(|| {
                    let text: String = trimmed.chars().take(64).collect();
                    format!("line {}: `{text}` is no field", number + 1)
                })?);
            }
        }
        Ok(Self {
            name: name.to_owned(),
            id,
            fields,
        })
    }

    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// A field that holds one number, by its name.
    pub fn number(&self, name: &str) -> Result<Field, String> {
        self.field(name)
            .filter(|field| matches!(field.size, 1 | 2 | 4 | 8))
            .cloned()
            .ok_or_else(|| {
                let event = &self.name;
                format!("event {event} has no field `{name}` of 1, 2, 4 or 8 bytes")
            })
    }
}

impl Field {
    /// Reads `field:TYPE NAME;\toffset:N;\tsize:N;\tsigned:0;`, where NAME may end in `[N]`.
    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.split(';').map(str::trim);
        let declaration = parts.next()?.strip_prefix("field:")?;
        let (mut offset, mut size, mut signed) = (None, None, false);
        for part in parts {
            match part.split_once(':') {
                Some(("offset", n)) => offset = n.parse::<u16>().ok(),
                Some(("size", n)) => size = n.parse::<u16>().ok(),
                Some(("signed", n)) => signed = n == "1",
                _ => {}
            }
        }
        let declared = declaration.split('[').next()?.trim_end();
        let name = declared
            .rsplit(|c: char| c.is_whitespace() || c == '*')
            .next()?;
        (!name.is_empty()).then_some(Self {
            name: name.to_owned(),
            offset: usize::from(offset?),
            size: usize::from(size?),
            signed,
        })
    }

    /// The field's value in an event's bytes; `None` if they end before it.
    ///
    /// A negative number comes as its two's complement in 64 bits.
    pub fn read(&self, event: &[u8]) -> Option<u64> {
        let bytes = event.get(self.offset..self.offset.checked_add(self.size)?)?;
        let value = match *bytes {
            [a] => u64::from(a),
            [a, b] => u64::from(u16::from_ne_bytes([a, b])),
            [a, b, c, d] => u64::from(u32::from_ne_bytes([a, b, c, d])),
            _ => u64::from_ne_bytes(bytes.try_into().ok()?),
        };
        let unused = 64_u32.checked_sub(u32::try_from(self.size).ok()?.checked_mul(8)?)?;
        if self.signed && unused > 0 {
            let extended = (value << unused).cast_signed() >> unused;
            return Some(extended.cast_unsigned());
        }
        Some(value)
    }

    /// The low 32 bits of the field's value: thread numbers, vCPU numbers, windows.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the low half is what is asked for"
    )]
    pub fn read_u32(&self, event: &[u8]) -> Option<u32> {
        self.read(event).map(|value| value as u32)
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

    const SWITCH: &str = include_str!("../tests/fixtures/sched_switch.format");
    const WAKEUP: &str = include_str!("../tests/fixtures/kvm_vcpu_wakeup.format");

    #[test]
    fn fields_of_a_real_event() {
        let switch = EventFormat::parse(SWITCH).unwrap();
        assert_eq!((switch.name.as_str(), switch.id), ("sched_switch", 372));
        let state = switch.number("prev_state").unwrap();
        assert_eq!((state.offset, state.size, state.signed), (32, 8, true));
        assert_eq!(switch.field("prev_comm").unwrap().size, 16);
        assert!(switch.number("prev_comm").is_err());
        assert_eq!(
            switch.number("nothing").unwrap_err(),
            "event sched_switch has no field `nothing` of 1, 2, 4 or 8 bytes"
        );
        let wakeup = EventFormat::parse(WAKEUP).unwrap();
        let mut bytes = vec![0; 18];
        bytes[8..16].copy_from_slice(&31_000_u64.to_ne_bytes());
        bytes[16] = 1;
        assert_eq!(wakeup.number("ns").unwrap().read(&bytes), Some(31_000));
        assert_eq!(wakeup.number("waited").unwrap().read(&bytes), Some(1));
        assert_eq!(wakeup.number("valid").unwrap().read(&bytes), Some(0));
        assert_eq!(wakeup.number("valid").unwrap().read(&bytes[..17]), None);
    }

    #[test]
    fn signs_are_kept() {
        let field = |size, signed| Field {
            name: "f".into(),
            offset: 0,
            size,
            signed,
        };
        let bytes = [0xff; 8];
        assert_eq!(field(4, true).read(&bytes), Some(u64::MAX));
        assert_eq!(field(4, false).read(&bytes), Some(0xffff_ffff));
        assert_eq!(field(4, true).read_u32(&bytes), Some(u32::MAX));
        assert_eq!(field(8, true).read(&bytes), Some(u64::MAX));
        assert_eq!(field(3, false).read(&bytes), None);
        assert_eq!(field(0, false).read(&bytes), None);
    }

    #[test]
    fn what_is_no_format_is_refused() {
        for (text, error) in [
            ("", "no line `name:`"),
            ("name: x\nID: y", "no line `ID:`"),
            (
                "name: x\nID: 1\n\tfield:int a;\toffset:-1;\tsize:4;\n",
                "line 3: `field:int a;\toffset:-1;\tsize:4;` is no field",
            ),
        ] {
            assert_eq!(EventFormat::parse(text).unwrap_err(), error);
        }
    }
}
