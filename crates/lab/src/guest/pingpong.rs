//! `pingpong`: answers the host's wake-up, and halts again.
//!
//! The first answer, before any wake-up, says that it is ready. Two instructions lie between
//! an answer and HLT, seven between a wake-up and its answer; the registers for EOI are kept loaded.
//!
//! ```nasm
//! 2000  mov ecx,0x80b               ; EOI
//! 2006  xor eax,eax
//! 2009  mov dx,bp                   ; answer port
//! 200b  inc dword [0x0]             ; HLTs
//! 2010  out dx,al                   ; answer
//! 2011  sti
//! 2012  hlt                         ; WAKE goes on below
//! 2013  mov sp,0x1000               ; WAKE enters: drop the frame
//! 2016  inc dword [0x4]             ; interrupts
//! 201b  xor edx,edx
//! 201e  wrmsr
//! 2020  jmp 0x2009
//! 2022  mov sp,0x1000               ; STOP enters: drop the frame
//! 2025  inc dword [0x4]             ; interrupts
//! 202a  out 0xf4,al                 ; the end
//! ```

use iced_x86::IcedError;
use iced_x86::code_asm::{al, bp, dword_ptr, dx, eax, ecx, edx};

use super::{Assembly, Program, WAKE, msr};
use crate::memory::counter;

/// Assembles it.
pub fn program() -> Result<Program, IcedError> {
    let mut assembly = Assembly::new()?;
    let a = &mut assembly.asm;
    a.mov(ecx, msr::EOI)?;
    a.xor(eax, eax)?;
    let mut answer = a.create_label();
    a.set_label(&mut answer)?;
    a.mov(dx, bp)?;
    a.inc(dword_ptr(counter::HALTS))?;
    a.out(dx, al)?;
    a.sti()?;
    a.hlt()?;
    assembly.enter(WAKE)?;
    let a = &mut assembly.asm;
    a.xor(edx, edx)?;
    a.wrmsr()?;
    a.jmp(answer)?;
    assembly.finish()
}
