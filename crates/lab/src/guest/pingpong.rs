//! `pingpong`: answers the host's wake-up, and halts again.
//!
//! The first answer, before any wake-up, says that it is ready. Two instructions lie between
//! an answer and HLT, seven between a wake-up and its answer; the registers for EOI are kept loaded.
//!
//! `pingpong-stamped` reads the TSC first of all after a wake-up, at the price of four instructions
//! before the answer. Where KVM has no irqchip there is no local APIC either, and nothing to tell of an
//! interrupt's end.

use iced_x86::IcedError;
use iced_x86::code_asm::{CodeLabel, al, bp, dword_ptr, dx, eax, ecx, edx, sp};

use super::{Assembly, Program, Stamps, WAKE, msr};
use crate::memory::{STACK_TOP, counter};

pub fn program(stamps: Stamps) -> Result<Program, IcedError> {
    let mut a = Assembly::new()?;
    a.mov(ecx, msr::EOI)?;
    a.xor(eax, eax)?;
    let answer = answer(&mut a)?;
    let wake = a.here()?;
    a.vectors.push((WAKE, wake));
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
    a.finish()
}

/// Assembles the one without a local APIC.
pub fn bare_program() -> Result<Program, IcedError> {
    let mut a = Assembly::new()?;
    let answer = answer(&mut a)?;
    a.enter(WAKE)?;
    a.jmp(answer)?;
    a.finish()
}

fn answer(a: &mut Assembly) -> Result<CodeLabel, IcedError> {
    let answer = a.here()?;
    a.mov(dx, bp)?;
    a.inc(dword_ptr(counter::HALTS))?;
    a.out(dx, al)?;
    a.sti()?;
    a.hlt()?;
    Ok(answer)
}
