//! Storms of accesses to a device that is not there: a driver that polls a port, and one that draws into
//! a frame buffer which nothing backs. Neither halts; both take a pending interrupt once a round.
//!
//! `port-poll` reads the line status of a serial port:
//!
//! ```nasm
//! 2000  mov dx,0x3fd                ; line status
//! 2003  mov cx,0x3e8                ; polls
//! 2006  in al,dx
//! 2007  loop 0x2006
//! 2009  inc dword [0x14]            ; rounds done
//! 200e  sti
//! 200f  nop                         ; STOP comes in here
//! 2010  cli
//! 2011  dec dword [0x40]            ; rounds
//! 2016  jne 0x2000
//! 2018  jmp 0x2022
//! 201a  mov sp,0x1000               ; STOP enters: drop the frame
//! 201d  inc dword [0x4]
//! 2022  out 0xf4,al                 ; the end
//! ```
//!
//! `framebuffer` goes over the 64 KiB from `fs:0` on, a byte in every 64:
//!
//! ```nasm
//! 2000  xor di,di
//! 2002  mov [fs:di],al
//! 2005  add di,0x40
//! 2008  jne 0x2002
//! 200a  inc dword [0x14]            ; rounds done
//! 200f  sti
//! 2010  nop                         ; STOP comes in here
//! 2011  cli
//! 2012  dec dword [0x40]            ; rounds
//! 2017  jne 0x2000
//! 2019  jmp 0x2023
//! 201b  mov sp,0x1000               ; STOP enters: drop the frame
//! 201e  inc dword [0x4]
//! 2023  out 0xf4,al                 ; the end
//! ```

use iced_x86::IcedError;
use iced_x86::code_asm::{CodeLabel, al, byte_ptr, cx, di, dword_ptr, dx};

use super::{Assembly, Program};
use crate::memory::{counter, param};

/// Line status register of the first serial port.
pub const POLLED_PORT: u16 = 0x3fd;
/// Reads of it in a round.
pub const POLLS: u32 = 1000;
/// From one byte drawn to the next.
pub const STRIDE: u32 = 64;

/// Assembles `port-poll`.
pub fn port_program() -> Result<Program, IcedError> {
    let mut assembly = Assembly::new()?;
    let round = begin(&mut assembly)?;
    let a = &mut assembly.asm;
    a.mov(dx, u32::from(POLLED_PORT))?;
    a.mov(cx, POLLS)?;
    let mut again = a.create_label();
    a.set_label(&mut again)?;
    a.in_(al, dx)?;
    a.loop_(again)?;
    end(assembly, round)
}

/// Assembles `framebuffer`.
pub fn framebuffer_program() -> Result<Program, IcedError> {
    let mut assembly = Assembly::new()?;
    let round = begin(&mut assembly)?;
    let a = &mut assembly.asm;
    a.xor(di, di)?;
    let mut again = a.create_label();
    a.set_label(&mut again)?;
    a.mov(byte_ptr(di).fs(), al)?;
    a.add(di, STRIDE)?;
    a.jne(again)?;
    end(assembly, round)
}

fn begin(assembly: &mut Assembly) -> Result<CodeLabel, IcedError> {
    let a = &mut assembly.asm;
    let mut round = a.create_label();
    a.set_label(&mut round)?;
    Ok(round)
}

/// The end of a round: counts it, lets an interrupt in, and goes on until all are done.
fn end(mut assembly: Assembly, round: CodeLabel) -> Result<Program, IcedError> {
    let a = &mut assembly.asm;
    a.inc(dword_ptr(counter::ROUNDS))?;
    a.sti()?;
    a.nop()?;
    a.cli()?;
    a.dec(dword_ptr(param::ROUNDS))?;
    a.jne(round)?;
    a.jmp(assembly.done)?;
    assembly.finish()
}
