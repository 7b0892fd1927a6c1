//! Writes of a driver: registers until a device is ready, and chains into its queues.

use vm_memory::{Bytes as _, GuestAddress, GuestMemoryMmap};

use super::super::{Transport, register, status};

/// Address, length, flags.
pub(in crate::device) type Part = (u64, u32, u16);
pub(in crate::device) const NEXT: u16 = 1;
pub(in crate::device) const WRITES: u16 = 2;
pub(in crate::device) const ENTRIES: u16 = 16;

pub(in crate::device) fn set(transport: &mut Transport, writes: &[(u32, u32)]) {
    for (register, value) in writes {
        let notified = transport.write((*register).into(), &value.to_le_bytes());
        assert_eq!(notified, None, "{register:#x}");
    }
}

/// Negotiates version 1 and these of the lower features.
pub(in crate::device) fn negotiate(transport: &mut Transport, lower: u64) {
    let lower = u32::try_from(lower).unwrap();
    set(
        transport,
        &[
            (register::STATUS, 3),
            (register::DRIVER_FEATURES, lower),
            (register::DRIVER_FEATURES_SEL, 1),
            (register::DRIVER_FEATURES, 1),
            (register::STATUS, 3 | status::FEATURES_OK),
        ],
    );
}

pub(in crate::device) fn set_up(transport: &mut Transport, queue: u32, size: u16, at: u32) {
    set(
        transport,
        &[
            (register::QUEUE_SEL, queue),
            (register::QUEUE_NUM, size.into()),
            (register::QUEUE_DESC[0], at),
            (register::QUEUE_DRIVER[0], at + 0x100),
            (register::QUEUE_DEVICE[0], at + 0x200),
            (register::QUEUE_READY, 1),
        ],
    );
}

/// Makes a device ready with its queues where they are wanted.
pub(in crate::device) fn make_ready(transport: &mut Transport, lower: u64, queues: &[u32]) {
    negotiate(transport, lower);
    for (queue, at) in (0..).zip(queues) {
        set_up(transport, queue, ENTRIES, *at);
    }
    set(transport, &[(register::STATUS, status::READY)]);
    assert_eq!(transport.refused, 0);
}

/// Writes parts into a queue's table, the next of each as given, and offers the first of them.
pub(in crate::device) fn offer(memory: &GuestMemoryMmap<()>, at: u32, parts: &[(Part, u16)]) {
    let at = u64::from(at);
    for (slot, ((address, length, flags), next)) in (0_u64..).zip(parts) {
        let slot = at + 16 * slot;
        memory.write_obj(*address, GuestAddress(slot)).unwrap();
        let rest = u64::from(*length) | u64::from(*flags) << 32 | u64::from(*next) << 48;
        memory.write_obj(rest, GuestAddress(slot + 8)).unwrap();
    }
    let index = GuestAddress(at + 0x102);
    let offered: u16 = memory.read_obj(index).unwrap();
    let entry = at + 0x104 + u64::from(offered % ENTRIES) * 2;
    memory.write_obj(0_u16, GuestAddress(entry)).unwrap();
    memory.write_obj(offered.wrapping_add(1), index).unwrap();
}

/// Offers parts of which each is followed by the next.
pub(in crate::device) fn offer_chain(memory: &GuestMemoryMmap<()>, at: u32, parts: &[Part]) {
    let chain = (1..).zip(parts).map(|(next, (address, length, flags))| {
        let more = usize::from(next) < parts.len();
        ((*address, *length, flags | u16::from(more)), next)
    });
    offer(memory, at, &chain.collect::<Vec<_>>());
}
