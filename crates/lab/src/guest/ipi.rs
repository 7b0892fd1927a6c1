//! `ipi`: a token goes round a ring of vCPUs; each wakes the next by an x2APIC IPI.
//!
//! vCPU 0 (its `bp` is 0x600) sends first and ends when the token has come home for the last time; the
//! others send after they received. So in N rounds each vCPU halts, receives and sends N times. All others
//! have announced themselves on their answer port before vCPU 0 is started.
//!
//! ```nasm
//! 2000  mov dx,bp                   ; answer port
//! 2002  out dx,al                   ; ready
//! 2003  cmp bp,0x600                ; vCPU 0?
//! 2007  jne 0x2029
//! 2009  mov ecx,0x830               ; ICR: fixed, edge, to one APIC id
//! 200f  mov edx,[0x48]              ; next in the ring
//! 2014  mov eax,0x42                ; vector IPI
//! 201a  wrmsr
//! 201c  cmp bp,0x600                ; vCPU 0?
//! 2020  je 0x2029
//! 2022  cmp ebx,[0x40]              ; rounds
//! 2027  jae 0x2062
//! 2029  inc dword [0x0]             ; HLTs
//! 202e  sti
//! 202f  hlt                         ; IPI goes on below
//! 2030  mov sp,0x1000               ; IPI enters: drop the frame
//! 2033  inc dword [0x4]             ; interrupts
//! 2038  mov ecx,0x80b               ; EOI
//! 203e  xor eax,eax
//! 2041  xor edx,edx
//! 2044  wrmsr
//! 2046  mov ebx,[0x4]
//! 204b  cmp bp,0x600                ; vCPU 0?
//! 204f  jne 0x2009
//! 2051  cmp ebx,[0x40]              ; rounds
//! 2056  jb 0x2009
//! 2058  jmp 0x2062
//! 205a  mov sp,0x1000               ; STOP enters: drop the frame
//! 205d  inc dword [0x4]             ; interrupts
//! 2062  out 0xf4,al                 ; the end
//! ```

use iced_x86::IcedError;
use iced_x86::code_asm::{al, bp, dword_ptr, dx, eax, ebx, ecx, edx};

use super::{Assembly, IPI, Program, msr};
use crate::exit::ANSWER_PORT;
use crate::memory::{counter, param};

pub fn program() -> Result<Program, IcedError> {
    let mut assembly = Assembly::new()?;
    let done = assembly.done;
    let a = &mut assembly.asm;
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
    assembly.halt(IPI)?;
    assembly.wrmsr(msr::EOI, 0, 0)?;
    let a = &mut assembly.asm;
    a.mov(ebx, dword_ptr(counter::INTERRUPTS))?;
    a.cmp(bp, u32::from(ANSWER_PORT))?;
    a.jne(send)?;
    a.cmp(ebx, dword_ptr(param::ROUNDS))?;
    a.jb(send)?;
    a.jmp(done)?;
    assembly.finish()
}
