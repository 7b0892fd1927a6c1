//! `pic-driver`: a device's interrupts through an 8259, handled as Linux does: mask, end, unmask.
//!
//! Each round it has the device raise its line, spins until the interrupt is there, reads the mask, masks
//! the line, ends the interrupt, unmasks the line, and then does some work of its own.
//!
//! ```nasm
//! 2000  mov al,0x11                 ; ICW1 to ICW4 of the first
//! 2002  out 0x20,al
//! 2004  mov al,0x40
//! 2006  out 0x21,al
//! 2008  mov al,0x4
//! 200a  out 0x21,al
//! 200c  mov al,0x1
//! 200e  out 0x21,al
//! 2010  mov al,0x11                 ; and of the second
//! 2012  out 0xa0,al
//! 2014  mov al,0x48
//! 2016  out 0xa1,al
//! 2018  mov al,0x2
//! 201a  out 0xa1,al
//! 201c  mov al,0x1
//! 201e  out 0xa1,al
//! 2020  mov al,0xff                 ; line 0 alone is not masked
//! 2022  out 0xa1,al
//! 2024  mov al,0xfe
//! 2026  out 0x21,al
//! 2028  mov dx,0x700
//! 202b  sti
//! 202c  mov al,0x2                  ; the device raises its line
//! 202e  out dx,al
//! 202f  jmp 0x202f                  ; until it comes
//! 2031  mov sp,0x1000               ; it enters: drop the frame
//! 2034  inc dword [0x4]             ; interrupts
//! 2039  in al,0x21                  ; read the mask
//! 203b  mov al,0xff                 ; mask
//! 203d  out 0x21,al
//! 203f  mov al,0x60                 ; end
//! 2041  out 0x20,al
//! 2043  mov al,0xfe                 ; unmask
//! 2045  out 0x21,al
//! 2047  mov ecx,[0x44]              ; work
//! 204c  inc ecx
//! 204e  dec ecx
//! 2050  jne 0x204e
//! 2052  inc dword [0x14]            ; rounds done
//! 2057  mov eax,[0x14]
//! 205b  cmp eax,[0x40]              ; rounds
//! 2060  jb 0x2028
//! 2062  jmp 0x206c
//! 2064  mov sp,0x1000               ; STOP enters: drop the frame
//! 2067  inc dword [0x4]
//! 206c  out 0xf4,al                 ; the end
//! ```

use iced_x86::IcedError;
use iced_x86::code_asm::{CodeAssembler, al, dword_ptr, dx, eax, ecx};

use crate::device::board::{LINE_PORT, PULSE};
use haltwise_lab::guest::{Assembly, Program, WAKE};
use haltwise_lab::memory::{counter, param};

const LINE: u8 = 0;
const COMMAND: u32 = 0x20;
const DATA: u32 = 0x21;
/// ICW1 to ICW4 and a mask of the pair as every PC's firmware writes them: ports and values.
const INITIALIZE: [(u32, u8); 10] = [
    (COMMAND, 0x11),
    (DATA, WAKE),
    (DATA, 0x04),
    (DATA, 0x01),
    (0xa0, 0x11),
    (0xa1, WAKE + 8),
    (0xa1, 0x02),
    (0xa1, 0x01),
    (0xa1, 0xff),
    (DATA, UNMASKED),
];
const UNMASKED: u8 = !(1 << LINE);
const SPECIFIC_EOI: u8 = 0x60;

/// Assembles it. The work of a round is [`param::PERIOD`] turns of an empty loop.
pub fn program() -> Result<Program, IcedError> {
    let mut assembly = Assembly::new()?;
    let a = &mut assembly.asm;
    for (port, value) in INITIALIZE {
        out(a, port, value)?;
    }
    let mut round = a.create_label();
    a.set_label(&mut round)?;
    a.mov(dx, u32::from(LINE_PORT) + u32::from(LINE))?;
    a.sti()?;
    a.mov(al, u32::from(PULSE))?;
    a.out(dx, al)?;
    let mut spin = a.create_label();
    a.set_label(&mut spin)?;
    a.jmp(spin)?;
    assembly.enter(WAKE + LINE)?;
    let a = &mut assembly.asm;
    a.in_(al, DATA)?;
    out(a, DATA, 0xff)?;
    out(a, COMMAND, SPECIFIC_EOI | LINE)?;
    out(a, DATA, UNMASKED)?;
    a.mov(ecx, dword_ptr(param::PERIOD))?;
    a.inc(ecx)?;
    let mut work = a.create_label();
    a.set_label(&mut work)?;
    a.dec(ecx)?;
    a.jne(work)?;
    a.inc(dword_ptr(counter::ROUNDS))?;
    a.mov(eax, dword_ptr(counter::ROUNDS))?;
    a.cmp(eax, dword_ptr(param::ROUNDS))?;
    a.jb(round)?;
    a.jmp(assembly.done)?;
    assembly.finish()
}

fn out(a: &mut CodeAssembler, port: u32, value: u8) -> Result<(), IcedError> {
    a.mov(al, u32::from(value))?;
    a.out(port, al)
}
