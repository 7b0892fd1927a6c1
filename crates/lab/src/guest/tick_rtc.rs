//! `tick-rtc`: what an idle Windows guest without Hyper-V's timers makes its host see.
//!
//! Its clock ticks on and on; each tick is acknowledged at the RTC (register C is read, or there is no
//! further interrupt) and the time is read from the ACPI PM timer. The tick itself comes from the PIT,
//! which KVM has in the kernel; the ports are answered by the VMM.

use iced_x86::IcedError;
use iced_x86::code_asm::{al, dx, eax};

use super::{Assembly, Program, TICK, msr, tick};
use crate::memory::counter;

/// Number of the RTC's register, and its value (`asm/mc146818rtc.h`).
const RTC_INDEX: u32 = 0x70;
const RTC_DATA: u32 = 0x71;
const RTC_REGISTER_C: u32 = 0x0c;
/// The PM timer where `SeaBIOS` puts it.
const PM_TIMER: u32 = 0x608;

pub fn program() -> Result<Program, IcedError> {
    let mut a = Assembly::new()?;
    let again = tick::start_pit(&mut a)?;
    a.halt(TICK)?;
    a.mov(al, RTC_REGISTER_C)?;
    a.out(RTC_INDEX, al)?;
    a.in_(al, RTC_DATA)?;
    a.mov(dx, PM_TIMER)?;
    a.in_(eax, dx)?;
    a.write_msr(msr::EOI, 0, 0)?;
    a.until(counter::INTERRUPTS, again)?;
    a.finish()
}
