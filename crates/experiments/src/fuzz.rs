//! Entry points for the fuzz targets and their smoke runs: any bytes as what a guest does to a device,
//! and to the page of an exitless timer.
//!
//! Not part of the library's interface.

use std::convert::Infallible;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use crate::device::block::{BlockDevice, SECTOR};
use crate::device::framebuffer::{PAGE_BYTES, Screen, WINDOW, WINDOW_BYTES};
use crate::device::net::{Frames, LONGEST, Link, NetDevice, SHORTEST};
use crate::device::pic::PicPair;
use crate::device::virtio::Transport;
use crate::exitless_timer::page::{FIRED, GuestPage, Page};
use crate::exitless_timer::{Agent, Client};
use haltwise_lab::memory::{GuestMemory, VCPU_PAGES};

const LEAST_GAP: u64 = 100;

/// Reads bytes as stores to the page of an exitless timer, six each: word, what time goes on by, value. The
/// agent looks after each; gives how often it fired.
///
/// # Panics
/// If it fires twice within the least gap, or tells another sequence than it counts.
pub fn exitless_timer(bytes: &[u8]) -> u64 {
    let Ok(memory) = GuestMemory::new() else {
        return 0;
    };
    let page = GuestPage {
        memory,
        address: VCPU_PAGES,
    };
    let client = Client::new(page.clone(), u64::MAX - 5_000).expect("the page is in memory");
    let mut agent = Agent {
        clients: vec![client],
        least_gap: LEAST_GAP,
    };
    let (mut now, mut last, mut fired) = (0_u64, None, 0);
    for store in bytes.chunks_exact(6) {
        let value = u32::from_le_bytes([store[2], store[3], store[4], store[5]]);
        let stored = page.store32(u32::from(store[0] % 32) * 4, value);
        stored.expect("the page is in memory");
        now += u64::from(store[1]);
        let fire = |_| {
            assert!(last.is_none_or(|last| now >= last + LEAST_GAP), "too soon");
            assert!(page.load32(FIRED).is_ok_and(|sequence| sequence % 2 == 0));
            (last, fired) = (Some(now), fired + 1);
            Ok(())
        };
        agent.pass(|| now, fire).expect("no line fails");
    }
    assert_eq!(agent.clients[0].slot.counts.fired, fired);
    fired
}

/// Takes bytes as accesses to the VGA window, 16 of them each: kind, length, a word of a dirty log or of an
/// address's upper half, its lower half, and what is written. Gives how many were within the window.
///
/// # Panics
/// If an access is neither done nor refused, or the screen is of another size than the window.
pub fn framebuffer(bytes: &[u8]) -> u64 {
    let mut screen = Screen::default();
    let (mut accesses, mut within) = (0, 0);
    for access in bytes.chunks_exact(16) {
        let words = access.as_chunks().0;
        let word = |at: usize| u64::from(u32::from_le_bytes(words[at / 4]));
        let (length, address) = (usize::from(access[1] % 9), word(8) | word(4) << 32);
        let refused = screen.refused;
        match access[0] % 3 {
            0 => screen.write(address, &vec![access[15]; length]),
            1 => screen.read(address, &mut vec![access[15]; length]),
            _ => {
                let log = [word(4), word(8) << 32 | word(12)];
                let copied = screen.refresh(&log[..length % 3], |address, page| {
                    assert!(WINDOW.contains(&address) && page.len() == PAGE_BYTES);
                    page.fill(access[15]);
                    Ok::<(), Infallible>(())
                });
                let bits = log[..length % 3].first().map_or(0, |word| word & 0xffff);
                assert_eq!(copied, Ok(bits.count_ones().into()), "a page for each bit");
                continue;
            }
        }
        accesses += 1;
        let last = address.saturating_add((length as u64).saturating_sub(1));
        let inside = address >= u64::from(WINDOW.start) && last < u64::from(WINDOW.end);
        // Nothing at all may also be read or written at the very end.
        assert!(
            length == 0 || (screen.refused == refused) == inside,
            "{address:#x} {length}"
        );
        within += u64::from(screen.refused == refused);
    }
    assert_eq!(accesses, within + screen.refused, "done or refused");
    assert_eq!(screen.pixels.len(), WINDOW_BYTES);
    within
}

