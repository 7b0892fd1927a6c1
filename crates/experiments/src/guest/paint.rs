//! `paint`: draws into the VGA window, as fast as it can: 256 words of 32 bits a round, round after round,
//! each round where the last one ended. It never halts and takes no interrupt.
//!
//! ```nasm
//! 2000  mov ax,0xa000               ; the window
//! 2003  mov es,ax
//! 2005  xor di,di
//! 2007  imul eax,[0x14],0x9e3779b1  ; the round's first value
//! 2010  mov cx,0x100                ; 256 writes
//! 2013  mov [es:di],eax
//! 2017  add eax,0x1010103
//! 201d  add di,0x4                  ; wraps with the window
//! 2020  loop 0x2013
//! 2022  inc dword [0x14]            ; rounds done
//! 2027  mov eax,[0x14]
//! 202b  cmp eax,[0x40]              ; rounds
//! 2030  jb 0x2007
//! 2032  jmp 0x203c
//! 2034  mov sp,0x1000               ; STOP enters: drop the frame
//! 2037  inc dword [0x4]
//! 203c  out 0xf4,al                 ; the end
//! ```

use iced_x86::IcedError;
use iced_x86::code_asm::{ax, cx, di, dword_ptr, eax, es};

use crate::device::framebuffer::WINDOW_BYTES;
use haltwise_lab::guest::{Assembly, Program};
use haltwise_lab::memory::{counter, param};

pub const WRITES: u32 = 256;
const WIDTH: u32 = 4;
/// What a round begins with is its number times this: any odd number moves every byte.
const MIX: u32 = 0x9e37_79b1;
/// From one write's value to the next one's.
const STEP: u32 = 0x0101_0103;
const SEGMENT: u32 = 0xa000;

pub fn program() -> Result<Program, IcedError> {
    let mut assembly = Assembly::new()?;
    let a = &mut assembly.asm;
    a.mov(ax, SEGMENT)?;
    a.mov(es, ax)?;
    a.xor(di, di)?;
    let mut round = a.create_label();
    a.set_label(&mut round)?;
    a.imul_3(eax, dword_ptr(counter::ROUNDS), MIX)?;
    a.mov(cx, WRITES)?;
    let mut next = a.create_label();
    a.set_label(&mut next)?;
    a.mov(dword_ptr(di).es(), eax)?;
    a.add(eax, STEP)?;
    a.add(di, WIDTH)?;
    a.loop_(next)?;
    a.inc(dword_ptr(counter::ROUNDS))?;
    a.mov(eax, dword_ptr(counter::ROUNDS))?;
    a.cmp(eax, dword_ptr(param::ROUNDS))?;
    a.jb(round)?;
    a.jmp(assembly.done)?;
    assembly.finish()
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
