//! `tick`: wakes itself, by one-shot TSC deadlines or by the periodic PIT.
//!
//! With deadlines, each round takes the next delta from the table and is due that much after the
//! moment of arming; `si` goes round the table, which fills its 64 KiB exactly.
//!
//! ```nasm
//! 2000  xor si,si
//! 2002  mov ecx,0x832               ; LVT timer
//! 2008  mov eax,0x40041             ; TSC deadline, vector TICK
//! 200e  xor edx,edx
//! 2011  wrmsr
//! 2013  mov ecx,0x6e0               ; TSC deadline = now + next delta
//! 2019  rdtsc
//! 201b  add eax,[gs:si]
//! 201f  adc edx,[gs:si+0x4]
//! 2024  add si,0x8                  ; wraps at 64 KiB with the table
//! 2027  wrmsr
//! 2029  inc dword [0x0]             ; HLTs
//! 202e  sti
//! 202f  hlt                         ; TICK goes on below
//! 2030  mov sp,0x1000               ; TICK enters: drop the frame
//! 2033  inc dword [0x4]             ; interrupts
//! 2038  mov ecx,0x80b               ; EOI
//! 203e  xor eax,eax
//! 2041  xor edx,edx
//! 2044  wrmsr
//! 2046  mov eax,[0x4]
//! 204a  cmp eax,[0x40]              ; rounds
//! 204f  jb 0x2013
//! 2051  jmp 0x205b
//! 2053  mov sp,0x1000               ; STOP enters: drop the frame
//! 2056  inc dword [0x4]             ; interrupts
//! 205b  out 0xf4,al                 ; the end
//! ```
//!
//! `tick-pit`: channel 0 in mode 2 (rate generator); KVM delivers it as an MSI to vCPU 0.
//!
//! ```nasm
//! 2000  mov al,0x34                 ; channel 0, both bytes, mode 2
//! 2002  out 0x43,al
//! 2004  mov ax,[0x44]               ; period
//! 2007  out 0x40,al
//! 2009  mov al,ah
//! 200b  out 0x40,al
//! 200d  inc dword [0x0]             ; HLTs
//! 2012  sti
//! 2013  hlt                         ; TICK goes on below
//! 2014  mov sp,0x1000               ; TICK enters: drop the frame
//! 2017  inc dword [0x4]             ; interrupts
//! 201c  mov ecx,0x80b               ; EOI
//! 2022  xor eax,eax
//! 2025  xor edx,edx
//! 2028  wrmsr
//! 202a  mov eax,[0x4]
//! 202e  cmp eax,[0x40]              ; rounds
//! 2033  jb 0x200d
//! 2035  jmp 0x203f
//! 2037  mov sp,0x1000               ; STOP enters: drop the frame
//! 203a  inc dword [0x4]             ; interrupts
//! 203f  out 0xf4,al                 ; the end
//! ```

use iced_x86::IcedError;
use iced_x86::code_asm::{CodeLabel, ah, al, ax, dword_ptr, eax, ecx, edx, si, word_ptr};

use super::{Assembly, Program, TICK, msr};
use crate::memory::param;

pub(super) const DEADLINE_MODE: u32 = 2 << 17;
const PIT_CHANNEL_0: u32 = 0x40;
const PIT_COMMAND: u32 = 0x43;
/// Channel 0, low byte then high byte, mode 2.
const RATE_GENERATOR: u32 = 0x34;

pub fn deadline_program() -> Result<Program, IcedError> {
    let mut assembly = Assembly::new()?;
    assembly.asm.xor(si, si)?;
    assembly.wrmsr(msr::LVT_TIMER, 0, DEADLINE_MODE | u32::from(TICK))?;
    let mut arm = assembly.asm.create_label();
    assembly.asm.set_label(&mut arm)?;
    arm_deadline(&mut assembly)?;
    assembly.halt(TICK)?;
    assembly.wrmsr(msr::EOI, 0, 0)?;
    assembly.until_rounds_are_done(arm)?;
    assembly.finish()
}

pub(super) fn arm_deadline(assembly: &mut Assembly) -> Result<(), IcedError> {
    let a = &mut assembly.asm;
    a.mov(ecx, msr::TSC_DEADLINE)?;
    a.rdtsc()?;
    a.add(eax, dword_ptr(si).gs())?;
    a.adc(edx, dword_ptr(si + 4).gs())?;
    a.add(si, 8)?;
    a.wrmsr()
}

pub fn pit_program() -> Result<Program, IcedError> {
    let mut assembly = Assembly::new()?;
    let again = start_pit(&mut assembly)?;
    assembly.halt(TICK)?;
    assembly.wrmsr(msr::EOI, 0, 0)?;
    assembly.until_rounds_are_done(again)?;
    assembly.finish()
}

/// Starts the PIT; the label is where a round begins.
pub(super) fn start_pit(assembly: &mut Assembly) -> Result<CodeLabel, IcedError> {
    let a = &mut assembly.asm;
    a.mov(al, RATE_GENERATOR)?;
    a.out(PIT_COMMAND, al)?;
    a.mov(ax, word_ptr(param::PERIOD))?;
    a.out(PIT_CHANNEL_0, al)?;
    a.mov(al, ah)?;
    a.out(PIT_CHANNEL_0, al)?;
    let mut again = a.create_label();
    a.set_label(&mut again)?;
    Ok(again)
}
