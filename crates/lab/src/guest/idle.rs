//! `idle`: halts; a slow periodic timer of the local APIC is all that wakes it.
//!
//! KVM's APIC timer counts nanoseconds when divided by one, so the initial count is the period.

use iced_x86::IcedError;
use iced_x86::code_asm::{dword_ptr, eax, ecx, edx};

use super::{Assembly, Program, TICK, msr};
use crate::memory::{counter, param};

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
    let again = assembly.here()?;
    assembly.halt(TICK)?;
    assembly.wrmsr(msr::EOI, 0, 0)?;
    assembly.until(counter::INTERRUPTS, again)?;
    assembly.finish()
}
