//! Frames at the edges of what is one, chains that are none, and the laws of both directions for any chains.

use proptest::prelude::*;
use vm_memory::{Bytes as _, GuestAddress};

use super::*;
use crate::device::virtio::register;
use crate::device::virtio::test::driver::{self, ENTRIES, NEXT, Part, WRITES, make_ready};
use haltwise_lab::memory::{GuestMemory, MEMORY_BYTES};

const AT: [u32; 2] = [0x1_0000, 0x1_1000];
const BUFFERS: u64 = 0x2_0000;

struct Nic {
    device: NetDevice,
    memory: GuestMemoryMmap<()>,
    other_end: Link,
}

fn ready() -> Nic {
    let memory = GuestMemory::new().unwrap().mapped().clone();
    let (link, other_end) = Link::pair().unwrap();
    let mut device = NetDevice::new(Arc::new(link), memory.clone()).unwrap();
    make_ready(&mut device.transport, 1 << 29, &AT);
    Nic {
        device,
        memory,
        other_end,
    }
}

impl Nic {
    fn offer(&self, queue: usize, parts: &[(Part, u16)]) {
        driver::offer(&self.memory, AT[queue], parts);
    }

    fn offer_chain(&self, queue: usize, parts: &[Part]) {
        driver::offer_chain(&self.memory, AT[queue], parts);
    }

    /// Buffers used so far, and the bytes that the last is said to hold.
    fn used(&self, queue: usize) -> (u16, u32) {
        let at = u64::from(AT[queue]) + 0x200;
        let used: u16 = self.memory.read_obj(GuestAddress(at + 2)).unwrap();
        let last = u64::from(used.wrapping_sub(1) % ENTRIES);
        let length = GuestAddress(at + 4 + 8 * last + 4);
        (used, self.memory.read_obj(length).unwrap())
    }

    fn arrived(&self) -> Option<Vec<u8>> {
        let mut frame = vec![0; 4096];
        let length = self.other_end.receive(&mut frame).unwrap()?;
        frame.truncate(length);
        Some(frame)
    }
}

/// Parts of these lengths and flags, one behind the other.
fn laid(parts: &[(u32, u16)]) -> Vec<Part> {
    let mut at = BUFFERS;
    let mut lay = |(length, flags): &(u32, u16)| {
        let part = (at, *length, *flags);
        at += u64::from(*length);
        part
    };
    parts.iter().map(&mut lay).collect()
}

/// Bytes that differ from their neighbours.
fn pattern(length: usize) -> Vec<u8> {
    (1..=251).cycle().take(length).collect()
}

#[test]
fn frames_at_the_edges_of_what_is_one() {
    for (parts, sent) in [
        (vec![(12, 0), (14, 0)], Some(14)),
        (vec![(26, 0)], Some(14)),
        (vec![(1526, 0)], Some(1514)),
        (vec![(5, 0), (7, 0), (1000, 0), (514, 0)], Some(1514)),
        (vec![(25, 0)], None),
        (vec![(1527, 0)], None),
        (vec![(12, 0)], None),
        (vec![(11, 0)], None),
        (vec![(12, 0), (u32::MAX, 0)], None),
        (vec![(12, 0), (64, WRITES)], None),
        (vec![(12, WRITES), (64, 0)], None),
        (vec![(76, WRITES)], None),
    ] {
        let mut nic = ready();
        let bytes = pattern(1600);
        let written = [&[0; 12], &bytes[12..]].concat();
        let at = GuestAddress(BUFFERS);
        nic.memory.write_slice(&written, at).unwrap();
        nic.offer_chain(TRANSMIT, &laid(&parts));
        let pass = nic.device.transmit();
        assert_eq!(pass.frames, 1, "{parts:?}");
        assert_eq!(nic.used(TRANSMIT), (1, 0), "{parts:?}");
        let expected = sent.map(|length| bytes[12..12 + length].to_vec());
        let counts = nic.device.transmitted;
        assert_eq!(counts.done, u64::from(expected.is_some()), "{parts:?}");
        assert_eq!(counts.refused, u64::from(expected.is_none()), "{parts:?}");
        assert_eq!(nic.arrived(), expected, "{parts:?}");
    }
}

