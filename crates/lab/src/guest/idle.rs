//! `idle`: halts; a slow periodic timer of the local APIC is all that wakes it.
//!
//! KVM's APIC timer counts nanoseconds when divided by one, so the initial count is the period.
//!
//! ```nasm
//! 2000  mov ecx,0x83e               ; divide configuration
//! 2006  mov eax,0xb                 ; by one
//! 200c  xor edx,edx
//! 200f  wrmsr
//! 2011  mov ecx,0x832               ; LVT timer
//! 2017  mov eax,0x20041             ; periodic, vector TICK
//! 201d  xor edx,edx
//! 2020  wrmsr
//! 2022  mov ecx,0x838               ; initial count
//! 2028  mov eax,[0x44]              ; period
//! 202c  xor edx,edx
//! 202f  wrmsr
//! 2031  inc dword [0x0]             ; HLTs
//! 2036  sti
//! 2037  hlt                         ; TICK goes on below
//! 2038  mov sp,0x1000               ; TICK enters: drop the frame
//! 203b  inc dword [0x4]             ; interrupts
//! 2040  mov ecx,0x80b               ; EOI
//! 2046  xor eax,eax
//! 2049  xor edx,edx
//! 204c  wrmsr
//! 204e  mov eax,[0x4]
//! 2052  cmp eax,[0x40]              ; rounds
//! 2057  jb 0x2031
//! 2059  jmp 0x2063
//! 205b  mov sp,0x1000               ; STOP enters: drop the frame
//! 205e  inc dword [0x4]             ; interrupts
//! 2063  out 0xf4,al                 ; the end
//! ```

use iced_x86::IcedError;
use iced_x86::code_asm::{dword_ptr, eax, ecx, edx};

use super::{Assembly, Program, TICK, msr};
use crate::memory::param;

const PERIODIC_MODE: u32 = 1 << 17;
const BY_ONE: u32 = 0b1011;

pub fn program() -> Result<Program, IcedError> {
    let mut assembly = Assembly::new()?;
    assembly.wrmsr(msr::TIMER_DIVIDE, 0, BY_ONE)?;
    assembly.wrmsr(msr::LVT_TIMER, 0, PERIODIC_MODE | u32::from(TICK))?;
    let a = &mut assembly.asm;
    a.mov(ecx, msr::TIMER_INITIAL_COUNT)?;
    a.mov(eax, dword_ptr(param::PERIOD))?;
    a.xor(edx, edx)?;
    a.wrmsr()?;
    let mut again = a.create_label();
    a.set_label(&mut again)?;
    assembly.halt(TICK)?;
    assembly.wrmsr(msr::EOI, 0, 0)?;
    assembly.until_rounds_are_done(again)?;
    assembly.finish()
}
