//! Frames at the edges of what is one, and chains that are none, in both directions.

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

    /// The guest's memory without the ring of used buffers, which is the device's own.
    fn all_memory(&self) -> Vec<u8> {
        let mut bytes = vec![0; MEMORY_BYTES];
        self.memory.read_slice(&mut bytes, GuestAddress(0)).unwrap();
        let used = AT[RECEIVE] as usize + 0x200;
        bytes[used..used + 6 + 8 * usize::from(ENTRIES)].fill(0);
        bytes
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
        let mut before = nic.all_memory();
        let pass = nic.device.receive();
        assert_eq!((pass.frames, pass.starved), (1, true), "{parts:?}");
        let counts = nic.device.received;
        assert_eq!((counts.done, counts.refused).0, u64::from(given));
        assert_eq!(counts.refused, u64::from(!given), "{parts:?}");
        let written = [&TO_GUEST[..], &frame].concat();
        let (written, said) = if given {
            (&written[..], 12 + u32::try_from(length).unwrap())
        } else {
            (&[][..], 0)
        };
        let first = usize::try_from(BUFFERS).unwrap();
        before[first..first + written.len()].copy_from_slice(written);
        assert!(nic.all_memory() == before, "another byte: {parts:?}");
        assert_eq!(nic.used(RECEIVE), (1, said), "{parts:?}");
    }
}

/// Each part with its next one, whose index the guest may make up.
#[test]
fn a_chain_without_an_end_or_outside_of_memory_is_none() {
    let end = MEMORY_BYTES as u64;
    for (parts, is_one) in [
        (vec![((BUFFERS, 26, 0), 0)], true),
        (
            vec![
                ((BUFFERS, 26, NEXT), 2),
                ((end, 9, 0), 0),
                ((BUFFERS, 14, 0), 0),
            ],
            true,
        ),
        (vec![((BUFFERS, 26, NEXT), 0)], false),
        (vec![((BUFFERS, 26, NEXT), ENTRIES)], false),
        (vec![((BUFFERS, 26, NEXT), u16::MAX)], false),
        (vec![((end - 26, 26, 0), 0)], true),
        (vec![((end - 25, 26, 0), 0)], false),
        (vec![((u64::MAX - 10, 26, 0), 0)], false),
    ] {
        let mut nic = ready();
        nic.offer(TRANSMIT, &parts);
        nic.device.transmit();
        let Frames { done, refused, .. } = nic.device.transmitted;
        let expected = (u64::from(is_one), u64::from(!is_one));
        assert_eq!((done, refused), expected, "{parts:?}");
        assert_eq!(nic.arrived().is_some(), is_one, "{parts:?}");
        let parts = parts
            .iter()
            .map(|((at, length, flags), next)| ((*at, *length, flags | WRITES), *next));
        nic.offer(RECEIVE, &parts.collect::<Vec<_>>());
        nic.other_end.send(&pattern(14)).unwrap();
        let before = nic.all_memory();
        nic.device.receive();
        let Frames { done, refused, .. } = nic.device.received;
        assert_eq!((done, refused), expected);
        assert_eq!(nic.all_memory() != before, is_one);
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