#[test]
fn a_header_that_asks_for_offloads_is_refused() {
    for (at, refused) in [(0, 1), (1, 1), (2, 0), (10, 0)] {
        let mut nic = ready();
        let flag = GuestAddress(BUFFERS + at);
        nic.memory.write_obj(1_u8, flag).unwrap();
        nic.offer_chain(TRANSMIT, &[(BUFFERS, 100, 0)]);
        nic.device.transmit();
        assert_eq!(nic.device.transmitted.refused, refused, "byte {at}");
    }
}

#[test]
fn what_comes_from_the_link_needs_room_and_the_right_way() {
    for (length, parts, given) in [
        (60, vec![(72, WRITES)], true),
        (60, vec![(12, WRITES), (60, WRITES)], true),
        (60, vec![(71, WRITES)], false),
        (60, vec![(100, 0)], false),
        (60, vec![(36, 0), (100, WRITES)], false),
        (1514, vec![(1526, WRITES)], true),
        (1514, vec![(1525, WRITES)], false),
        (14, vec![(26, WRITES)], true),
    ] {
        let mut nic = ready();
        let frame = pattern(length);
        nic.other_end.send(&frame).unwrap();
        nic.offer_chain(RECEIVE, &laid(&parts));
        let pass = nic.device.receive();
        assert_eq!((pass.frames, pass.starved), (1, true), "{parts:?}");
        let counts = nic.device.received;
        assert_eq!((counts.done, counts.refused).0, u64::from(given));
        assert_eq!(counts.refused, u64::from(!given), "{parts:?}");
        let mut bytes = vec![0; 12 + length];
        nic.memory
            .read_slice(&mut bytes, GuestAddress(BUFFERS))
            .unwrap();
        let written = [&TO_GUEST[..], &frame].concat();
        let (expected, said) = if given {
            (written, 12 + u32::try_from(length).unwrap())
        } else {
            (vec![0; 12 + length], 0)
        };
        assert_eq!(bytes, expected, "{parts:?}");
        assert_eq!(nic.used(RECEIVE), (1, said), "{parts:?}");
    }
}

#[test]
fn what_is_no_frame_is_lost_and_takes_no_buffer() {
    let mut nic = ready();
    nic.offer_chain(RECEIVE, &[(BUFFERS, 2000, WRITES)]);
    for length in [0, 1, 13, 1515, 1516, 3000] {
        nic.other_end.send(&vec![1; length]).unwrap();
    }
    let pass = nic.device.receive();
    assert_eq!(
        (pass.frames, pass.interrupt, pass.starved),
        (6, false, false)
    );
    assert_eq!(nic.device.received.lost, 6);
    assert_eq!(nic.used(RECEIVE).0, 0);
    nic.other_end.send(&[1; 14]).unwrap();
    nic.device.receive();
    assert_eq!(nic.device.received.done, 1);
}

#[test]
fn what_finds_no_buffer_waits_and_a_lie_about_buffers_loses_it() {
    let mut nic = ready();
    nic.other_end.send(&[1; 60]).unwrap();
    let pass = nic.device.receive();
    assert_eq!((pass.frames, pass.starved), (0, true));
    assert!(!nic.device.arm(RECEIVE), "nothing new came");
    // More buffers than the queue has entries.
    let index = GuestAddress(u64::from(AT[RECEIVE]) + 0x102);
    nic.memory.write_obj(17_u16, index).unwrap();
    assert!(nic.device.arm(RECEIVE), "so it says");
    let pass = nic.device.receive();
    assert_eq!(
        (pass.frames, pass.interrupt, pass.starved),
        (1, false, false)
    );
    assert_eq!(nic.device.received.lost, 1);
    // The same of frames to send: there is nothing to do, whatever is claimed.
    let index = GuestAddress(u64::from(AT[TRANSMIT]) + 0x102);
    nic.memory.write_obj(17_u16, index).unwrap();
    assert_eq!(nic.device.transmit(), Pass::default());
    assert!(nic.device.arm(TRANSMIT));
}

