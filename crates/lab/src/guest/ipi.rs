//! `ipi`: a token goes round a ring of vCPUs; each wakes the next by an x2APIC IPI.
//!
//! vCPU 0 (its `bp` is 0x600) sends first and ends when the token has come home for the last time; the
//! others send after they received. So in N rounds each vCPU halts, receives and sends N times. All others
//! have announced themselves on their answer port before vCPU 0 is started.

use iced_x86::IcedError;
use iced_x86::code_asm::{al, bp, dword_ptr, dx, eax, ebx, ecx, edx};

use super::{Assembly, IPI, Program, msr};
use crate::exit::ANSWER_PORT;
use crate::memory::{counter, param};

pub fn program() -> Result<Program, IcedError> {
    let mut a = Assembly::new()?;
    let done = a.done;
    let mut send = a.create_label();
    let mut wait = a.create_label();
    a.mov(dx, bp)?;
    a.out(dx, al)?;
    a.cmp(bp, u32::from(ANSWER_PORT))?;
    a.jne(wait)?;
    a.set_label(&mut send)?;
    a.mov(ecx, msr::ICR)?;
    a.mov(edx, dword_ptr(param::NEXT))?;
    a.mov(eax, u32::from(IPI))?;
    a.wrmsr()?;
    a.cmp(bp, u32::from(ANSWER_PORT))?;
    a.je(wait)?;
    a.cmp(ebx, dword_ptr(param::ROUNDS))?;
    a.jae(done)?;
    a.set_label(&mut wait)?;
    a.halt(IPI)?;
    a.write_msr(msr::EOI, 0, 0)?;
    a.mov(ebx, dword_ptr(counter::INTERRUPTS))?;
    a.cmp(bp, u32::from(ANSWER_PORT))?;
    a.jne(send)?;
    a.cmp(ebx, dword_ptr(param::ROUNDS))?;
    a.jb(send)?;
    a.jmp(done)?;
    a.finish()
}
