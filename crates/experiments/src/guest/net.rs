//! `net`: drives a virtio network device. It keeps a window of frames under way; each that comes back is looked
//! at, and another is sent in its stead. Buffers are used in order, so entry N of a ring is always buffer N, and
//! all indices follow from one number, `esi`: how many echoes were taken. It halts while there are none.

use iced_x86::IcedError;
use iced_x86::code_asm::{CodeLabel, ax, bx, cx, dword_ptr, dx, eax, esi, si, word_ptr};

use crate::device::net::{FEATURE_MAC, HEADER, LONGEST, MAC, RECEIVE, TRANSMIT};
use crate::device::virtio::{feature, register, status};
use haltwise_lab::guest::{Assembly, Program, WAKE, msr};
use haltwise_lab::memory::{GuestMemory, TABLE, counter, param};

/// Frames whose number was not the next one (offset from `ds`).
pub const ERRORS: u16 = 0x104;
pub const MOST: u32 = 8;
pub const PEER: [u8; 6] = [0x02, 0, 0, 0, 0, 2];
/// Payload type of the frames: the `EtherType` for local experiments (IEEE 802).
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
/// Where a frame's number lies in it.
const NUMBER: u32 = 14;

/// Offsets from `gs` by queue: descriptors, what is offered, what is used, buffers.
const DESC: [u32; 2] = [0, 0x300];
const AVAIL: [u32; 2] = [0x100, 0x400];
const USED: [u32; 2] = [0x200, 0x500];
const BUFFERS: [u32; 2] = [0x1000, 0x5000];
/// Distance of buffers, as a power of 2.
const STRIDE_BITS: u32 = 11;
const BYTES: usize = HEADER + LONGEST;
const DEVICE_WRITES: u32 = 2;

/// Where the driver says from which index on it wants to be told of a queue of so many entries, and where the
/// device does: `used_event` and `avail_event`, section 2.7 of the standard.
fn events(queue: usize, window: u32) -> (u32, u32) {
    (AVAIL[queue] + 4 + 2 * window, USED[queue] + 4 + 8 * window)
}

/// Assembles it, with so many frames under way: a power of 2, at most [`MOST`].
pub fn program(window: u32) -> Result<Program, IcedError> {
    let mut a = Assembly::new()?;
    initialize(&mut a, window)?;
    let done = a.done;
    a.xor(esi, esi)?;
    let (mut take, mut idle) = (a.create_label(), a.create_label());
    let look = a.here()?;
    a.cmp(si, word_ptr(USED[RECEIVE] + 2).gs())?;
    a.je(idle)?;
    a.set_label(&mut take)?;
    take_echo(&mut a, window)?;
    a.cmp(si, word_ptr(USED[RECEIVE] + 2).gs())?;
    a.jne(take)?;
    a.mov(dword_ptr(counter::ROUNDS), esi)?;
    a.cmp(esi, dword_ptr(param::ROUNDS))?;
    a.jae(done)?;
    offer(&mut a, window, look)?;
    a.set_label(&mut idle)?;
    let (wanted, _) = events(RECEIVE, window);
    a.mov(ax, si)?;
    a.xchg(word_ptr(wanted).gs(), ax)?;
    a.cmp(si, word_ptr(USED[RECEIVE] + 2).gs())?;
    a.jne(take)?;
    a.halt(WAKE)?;
    a.mov(eax, dword_ptr(register::INTERRUPT_STATUS).fs())?;
    a.mov(dword_ptr(register::INTERRUPT_ACK).fs(), eax)?;
    a.write_msr(msr::EOI, 0, 0)?;
    a.jmp(look)?;
    a.finish()
}

fn initialize(a: &mut Assembly, window: u32) -> Result<(), IcedError> {
    let half = |features: u64| u32::try_from(features).unwrap_or(u32::MAX);
    let mut writes = vec![
        (register::STATUS, 1),
        (register::STATUS, 3),
        (
            register::DRIVER_FEATURES,
            half(FEATURE_MAC | feature::EVENT_IDX),
        ),
        (register::DRIVER_FEATURES_SEL, 1),
        (
            register::DRIVER_FEATURES,
            half((feature::VERSION_1 | feature::IN_ORDER) >> 32),
        ),
        (register::STATUS, 3 | status::FEATURES_OK),
    ];
    for (queue, index) in [(RECEIVE, 0), (TRANSMIT, 1)] {
        writes.extend([
            (register::QUEUE_SEL, index),
            (register::QUEUE_NUM, window),
            (register::QUEUE_DESC[0], TABLE + DESC[queue]),
            (register::QUEUE_DRIVER[0], TABLE + AVAIL[queue]),
            (register::QUEUE_DEVICE[0], TABLE + USED[queue]),
            (register::QUEUE_READY, 1),
        ]);
    }
    writes.extend([
        (register::STATUS, status::READY),
        (register::QUEUE_NOTIFY, 0),
        (register::QUEUE_NOTIFY, 1),
    ]);
    for (register, value) in writes {
        a.mov(dword_ptr(register).fs(), value)?;
    }
    Ok(())
}