#[test]
fn a_full_link_loses_frames_and_a_link_without_an_end_too() {
    let mut nic = ready();
    let mut sent = 0;
    while nic.device.transmitted.lost == 0 {
        nic.offer_chain(TRANSMIT, &[(BUFFERS, 100, 0)]);
        assert_eq!(nic.device.transmit().frames, 1);
        sent += 1;
        assert!(sent < 100_000, "a pair of sockets holds some frames");
    }
    let counts = nic.device.transmitted;
    assert_eq!((counts.done + 1, counts.lost), (sent, 1));
    drop(nic.other_end);
    let (device, memory) = (&mut nic.device, &nic.memory);
    let index = GuestAddress(u64::from(AT[TRANSMIT]) + 0x102);
    let offered: u16 = memory.read_obj(index).unwrap();
    memory.write_obj(offered.wrapping_add(1), index).unwrap();
    assert_eq!(device.serve().frames, 1);
    assert_eq!(device.transmitted.lost, 2);
}

#[test]
fn interrupts_and_notifications_are_as_each_side_asked() {
    let mut nic = ready();
    // The driver wants to hear of the third frame to it.
    let used_event = GuestAddress(u64::from(AT[RECEIVE]) + 0x104 + 2 * 16);
    nic.memory.write_obj(2_u16, used_event).unwrap();
    let interrupts = [1, 2, 3, 4].map(|_| {
        nic.other_end.send(&[1; 60]).unwrap();
        nic.offer_chain(RECEIVE, &[(BUFFERS, 100, WRITES)]);
        nic.device.receive().interrupt
    });
    assert_eq!(interrupts, [false, false, true, false]);
    let mut why = [0; 4];
    let status = u64::from(register::INTERRUPT_STATUS);
    nic.device.transport.read(status, &mut why);
    assert_eq!(why, [1, 0, 0, 0]);
    // The device asks to hear of the next from where it stands, not before it is armed.
    let avail_event = GuestAddress(u64::from(AT[TRANSMIT]) + 0x204 + 8 * 16);
    for frames in 1..4_u16 {
        nic.offer_chain(TRANSMIT, &[(BUFFERS, 100, 0)]);
        nic.device.transmit();
        let before: u16 = nic.memory.read_obj(avail_event).unwrap();
        assert_eq!(before, frames - 1);
        assert!(!nic.device.arm(TRANSMIT));
        let after: u16 = nic.memory.read_obj(avail_event).unwrap();
        assert_eq!(after, frames);
    }
}

#[test]
fn nothing_is_served_before_the_driver_is_ready() {
    let mut nic = ready();
    let reset = u64::from(register::STATUS);
    nic.device.transport.write(reset, &[0; 4]);
    nic.other_end.send(&[1; 60]).unwrap();
    let pass = nic.device.serve();
    assert_eq!(
        (pass.frames, pass.interrupt, pass.starved),
        (0, false, true)
    );
    assert!(!nic.device.arm(TRANSMIT) && !nic.device.arm(RECEIVE));
}

/// Parts of chains, most of them possible, some not.
fn part() -> impl Strategy<Value = (Part, u16)> {
    let address = prop_oneof![
        8 => BUFFERS..BUFFERS + 0x1000,
        1 => MEMORY_BYTES as u64 - 200..MEMORY_BYTES as u64 + 10,
        1 => u64::MAX - 200..=u64::MAX,
    ];
    let length = prop_oneof![
        6 => 1_u32..60,
        2 => Just(12_u32),
        3 => 1490_u32..1540,
        1 => any::<u32>().prop_filter("more than nothing", |length| *length > 0)
    ];
    let next = prop_oneof![6 => 0_u16..5, 1 => 5_u16..20, 1 => any::<u16>()];
    (address, length, 0_u16..4, next)
        .prop_map(|(address, length, flags, next)| ((address, length, flags), next))
}

