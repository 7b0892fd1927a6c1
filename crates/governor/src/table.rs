//! The VMs of this process. Without locks: a thread that creates a VM never waits for a controller.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};

use crate::protocol::{MAX_VMS, Vm};
use crate::vm;

const FREE: i32 = -1;
const FOLLOWS: i64 = -1;

#[derive(Debug)]
struct Slot {
    fd: AtomicI32,
    ceiling_ns: AtomicI64,
}

#[derive(Debug)]
pub(crate) struct Vms([Slot; MAX_VMS]);

pub(crate) static VMS: Vms = Vms::new();

impl Vms {
    const fn new() -> Self {
        Self(
            [const {
                Slot {
                    fd: AtomicI32::new(FREE),
                    ceiling_ns: AtomicI64::new(FOLLOWS),
                }
            }; MAX_VMS],
        )
    }

    /// Takes a VM in, in the place of those whose fd is closed. A VMM that replaces its VM while it lives (a
    /// reset of a confidential guest) gets the ceiling of the old one for the new, without being asked.
    /// Gives whether there was room.
    pub(crate) fn announce(&self, fd: RawFd, first: Option<u32>) -> bool {
        let mut ceiling = first;
        for slot in &self.0 {
            let old = slot.fd.load(Ordering::Acquire);
            if old != FREE && (old == fd || !vm::has_ceiling(old)) {
                ceiling = ns(slot.ceiling_ns.swap(FOLLOWS, Ordering::AcqRel)).or(ceiling);
                slot.fd.store(FREE, Ordering::Release);
            }
        }
        let take = |slot: &&Slot| {
            let order = (Ordering::AcqRel, Ordering::Acquire);
            let taken = slot.fd.compare_exchange(FREE, fd, order.0, order.1);
            taken.is_ok()
        };
        let Some(slot) = self.0.iter().find(take) else {
            return false;
        };
        if let Some(ns) = ceiling.filter(|ns| vm::set_ceiling(fd, *ns).is_ok()) {
            slot.ceiling_ns.store(ns.into(), Ordering::Release);
        }
        true
    }

    /// Forgets all: in a child, they are not ours.
    pub(crate) fn forget(&self) {
        for slot in &self.0 {
            slot.fd.store(FREE, Ordering::Release);
            slot.ceiling_ns.store(FOLLOWS, Ordering::Release);
        }
    }

    pub(crate) fn list(&self) -> impl Iterator<Item = Vm> {
        let vm = |slot: &Slot| Vm {
            fd: slot.fd.load(Ordering::Acquire),
            ceiling_ns: ns(slot.ceiling_ns.load(Ordering::Acquire)),
        };
        let vms = self.0.iter().map(vm);
        vms.filter(|vm| vm.fd != FREE && vm::has_ceiling(vm.fd))
    }

    pub(crate) fn set_ceiling(&self, fd: RawFd, ns: u32) -> std::io::Result<()> {
        let slot = self.slot(fd).ok_or(std::io::ErrorKind::NotFound)?;
        vm::set_ceiling(fd, ns)?;
        slot.ceiling_ns.store(ns.into(), Ordering::Release);
        Ok(())
    }

    pub(crate) fn note(&self, fd: RawFd, ns: u32) {
        if let Some(slot) = self.slot(fd) {
            slot.ceiling_ns.store(ns.into(), Ordering::Release);
        }
    }

    fn slot(&self, fd: RawFd) -> Option<&Slot> {
        let mut slots = self.0.iter();
        slots.find(|slot| fd != FREE && slot.fd.load(Ordering::Acquire) == fd)
    }
}

fn ns(stored: i64) -> Option<u32> {
    u32::try_from(stored).ok()
}

#[cfg(test)]
mod test;
