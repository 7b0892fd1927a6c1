//! `disk`: drives a virtio block device. Each round writes a block and reads it back; while a request is under
//! way it works, a turn at a time, and then looks whether the device has used it. No interrupts.

use iced_x86::IcedError;
use iced_x86::code_asm::{ax, bx, dword_ptr, eax, ecx, word_ptr};

use crate::device::block::{ENTRIES, READ, SECTOR, WRITE};
use crate::device::virtio::{register, status};
use haltwise_lab::guest::{Assembly, Program};
use haltwise_lab::memory::{GuestMemory, TABLE, counter, param};

/// Turns of work done while requests were under way (offset from `ds`).
pub const WORK: u16 = 0x100;
/// Blocks that did not come back as they were written.
pub const ERRORS: u16 = 0x104;
/// Blocks of the disk, a power of 2.
pub const BLOCKS: u32 = 64;
pub const BLOCK: u32 = 4096;
/// A round's number times this, and one more of it, is what its block begins and ends with.
const MIX: u32 = 0x9e37_79b1;

/// Offsets from `gs`: the three parts of the queue, headers, status bytes, blocks.
const DESC: u32 = 0;
const AVAIL: u32 = 0x100;
const USED: u32 = 0x200;
const HEADERS: [u32; 2] = [0x400, 0x410];
const STATUS: [u32; 2] = [0x420, 0x421];
const BUFFERS: [u32; 2] = [0x1000, 0x2000];
/// First descriptors of the two requests.
const HEADS: [u32; 2] = [0, 3];

/// Assembles it. A request is accompanied by [`param::PERIOD`] turns of work at least.
pub fn program() -> Result<Program, IcedError> {
    let mut a = Assembly::new()?;
    for (register, value) in [
        (register::STATUS, 1),
        (register::STATUS, 3),
        (register::DRIVER_FEATURES_SEL, 1),
        (register::DRIVER_FEATURES, 1),
        (register::STATUS, 3 | status::FEATURES_OK),
        (register::QUEUE_NUM, u32::from(ENTRIES)),
        (register::QUEUE_DESC[0], TABLE + DESC),
        (register::QUEUE_DRIVER[0], TABLE + AVAIL),
        (register::QUEUE_DEVICE[0], TABLE + USED),
        (register::QUEUE_READY, 1),
        (register::STATUS, status::READY),
    ] {
        a.mov(dword_ptr(register).fs(), value)?;
    }
    let round = a.here()?;
    a.mov(eax, dword_ptr(counter::ROUNDS))?;
    a.and(eax, BLOCKS - 1)?;
    a.imul_3(eax, eax, BLOCK / u32::try_from(SECTOR).unwrap_or(1))?;
    a.mov(dword_ptr(HEADERS[0] + 8).gs(), eax)?;
    a.mov(dword_ptr(HEADERS[1] + 8).gs(), eax)?;
    a.imul_3(eax, dword_ptr(counter::ROUNDS), MIX)?;
    a.add(eax, MIX)?;
    a.mov(dword_ptr(BUFFERS[0]).gs(), eax)?;
    a.mov(dword_ptr(BUFFERS[0] + BLOCK - 4).gs(), eax)?;
    for head in HEADS {
        request(&mut a, head)?;
    }
    let (mut wrong, mut right) = (a.create_label(), a.create_label());
    for offset in [0, BLOCK - 4] {
        a.mov(eax, dword_ptr(BUFFERS[0] + offset).gs())?;
        a.cmp(eax, dword_ptr(BUFFERS[1] + offset).gs())?;
        a.jne(wrong)?;
    }
    a.jmp(right)?;
    a.set_label(&mut wrong)?;
    a.inc(dword_ptr(ERRORS))?;
    a.set_label(&mut right)?;
    a.count_round(round)?;
    a.finish()
}

/// Offers a chain, tells the device, works, and goes on once it is used.
fn request(a: &mut Assembly, head: u32) -> Result<(), IcedError> {
    a.mov(bx, word_ptr(AVAIL + 2).gs())?;
    a.and(bx, u32::from(ENTRIES) - 1)?;
    a.add(bx, bx)?;
    a.mov(word_ptr(bx + (AVAIL + 4)).gs(), head)?;
    a.inc(word_ptr(AVAIL + 2).gs())?;
    a.mov(dword_ptr(register::QUEUE_NOTIFY).fs(), 0)?;
    a.mov(ecx, dword_ptr(param::PERIOD))?;
    let work = a.here()?;
    a.inc(dword_ptr(WORK))?;
    a.dec(ecx)?;
    a.jg(work)?;
    a.mov(ax, word_ptr(USED + 2).gs())?;
    a.cmp(ax, word_ptr(AVAIL + 2).gs())?;
    a.jne(work)
}

/// Writes the two requests' descriptors and headers into a VM that does not run.
pub fn prepare(memory: &GuestMemory) -> anyhow::Result<()> {
    for (index, kind) in [WRITE, READ].into_iter().enumerate() {
        memory.write(TABLE + HEADERS[index], &kind.to_le_bytes())?;
        let data = if kind == READ { DEVICE_WRITES } else { 0 };
        for (place, (address, length, flags)) in (HEADS[index]..).zip([
            (HEADERS[index], 16, NEXT),
            (BUFFERS[index], BLOCK, NEXT | data),
            (STATUS[index], 1, DEVICE_WRITES),
        ]) {
            let next = if flags & NEXT == 0 { 0 } else { place + 1 };
            let words = [TABLE + address, 0, length, flags | next << 16];
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            memory.write(TABLE + DESC + place * 16, &bytes)?;
        }
    }
    Ok(())
}

const NEXT: u32 = 1;
const DEVICE_WRITES: u32 = 2;

/// The disk after so many rounds, from a disk of zeroes.
pub fn contents(rounds: u32) -> Vec<u8> {
    let mut disk = vec![0; (BLOCKS * BLOCK) as usize];
    for round in rounds.saturating_sub(BLOCKS)..rounds {
        let start = (round % BLOCKS * BLOCK) as usize;
        let value = round.wrapping_mul(MIX).wrapping_add(MIX).to_le_bytes();
        disk[start..start + 4].copy_from_slice(&value);
        let end = start + BLOCK as usize;
        disk[end - 4..end].copy_from_slice(&value);
    }
    disk
}
