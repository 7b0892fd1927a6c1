//! `tick` and its kin: guests that wake themselves, by one-shot TSC deadlines or by a periodic timer.
//!
//! With deadlines, each round takes the next delta from the table and is due that much after the
//! moment of arming; `si` goes round the table, which fills its 64 KiB exactly.
//!
//! `tick-pit`: channel 0 in mode 2 (rate generator); KVM delivers it as an MSI to vCPU 0.

use iced_x86::IcedError;
use iced_x86::code_asm::{CodeLabel, ah, al, ax, dword_ptr, dx, eax, ecx, edx, si, word_ptr};

use super::{Assembly, Program, TICK, msr};
use crate::exit::HOP_PORT;
use crate::memory::{counter, param};

pub(super) const DEADLINE_MODE: u32 = 2 << 17;
const PIT_CHANNEL_0: u32 = 0x40;
const PIT_COMMAND: u32 = 0x43;
/// Channel 0, low byte then high byte, mode 2.
const RATE_GENERATOR: u32 = 0x34;
const PERIODIC_MODE: u32 = 1 << 17;
const BY_ONE: u32 = 0b1011;
/// Number of the RTC's register, and its value (`asm/mc146818rtc.h`).
const RTC_INDEX: u32 = 0x70;
const RTC_DATA: u32 = 0x71;
const RTC_REGISTER_C: u32 = 0x0c;
/// The PM timer where `SeaBIOS` puts it.
const PM_TIMER: u32 = 0x608;

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

/// `tick-rtc`: what an idle Windows guest without Hyper-V's timers makes its host see. Its clock ticks on and on;
/// each tick is acknowledged at the RTC (register C is read, or there is no further interrupt) and the time is
/// read from the ACPI PM timer. The tick comes from the PIT; the ports are answered by the VMM.
pub fn rtc_program() -> Result<Program, IcedError> {
    let mut a = Assembly::new()?;
    let again = start_pit(&mut a)?;
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

/// `hop`: a vCPU that goes on in another thread after every round, as some VMMs let theirs: a round is an `out`
/// to [`HOP_PORT`], after which a new thread of the VMM runs the vCPU, and a HLT as in `tick`.
pub fn hop_program() -> Result<Program, IcedError> {
    let mut a = with_deadlines()?;
    let round = a.here()?;
    a.out(u32::from(HOP_PORT), al)?;
    arm_deadline(&mut a)?;
    tick_until_done(a, round)
}

/// `idle`: halts; a slow periodic timer of the local APIC is all that wakes it. KVM's APIC timer counts
/// nanoseconds when divided by one, so the initial count is the period.
pub fn idle_program() -> Result<Program, IcedError> {
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
