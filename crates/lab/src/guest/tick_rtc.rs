//! `tick-rtc`: what an idle Windows guest without Hyper-V's timers makes its host see.
//!
//! Its clock ticks on and on; each tick is acknowledged at the RTC (register C is read, or there is no
//! further interrupt) and the time is read from the ACPI PM timer. The tick itself comes from the PIT,
//! which KVM has in the kernel; the ports are answered by the VMM.
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
//! 2017  inc dword [0x4]
//! 201c  mov al,0xc                  ; register C
//! 201e  out 0x70,al
//! 2020  in al,0x71                  ; the tick is acknowledged
//! 2022  mov dx,0x608                ; ACPI PM timer
//! 2025  in eax,dx
//! 2027  mov ecx,0x80b               ; EOI
//! 202d  xor eax,eax
//! 2030  xor edx,edx
//! 2033  wrmsr
//! 2035  mov eax,[0x4]
//! 2039  cmp eax,[0x40]              ; rounds
//! 203e  jb 0x200d
//! 2040  jmp 0x204a
//! 2042  mov sp,0x1000               ; STOP enters: drop the frame
//! 2045  inc dword [0x4]
//! 204a  out 0xf4,al                 ; the end
//! ```

use iced_x86::IcedError;
use iced_x86::code_asm::{al, dx, eax};

use super::{Assembly, Program, TICK, msr, tick};

/// Number of the RTC's register, and its value (`asm/mc146818rtc.h`).
const RTC_INDEX: u32 = 0x70;
const RTC_DATA: u32 = 0x71;
const RTC_REGISTER_C: u32 = 0x0c;
/// The PM timer where `SeaBIOS` puts it.
const PM_TIMER: u32 = 0x608;

pub fn program() -> Result<Program, IcedError> {
    let mut assembly = Assembly::new()?;
    let again = tick::start_pit(&mut assembly)?;
    assembly.halt(TICK)?;
    let a = &mut assembly.asm;
    a.mov(al, RTC_REGISTER_C)?;
    a.out(RTC_INDEX, al)?;
    a.in_(al, RTC_DATA)?;
    a.mov(dx, PM_TIMER)?;
    a.in_(eax, dx)?;
    assembly.wrmsr(msr::EOI, 0, 0)?;
    assembly.until_rounds_are_done(again)?;
    assembly.finish()
}