/// The parts of the chain from the first of a table on, if it comes to an end, goes one way, and lies in memory.
fn walk(parts: &[(Part, u16)], device_writes: bool) -> Option<Vec<(u64, u32)>> {
    let (mut chain, mut at) = (Vec::new(), 0_usize);
    // Entries that the table does not set are all zero: a part without bytes, without a next one.
    while chain.len() < usize::from(ENTRIES) && at < usize::from(ENTRIES) {
        let ((address, length, flags), next) = parts.get(at).copied().unwrap_or_default();
        let inside = address
            .checked_add(length.into())
            .is_some_and(|end| end <= MEMORY_BYTES as u64);
        if (flags & WRITES != 0) != device_writes || !inside {
            return None;
        }
        chain.push((address, length));
        if flags & NEXT == 0 {
            return Some(chain);
        }
        at = next.into();
    }
    None
}

proptest! {
    #[test]
    fn a_frame_is_sent_if_and_only_if_its_chain_is_one(parts in prop::collection::vec(part(), 1..6)) {
        let mut nic = ready();
        let zeroes = vec![0; 0x2000];
        nic.memory.write_slice(&zeroes, GuestAddress(BUFFERS)).unwrap();
        nic.offer(TRANSMIT, &parts);
        let length = walk(&parts, false).map(|chain| {
            chain.iter().map(|(_, length)| u64::from(*length)).sum::<u64>()
        });
        let frame = length.filter(|length| (12 + 14..=12 + 1514).contains(length));
        let pass = nic.device.transmit();
        prop_assert_eq!(pass.frames, 1);
        let arrived = nic.arrived().map(|frame| frame.len() as u64 + 12);
        prop_assert_eq!(arrived, frame);
        let Frames { done, refused, lost } = nic.device.transmitted;
        let is_one = u64::from(frame.is_some());
        prop_assert_eq!((done, refused, lost), (is_one, 1 - is_one, 0));
        prop_assert_eq!(nic.used(TRANSMIT), (1, 0));
    }

    #[test]
    fn a_frame_from_the_link_changes_no_byte_but_those_of_its_chain(
        parts in prop::collection::vec(part(), 1..6),
        length in 14_usize..1515,
    ) {
        let mut nic = ready();
        nic.offer(RECEIVE, &parts);
        nic.other_end.send(&pattern(length)).unwrap();
        let mut before = vec![0; MEMORY_BYTES];
        nic.memory.read_slice(&mut before, GuestAddress(0)).unwrap();
        let pass = nic.device.receive();
        prop_assert_eq!(pass.frames, 1);
        let mut after = vec![0; MEMORY_BYTES];
        nic.memory.read_slice(&mut after, GuestAddress(0)).unwrap();
        let room = walk(&parts, true).filter(|chain| {
            chain.iter().map(|(_, length)| u64::from(*length)).sum::<u64>() >= 12 + length as u64
        });
        let given = u64::from(room.is_some());
        let Frames { done, refused, lost } = nic.device.received;
        prop_assert_eq!((done, refused, lost), (given, 1 - given, 0));
        let written = room.as_ref().map_or(0, |_| 12 + u32::try_from(length).unwrap());
        prop_assert_eq!(nic.used(RECEIVE), (1, written));
        // The ring of used buffers is the device's own.
        let used = AT[RECEIVE] as usize + 0x200..AT[RECEIVE] as usize + 0x200 + 6 + 8 * 16;
        let within = |at: usize| {
            let chain = room.iter().flatten();
            let mut parts = chain.map(|(address, length)| *address..*address + u64::from(*length));
            parts.any(|part| part.contains(&(at as u64)))
        };
        for (at, (before, after)) in before.iter().zip(&after).enumerate() {
            prop_assert!(before == after || used.contains(&at) || within(at), "{:#x}", at);
        }
    }
}
