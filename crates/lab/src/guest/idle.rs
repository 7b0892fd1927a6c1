//! `idle`: halts; a slow periodic timer of the local APIC is all that wakes it.
//!
//! KVM's APIC timer counts nanoseconds when divided by one, so the initial count is the period.

use iced_x86::IcedError;
use iced_x86::code_asm::{dword_ptr, eax, ecx, edx};

use super::tick::tick_until_done;
use super::{Assembly, Program, TICK, msr};
use crate::memory::param;

const PERIODIC_MODE: u32 = 1 << 17;
const BY_ONE: u32 = 0b1011;

pub fn program() -> Result<Program, IcedError> {
    let mut a = Assembly::new()?;
    a.write_msr(msr::TIMER_DIVIDE, 0, BY_ONE)?;
    a.write_msr(msr::LVT_TIMER, 0, PERIODIC_MODE | u32::from(TICK))?;
    a.mov(ecx, msr::TIMER_INITIAL_COUNT)?;
    a.mov(eax, dword_ptr(param::PERIOD))?;
    a.xor(edx, edx)?;
    a.wrmsr()?;
    let again = a.here()?;
    tick_until_done(a, again)
}
