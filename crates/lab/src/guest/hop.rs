//! `hop`: a vCPU that goes on in another thread after every round, as some VMMs let theirs.
//!
//! A round is an `out` to [`HOP_PORT`], after which a new thread of the VMM runs the vCPU, and one HLT
//! that a one-shot deadline ends, as in `tick`.
//!
//! ```nasm
//! 2000  xor si,si
//! 2002  mov ecx,0x832               ; LVT timer
//! 2008  mov eax,0x40041             ; TSC deadline, vector TICK
//! 200e  xor edx,edx
//! 2011  wrmsr
//! 2013  out 0xf5,al                 ; go on in another thread
//! 2015  mov ecx,0x6e0               ; TSC deadline = now + next delta
//! 201b  rdtsc
//! 201d  add eax,[gs:si]
//! 2021  adc edx,[gs:si+0x4]
//! 2026  add si,0x8                  ; wraps at 64 KiB with the table
//! 2029  wrmsr
//! 202b  inc dword [0x0]             ; HLTs
//! 2030  sti
//! 2031  hlt                         ; TICK goes on below
//! 2032  mov sp,0x1000               ; TICK enters: drop the frame
//! 2035  inc dword [0x4]
//! 203a  mov ecx,0x80b               ; EOI
//! 2040  xor eax,eax
//! 2043  xor edx,edx
//! 2046  wrmsr
//! 2048  mov eax,[0x4]
//! 204c  cmp eax,[0x40]              ; rounds
//! 2051  jb 0x2013
//! 2053  jmp 0x205d
//! 2055  mov sp,0x1000               ; STOP enters: drop the frame
//! 2058  inc dword [0x4]
//! 205d  out 0xf4,al                 ; the end
//! ```

use iced_x86::IcedError;
use iced_x86::code_asm::{al, si};

use super::tick::{DEADLINE_MODE, arm_deadline};
use super::{Assembly, Program, TICK, msr};
use crate::exit::HOP_PORT;

pub fn program() -> Result<Program, IcedError> {
    let mut assembly = Assembly::new()?;
    assembly.asm.xor(si, si)?;
    assembly.wrmsr(msr::LVT_TIMER, 0, DEADLINE_MODE | u32::from(TICK))?;
    let mut round = assembly.asm.create_label();
    assembly.asm.set_label(&mut round)?;
    assembly.asm.out(u32::from(HOP_PORT), al)?;
    arm_deadline(&mut assembly)?;
    assembly.halt(TICK)?;
    assembly.wrmsr(msr::EOI, 0, 0)?;
    assembly.until_rounds_are_done(round)?;
    assembly.finish()
}