/// Takes bytes as a guest's accesses to the interrupt controllers and as a device's lines, four of them each:
/// kind, a value, a port or a line. Gives how many interrupts came of it.
///
/// # Panics
/// If an interrupt is taken of no line, or of a line that was not raised.
pub fn pic(bytes: &[u8]) -> u64 {
    let mut pic = PicPair::default();
    let mut taken = 0;
    for access in bytes.chunks_exact(4) {
        let port = u16::from_le_bytes([access[2], access[3]]);
        let width = usize::from(access[0] >> 4);
        match access[0] % 8 {
            0 | 1 => pic.write(port, &[access[1]]),
            2 => pic.write(port, &vec![access[1]; width]),
            3 => pic.read(port, &mut [0]),
            4 => pic.read(port, &mut vec![0; width]),
            5 => pic.set(access[2], access[1] % 2 == 1),
            6 => {
                let asked = pic.interrupts();
                pic.acknowledge();
                taken += u64::from(asked);
            }
            // As a vCPU does: until there is no more. Lines that stay up never end with automatic EOI.
            _ => {
                for _ in 0..64 {
                    if !pic.interrupts() {
                        break;
                    }
                    pic.acknowledge();
                    taken += 1;
                }
            }
        }
    }
    assert!(
        pic.refused <= bytes.len() as u64 / 4,
        "at most once an access"
    );
    taken
}

/// Sectors of the fuzzed disk; the file goes on behind them.
const SECTORS: u64 = 8;
/// Where stores of [`block`] and [`net`] go.
const QUEUE_AT: u32 = 0x1_0000;

/// Does to a device as a guest does by eight bytes: a width, a place of two bytes, a value. A store goes to memory around
/// the queues, all else to registers. Returns the queue of which the device is notified.
fn act(kind: u8, access: &[u8], transport: &mut Transport, memory: &GuestMemory) -> Option<usize> {
    let place = u16::from_le_bytes([access[2], access[3]]);
    let (width, value) = (usize::from(access[1]), &access[4..]);
    match kind {
        0 => {
            let stored = memory.write(QUEUE_AT + u32::from(place % 0x4000), value);
            stored.expect("the place is in memory");
            None
        }
        1 => {
            transport.read(place.into(), &mut vec![0; width % 9]);
            None
        }
        2 => transport.write(place.into(), &value[..width % 5]),
        _ => transport.write(place.into(), value),
    }
}

/// Takes bytes as what a guest does to a block device, eight of them each: a kind, and what [`act`] takes. Gives the
/// requests done.
///
/// # Panics
/// If the file changes behind the disk's end, or a request is neither done nor refused.
pub fn block(bytes: &[u8]) -> u64 {
    let (Ok(memory), Ok(file)) = (GuestMemory::new(), tempfile::tempfile()) else {
        return 0;
    };
    let behind = [0xa5; 512];
    let prepared = file.write_all_at(&behind, SECTORS * SECTOR);
    prepared.expect("a temporary file takes some bytes");
    let same_file = file.try_clone().expect("a file has another descriptor");
    let mapped = memory.mapped().clone();
    let mut device = BlockDevice::new(file, SECTORS, mapped).expect("16 entries");
    let mut asked = 0;
    for access in bytes.chunks_exact(8) {
        if act(access[0] % 4, access, &mut device.transport, &memory).is_some() {
            asked += device.serve();
        }
    }
    let mut after = [0; 512];
    let read = same_file.read_exact_at(&mut after, SECTORS * SECTOR);
    assert!(read.is_ok() && after == behind, "behind the disk's end");
    let served = device.served;
    assert_eq!(served.done + served.refused, asked, "done or refused");
    served.done
}

/// Takes bytes as what a guest does to a network device, and what comes from its link, eight of them each: a kind, and
/// what [`act`] takes; frames are of a place's length. Gives the frames that arrived on either side.
///
/// # Panics
/// If what arrives on the link is no frame, or a frame is neither done, refused nor lost.
pub fn net(bytes: &[u8]) -> u64 {
    let (Ok(memory), Ok((link, other_end))) = (GuestMemory::new(), Link::pair()) else {
        return 0;
    };
    let mapped = memory.mapped().clone();
    let mut device = NetDevice::new(Arc::new(link), mapped).expect("256 entries");
    let (mut taken, mut arrived, mut came) = (0, 0, 0);
    for access in bytes.chunks_exact(8) {
        match access[0] % 8 {
            6 => {
                let length = u16::from_le_bytes([access[2], access[3]]) % 2048;
                let frame = vec![access[4]; length.into()];
                came += u64::from(other_end.send(&frame).unwrap_or(false));
            }
            7 => taken += device.serve().frames,
            kind => {
                let kind = [0, 0, 1, 2, 3, 3][usize::from(kind)];
                let told = act(kind, access, &mut device.transport, &memory);
                if let Some(queue) = told {
                    taken += device.serve().frames;
                    device.arm(queue);
                }
            }
        }
        let mut frame = [0; LONGEST + 1];
        while let Ok(Some(length)) = other_end.receive(&mut frame) {
            assert!((SHORTEST..=LONGEST).contains(&length), "{length} bytes");
            arrived += 1;
        }
    }
    let sum = |frames: Frames| frames.done + frames.refused + frames.lost;
    let (sent, received) = (device.transmitted, device.received);
    assert_eq!(sent.done, arrived, "on the link");
    assert_eq!(sum(sent) + sum(received), taken, "done, refused or lost");
    assert!(sum(received) <= came, "from the link");
    sent.done + received.done
}