/// Looks at the number of the frame that came back, and writes that of the one to be sent in its stead.
fn take_echo(a: &mut Assembly, window: u32) -> Result<(), IcedError> {
    let number = u32::try_from(HEADER).unwrap_or(0) + NUMBER;
    let mut right = a.create_label();
    a.mov(bx, si)?;
    a.and(bx, window - 1)?;
    a.shl(bx, STRIDE_BITS)?;
    a.cmp(esi, dword_ptr(bx + (BUFFERS[RECEIVE] + number)).gs())?;
    a.je(right)?;
    a.inc(dword_ptr(ERRORS))?;
    a.set_label(&mut right)?;
    a.lea(eax, dword_ptr(esi + window))?;
    a.mov(dword_ptr(bx + (BUFFERS[TRANSMIT] + number)).gs(), eax)?;
    a.inc(esi)
}

/// Offers the buffers of the frames taken again, the frames that are sent in their stead, and tells the device
/// if it wants to be told.
fn offer(a: &mut Assembly, window: u32, look: CodeLabel) -> Result<(), IcedError> {
    let mut told = a.create_label();
    a.mov(cx, si)?;
    a.add(cx, window)?;
    a.mov(ax, cx)?;
    a.mov(word_ptr(AVAIL[RECEIVE] + 2).gs(), ax)?;
    // Exchanging locks: they are offered before it is looked at what the device wants.
    a.xchg(word_ptr(AVAIL[TRANSMIT] + 2).gs(), ax)?;
    a.mov(dx, cx)?;
    a.sub(dx, ax)?;
    for (queue, index, skip) in [(TRANSMIT, 1, told), (RECEIVE, 0, look)] {
        let (_, wanted) = events(queue, window);
        a.mov(bx, cx)?;
        a.sub(bx, word_ptr(wanted).gs())?;
        a.dec(bx)?;
        a.cmp(bx, dx)?;
        a.jae(skip)?;
        a.mov(dword_ptr(register::QUEUE_NOTIFY).fs(), index)?;
        if queue == TRANSMIT {
            a.set_label(&mut told)?;
        }
    }
    a.jmp(look)
}

/// Writes both queues and the first frames into a VM that does not run.
pub fn prepare(memory: &GuestMemory, window: u32) -> anyhow::Result<()> {
    for (queue, flags) in [(RECEIVE, DEVICE_WRITES), (TRANSMIT, 0)] {
        for slot in 0..window {
            let length = u32::try_from(BYTES).unwrap_or(0);
            let words = [TABLE + buffer(queue, slot), 0, length, flags];
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            memory.write(TABLE + DESC[queue] + 16 * slot, &bytes)?;
            let slot_bytes = slot.to_le_bytes();
            memory.write(TABLE + AVAIL[queue] + 4 + 2 * slot, &slot_bytes[..2])?;
        }
        let offered = window.to_le_bytes();
        memory.write(TABLE + AVAIL[queue] + 2, &offered[..2])?;
    }
    // That a frame was sent is known from its echo: it is told of one in 65536.
    let (wanted, _) = events(TRANSMIT, window);
    memory.write(TABLE + wanted, &[0xff, 0xff])?;
    for number in 0..window {
        let at = TABLE + buffer(TRANSMIT, number) + u32::try_from(HEADER).unwrap_or(0);
        memory.write(at, &frame(number, PEER, MAC))?;
    }
    Ok(())
}

fn buffer(queue: usize, slot: u32) -> u32 {
    BUFFERS[queue] + (slot << STRIDE_BITS)
}

/// A frame of that number: addresses, type, number, and what fills it, all of the frame's length.
fn frame(number: u32, to: [u8; 6], from: [u8; 6]) -> Vec<u8> {
    let head = to.into_iter().chain(from).chain(ETHERTYPE);
    let frame = head.chain(number.to_le_bytes());
    let filler = (0..=u8::MAX).cycle();
    frame.chain(filler).take(LONGEST).collect()
}

/// Whether every buffer that was used holds, byte for byte, the echo of a frame that was sent from its place.
pub fn echoes_are_whole(memory: &GuestMemory, window: u32) -> anyhow::Result<bool> {
    let mut whole = true;
    for slot in 0..window {
        let mut bytes = vec![0; BYTES];
        memory.read(TABLE + buffer(RECEIVE, slot), &mut bytes)?;
        let (header, echo) = bytes.split_at(HEADER);
        if header.iter().all(|byte| *byte == 0) {
            continue;
        }
        let at = NUMBER as usize;
        let number = echo[at..at + 4].iter().rev();
        let number = number.fold(0, |number, byte| number << 8 | u32::from(*byte));
        let header_is = header[..10] == [0; 10] && header[10..] == [1, 0];
        // The filler of a window's slot is that of its first frame: the guest writes numbers alone.
        whole &= header_is && number % window == slot && echo == frame(number, MAC, PEER);
    }
    Ok(whole)
}
