//! `paint`: draws into the VGA window, as fast as it can: 256 words of 32 bits a round, round after round,
//! each round where the last one ended. It never halts and takes no interrupt.

use iced_x86::IcedError;
use iced_x86::code_asm::{ax, cx, di, dword_ptr, eax, es};

use crate::device::framebuffer::WINDOW_BYTES;
use haltwise_lab::guest::{Assembly, Program};
use haltwise_lab::memory::counter;

pub const WRITES: u32 = 256;
const WIDTH: u32 = 4;
/// The first value of a round is the round's number times this factor: any odd factor moves every byte.
const MIX: u32 = 0x9e37_79b1;
/// From one write's value to the next one's.
const STEP: u32 = 0x0101_0103;
const SEGMENT: u32 = 0xa000;

pub fn program() -> Result<Program, IcedError> {
    let mut a = Assembly::new()?;
    a.mov(ax, SEGMENT)?;
    a.mov(es, ax)?;
    a.xor(di, di)?;
    let round = a.here()?;
    a.imul_3(eax, dword_ptr(counter::ROUNDS), MIX)?;
    a.mov(cx, WRITES)?;
    let next = a.here()?;
    a.mov(dword_ptr(di).es(), eax)?;
    a.add(eax, STEP)?;
    a.add(di, WIDTH)?;
    a.loop_(next)?;
    a.count_round(round)?;
    a.finish()
}

pub fn picture(rounds: u32) -> Vec<u8> {
    let mut pixels = vec![0; WINDOW_BYTES];
    let per_screen = u32::try_from(WINDOW_BYTES).unwrap_or(u32::MAX) / (WRITES * WIDTH);
    for round in rounds.saturating_sub(per_screen)..rounds {
        let first = (round % per_screen * WRITES * WIDTH) as usize;
        let mut value = round.wrapping_mul(MIX);
        for place in pixels[first..]
            .chunks_exact_mut(WIDTH as usize)
            .take(WRITES as usize)
        {
            place.copy_from_slice(&value.to_le_bytes());
            value = value.wrapping_add(STEP);
        }
    }
    pixels
}
