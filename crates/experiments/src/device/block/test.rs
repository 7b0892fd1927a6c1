//! Requests at a disk's edges, chains that are none, and chains that change while they are under way.

use vm_memory::{Bytes as _, GuestAddress};

use super::*;
use crate::device::virtio::register;
use crate::device::virtio::test::driver::{Part, WRITES, make_ready, offer_chain, set};
use haltwise_lab::memory::GuestMemory;

const SECTORS: u64 = 16;
const AT: u32 = 0x1_0000;
const HEADER: Part = (0x3000, 16, 0);
const STATUS: Part = (0x3010, 1, WRITES);

/// A device whose driver is ready, its queue at [`AT`].
fn ready() -> (BlockDevice, GuestMemoryMmap<()>) {
    let memory = GuestMemory::new().unwrap().mapped().clone();
    let file = tempfile::tempfile().unwrap();
    file.set_len(SECTORS * SECTOR).unwrap();
    let mut device = BlockDevice::new(file, SECTORS, memory.clone()).unwrap();
    make_ready(&mut device.transport, 0, &[AT]);
    assert!(device.transport.queue(0, &memory).is_some());
    (device, memory)
}

/// Offers a chain; gives the requests served.
fn offer(device: &mut BlockDevice, memory: &GuestMemoryMmap<()>, chain: &[Part]) -> u64 {
    offer_chain(memory, AT, chain);
    device.serve()
}

fn header(memory: &GuestMemoryMmap<()>, kind: u32, sector: u64) {
    memory.write_obj(kind, GuestAddress(0x3000)).unwrap();
    memory.write_obj(sector, GuestAddress(0x3008)).unwrap();
    memory.write_obj(0xee_u8, GuestAddress(0x3010)).unwrap();
}

#[test]
fn requests_at_the_edges_of_the_disk() {
    let (mut device, memory) = ready();
    for (kind, sector, length, expected) in [
        (WRITE, 0, 512, OK),
        (WRITE, 15, 512, OK),
        (READ, 14, 1024, OK),
        (READ, 0, 8192, OK),
        (WRITE, 15, 1024, IOERR),
        (READ, 16, 512, IOERR),
        (WRITE, u64::MAX, 512, IOERR),
        (WRITE, u64::MAX / 512, 512, IOERR),
        (WRITE, u64::MAX / 512 + 1, 512, IOERR),
        (READ, 0, 0, IOERR),
        (WRITE, 0, 511, IOERR),
        (READ, 0, 513, IOERR),
        (WRITE, 0, 0x1_0200, IOERR),
        (4, 0, 512, UNSUPPORTED),
        (u32::MAX, 0, 512, UNSUPPORTED),
    ] {
        header(&memory, kind, sector);
        let before = device.served;
        let chain = [
            HEADER,
            (0x4000, length, u16::from(kind == READ) * WRITES),
            STATUS,
        ];
        let chain: Vec<_> = chain.into_iter().filter(|part| part.1 > 0).collect();
        assert_eq!(offer(&mut device, &memory, &chain), 1);
        let status: u8 = memory.read_obj(GuestAddress(0x3010)).unwrap();
        assert_eq!(status, expected, "{kind} {sector} {length}");
        let served = device.served;
        assert_eq!(served.done - before.done, u64::from(expected == OK));
        assert_eq!(served.refused - before.refused, u64::from(expected != OK));
    }
    assert_eq!(device.served.failed, 0, "the file never saw them");
}

#[test]
fn what_was_written_is_read_back() {
    let (mut device, memory) = ready();
    memory.write_slice(&[7; 512], GuestAddress(0x4000)).unwrap();
    header(&memory, WRITE, 3);
    offer(&mut device, &memory, &[HEADER, (0x4000, 512, 0), STATUS]);
    header(&memory, READ, 2);
    offer(
        &mut device,
        &memory,
        &[HEADER, (0x5000, 1024, WRITES), STATUS],
    );
    let mut back = [9; 1024];
    memory.read_slice(&mut back, GuestAddress(0x5000)).unwrap();
    assert_eq!((&back[..512], &back[512..]), (&[0; 512][..], &[7; 512][..]));
}

