//! `tick`: wakes itself, by one-shot TSC deadlines or by the periodic PIT.
//!
//! With deadlines, each round takes the next delta from the table and is due that much after the
//! moment of arming; `si` goes round the table, which fills its 64 KiB exactly.
//!
//! `tick-pit`: channel 0 in mode 2 (rate generator); KVM delivers it as an MSI to vCPU 0.

use iced_x86::IcedError;
use iced_x86::code_asm::{CodeLabel, ah, al, ax, dword_ptr, eax, ecx, edx, si, word_ptr};

use super::{Assembly, Program, TICK, msr};
use crate::memory::{counter, param};

pub(super) const DEADLINE_MODE: u32 = 2 << 17;
const PIT_CHANNEL_0: u32 = 0x40;
const PIT_COMMAND: u32 = 0x43;
/// Channel 0, low byte then high byte, mode 2.
const RATE_GENERATOR: u32 = 0x34;

pub fn deadline_program() -> Result<Program, IcedError> {
    let mut a = with_deadlines()?;
    let arm = a.here()?;
    arm_deadline(&mut a)?;
    tick_until_done(a, arm)
}

/// The beginning of a guest that takes its deadlines from the table.
pub(super) fn with_deadlines() -> Result<Assembly, IcedError> {
    let mut a = Assembly::new()?;
    a.xor(si, si)?;
    a.write_msr(msr::LVT_TIMER, 0, DEADLINE_MODE | u32::from(TICK))?;
    Ok(a)
}

/// The rest of a guest that halts until a timer ticks: a tick is a round.
pub(super) fn tick_until_done(mut a: Assembly, again: CodeLabel) -> Result<Program, IcedError> {
    a.halt(TICK)?;
    a.write_msr(msr::EOI, 0, 0)?;
    a.until(counter::INTERRUPTS, again)?;
    a.finish()
}

pub(super) fn arm_deadline(a: &mut Assembly) -> Result<(), IcedError> {
    a.mov(ecx, msr::TSC_DEADLINE)?;
    a.rdtsc()?;
    a.add(eax, dword_ptr(si).gs())?;
    a.adc(edx, dword_ptr(si + 4).gs())?;
    a.add(si, 8)?;
    a.wrmsr()
}

pub fn pit_program() -> Result<Program, IcedError> {
    let mut a = Assembly::new()?;
    let again = start_pit(&mut a)?;
    tick_until_done(a, again)
}

/// Starts the PIT; the label is where a round begins.
pub(super) fn start_pit(a: &mut Assembly) -> Result<CodeLabel, IcedError> {
    a.mov(al, RATE_GENERATOR)?;
    a.out(PIT_COMMAND, al)?;
    a.mov(ax, word_ptr(param::PERIOD))?;
    a.out(PIT_CHANNEL_0, al)?;
    a.mov(al, ah)?;
    a.out(PIT_CHANNEL_0, al)?;
    a.here()
}
