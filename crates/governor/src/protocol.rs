//! Messages between a controller and a VMM: messages of fixed size over a `SOCK_SEQPACKET` socket
//! pair. All numbers are in the byte order of the machine.
//!
//! The controller finds the VMM's controlling end in `/proc/PID/fd`: beside it lies a memfd whose name is
//! [`memfd_name`], with its number. It sends a [`Request`] with one fd attached, a socket of its own on which
//! it takes the [`Reply`]; so that controllers cannot take each other's replies.

/// The version that both sides must have.
pub const VERSION: u16 = 1;
/// VMs of one process that are answered for.
pub const MAX_VMS: usize = 16;

const MAGIC: u32 = u32::from_le_bytes(*b"hwgv");
const PREFIX: &str = "haltwise-governor:";

/// The name of the memfd that tells where the controlling end is.
pub fn memfd_name(fd: i32) -> String {
    format!("{PREFIX}{VERSION}:{fd}")
}

pub fn read_memfd_name(name: &str) -> Option<(u16, i32)> {
    let (version, fd) = name.strip_prefix(PREFIX)?.split_once(':')?;
    Some((version.parse().ok()?, fd.parse().ok()?))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    List,
    /// Set the ceiling of the VM with this fd, in nanoseconds (`KVM_CAP_HALT_POLL`).
    SetCeiling {
        fd: i32,
        ns: u32,
    },
}

pub const REQUEST_BYTES: usize = 16;

impl Request {
    /// As bytes: magic, version, kind, fd, nanoseconds.
    pub fn encode(self) -> [u8; REQUEST_BYTES] {
        let (kind, fd, ns) = match self {
            Self::List => (1, -1, 0),
            Self::SetCeiling { fd, ns } => (2, fd, ns),
        };
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..8].copy_from_slice(&header(kind));
        bytes[8..12].copy_from_slice(&fd.to_ne_bytes());
        bytes[12..].copy_from_slice(&ns.to_ne_bytes());
        bytes
    }

    /// From bytes of any origin.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; REQUEST_BYTES] = bytes.try_into().ok()?;
        let fd = i32::from_ne_bytes(bytes[8..12].try_into().ok()?);
        let ns = u32::from_ne_bytes(bytes[12..].try_into().ok()?);
        match kind(bytes)? {
            1 => Some(Self::List),
            2 => Some(Self::SetCeiling { fd, ns }),
            _ => None,
        }
    }
}

/// A VM, as the VMM knows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Vm {
    pub fd: i32,
    /// The ceiling that was set, in nanoseconds; `None` if it follows `halt_poll_ns`.
    pub ceiling_ns: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// 0, or why it failed (`errno`).
    pub errno: i32,
    count: usize,
    vms: [Vm; MAX_VMS],
}

pub const REPLY_BYTES: usize = 16 + 12 * MAX_VMS;

impl Reply {
    pub fn of(errno: i32) -> Self {
        Self {
            errno,
            count: 0,
            vms: [Vm::default(); MAX_VMS],
        }
    }

    /// The VMs that there are. More than [`MAX_VMS`] are left out.
    pub fn list(vms: impl IntoIterator<Item = Vm>) -> Self {
        let mut reply = Self::of(0);
        for (place, vm) in reply.vms.iter_mut().zip(vms) {
            *place = vm;
            reply.count += 1;
        }
        reply
    }

    pub fn vms(&self) -> &[Vm] {
        &self.vms[..self.count]
    }

    /// As bytes: magic, version, 0, errno, number of VMs; for each fd, whether it has a ceiling, the ceiling.
    pub fn encode(&self) -> [u8; REPLY_BYTES] {
        let mut bytes = [0; REPLY_BYTES];
        bytes[..8].copy_from_slice(&header(0));
        bytes[8..12].copy_from_slice(&self.errno.to_ne_bytes());
        let count = u32::try_from(self.count).unwrap_or(0);
        bytes[12..16].copy_from_slice(&count.to_ne_bytes());
        for (place, vm) in bytes[16..].chunks_exact_mut(12).zip(self.vms()) {
            place[..4].copy_from_slice(&vm.fd.to_ne_bytes());
            place[4..8].copy_from_slice(&u32::from(vm.ceiling_ns.is_some()).to_ne_bytes());
            place[8..].copy_from_slice(&vm.ceiling_ns.unwrap_or(0).to_ne_bytes());
        }
        bytes
    }

    /// From bytes of any origin.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; REPLY_BYTES] = bytes.try_into().ok()?;
        if kind(bytes)? != 0 {
            return None;
        }
        let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let count = usize::try_from(word(12)?).ok()?;
        if count > MAX_VMS {
            return None;
        }
        let mut reply = Self::of(word(8)?.cast_signed());
        for index in 0..count {
            let at = 16 + 12 * index;
            let ceiling_ns = match word(at + 4)? {
                0 => None,
                1 => Some(word(at + 8)?),
                _ => return None,
            };
            let fd = word(at)?.cast_signed();
            reply.vms[index] = Vm { fd, ceiling_ns };
        }
        reply.count = count;
        Some(reply)
    }
}

fn header(kind: u16) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&MAGIC.to_ne_bytes());
    bytes[4..6].copy_from_slice(&VERSION.to_ne_bytes());
    bytes[6..].copy_from_slice(&kind.to_ne_bytes());
    bytes
}

/// The kind of a message, if it is one of this version.
fn kind(bytes: &[u8]) -> Option<u16> {
    let half = |at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let magic = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?);
    (magic == MAGIC && half(4)? == VERSION).then_some(half(6)?)
}

#[cfg(test)]
mod test;