#[test]
fn chains_that_are_none_are_refused_and_used() {
    let (mut device, memory) = ready();
    header(&memory, WRITE, 0);
    let out = u64::from(u32::MAX) << 8;
    for (what, chain) in [
        ("no status", vec![HEADER, (0x4000, 512, 0)]),
        ("no header", vec![STATUS]),
        ("a short header", vec![(0x3000, 15, 0), STATUS]),
        (
            "data outside of memory",
            vec![HEADER, (out, 512, 0), STATUS],
        ),
        (
            "status outside of memory",
            vec![HEADER, (0x4000, 512, 0), (out, 1, WRITES)],
        ),
        (
            "data over the end",
            vec![HEADER, (0xf_ff00, 512, 0), STATUS],
        ),
        (
            "a length of 4 GiB",
            vec![HEADER, (0x4000, u32::MAX, 0), STATUS],
        ),
    ] {
        let before = device.served;
        assert_eq!(offer(&mut device, &memory, &chain), 1, "{what}");
        assert_eq!(device.served.refused, before.refused + 1, "{what}");
        assert_eq!(device.served.done, before.done, "{what}");
    }
}

#[test]
fn the_disk_says_its_size_and_nothing_is_served_after_a_reset() {
    let (mut device, _) = ready();
    set(&mut device.transport, &[(register::STATUS, 0)]);
    assert_eq!(device.serve(), 0);
    let mut capacity = [0; 8];
    device
        .transport
        .read(register::CONFIG.into(), &mut capacity);
    assert_eq!(u64::from_le_bytes(capacity), SECTORS);
}

#[test]
fn a_chain_that_changes_while_it_is_under_way_gets_no_byte() {
    // The data is 512 bytes; then the guest makes its part of the chain shorter, longer, or one for us to read.
    for (length, flags) in [(511_u32, 3_u16), (513, 3), (512, 1), (u32::MAX, 3)] {
        let (mut device, memory) = ready();
        memory
            .write_slice(&[9; 1024], GuestAddress(0x4000))
            .unwrap();
        header(&memory, READ, 0);
        let chain = [HEADER, (0x4000, 512, WRITES), STATUS];
        offer_chain(&memory, AT, &chain);
        let (request, transfer) = device.take().unwrap();
        let second = u64::from(AT) + 16;
        memory.write_obj(length, GuestAddress(second + 8)).unwrap();
        memory.write_obj(flags, GuestAddress(second + 12)).unwrap();
        device.give_back(&request, &transfer, true);
        assert_eq!((device.served.done, device.served.refused), (0, 1));
        let mut bytes = [0; 1024];
        memory.read_slice(&mut bytes, GuestAddress(0x4000)).unwrap();
        assert_eq!(bytes, [9; 1024], "{length} {flags}");
    }
}

#[test]
fn a_file_that_fails_and_a_queue_that_goes_away_are_answered_and_not() {
    let (mut device, memory) = ready();
    for (done, reset, status) in [(false, false, IOERR), (true, true, 0xee)] {
        header(&memory, READ, 0);
        let chain = [HEADER, (0x4000, 512, WRITES), STATUS];
        offer_chain(&memory, AT, &chain);
        let (request, transfer) = device.take().unwrap();
        let used = GuestAddress(u64::from(AT) + 0x202);
        let before: u16 = memory.read_obj(used).unwrap();
        if reset {
            let transport = &mut device.transport;
            transport.write(register::STATUS.into(), &[0; 4]);
            // The chain is gone with the guest's table.
            memory
                .write_slice(&[0; 0x100], GuestAddress(AT.into()))
                .unwrap();
        }
        device.give_back(&request, &transfer, done);
        let after: u16 = memory.read_obj(used).unwrap();
        assert_eq!(after - before, u16::from(!reset));
        let answered: u8 = memory.read_obj(GuestAddress(0x3010)).unwrap();
        assert_eq!(answered, status);
    }
    assert_eq!(device.served.failed, 1);
}
