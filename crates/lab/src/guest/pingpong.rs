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
//!
//! `pingpong-stamped` reads the TSC first of all after a wake-up, at the price of four instructions
//! before the answer.
//!
//! ```nasm
//! 2000  mov ecx,0x80b               ; EOI
//! 2006  xor eax,eax
//! 2009  mov dx,bp                   ; answer port
//! 200b  inc dword [0x0]             ; HLTs
//! 2010  out dx,al                   ; answer
//! 2011  sti
//! 2012  hlt                         ; WAKE goes on below
//! 2013  rdtsc                       ; WAKE enters
//! 2015  mov [0x18],eax              ; woke
//! 2019  mov [0x1c],edx
//! 201e  xor eax,eax
//! 2021  mov sp,0x1000               ; drop the frame
//! 2024  inc dword [0x4]             ; interrupts
//! 2029  xor edx,edx
//! 202c  wrmsr
//! 202e  jmp 0x2009
//! 2030  mov sp,0x1000               ; STOP enters: drop the frame
//! 2033  inc dword [0x4]             ; interrupts
//! 2038  out 0xf4,al                 ; the end
//! ```

//!
//! Where KVM has no irqchip there is no local APIC either, and nothing to tell of an interrupt's end:
//!
//! ```nasm
//! 2000  mov dx,bp                   ; answer port
//! 2002  inc dword [0x0]             ; HLTs
//! 2007  out dx,al                   ; answer
//! 2008  sti
//! 2009  hlt                         ; WAKE goes on below
//! 200a  mov sp,0x1000               ; WAKE enters: drop the frame
//! 200d  inc dword [0x4]             ; interrupts
//! 2012  jmp 0x2000
//! 2014  mov sp,0x1000               ; STOP enters: drop the frame
//! 2017  inc dword [0x4]             ; interrupts
//! 201c  out 0xf4,al                 ; the end
//! ```

use iced_x86::IcedError;
use iced_x86::code_asm::{al, bp, dword_ptr, dx, eax, ecx, edx, sp};

use super::{Assembly, Program, Stamps, WAKE, msr};
use crate::memory::{STACK_TOP, counter};

pub fn program(stamps: Stamps) -> Result<Program, IcedError> {
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
    let mut wake = a.create_label();
    a.set_label(&mut wake)?;
    assembly.vectors.push((WAKE, wake));
    if stamps == Stamps::Woke {
        a.rdtsc()?;
        a.mov(dword_ptr(counter::WOKE), eax)?;
        a.mov(dword_ptr(counter::WOKE + 4), edx)?;
        a.xor(eax, eax)?;
    }
    a.mov(sp, u32::from(STACK_TOP))?;
    a.inc(dword_ptr(counter::INTERRUPTS))?;
    a.xor(edx, edx)?;
    a.wrmsr()?;
    a.jmp(answer)?;
    assembly.finish()
}

/// Assembles the one without a local APIC.
pub fn bare_program() -> Result<Program, IcedError> {
    let mut assembly = Assembly::new()?;
    let a = &mut assembly.asm;
    let mut answer = a.create_label();
    a.set_label(&mut answer)?;
    a.mov(dx, bp)?;
    a.inc(dword_ptr(counter::HALTS))?;
    a.out(dx, al)?;
    a.sti()?;
    a.hlt()?;
    assembly.enter(WAKE)?;
    assembly.asm.jmp(answer)?;
    assembly.finish()
}
