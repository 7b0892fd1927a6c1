//! `hop`: a vCPU that goes on in another thread after every round, as some VMMs let theirs.
//!
//! A round is an `out` to [`HOP_PORT`], after which a new thread of the VMM runs the vCPU, and one HLT
//! that a one-shot deadline ends, as in `tick`.

use iced_x86::IcedError;
use iced_x86::code_asm::{al, si};

use super::tick::{DEADLINE_MODE, arm_deadline};
use super::{Assembly, Program, TICK, msr};
use crate::exit::HOP_PORT;
use crate::memory::counter;

pub fn program() -> Result<Program, IcedError> {
    let mut assembly = Assembly::new()?;
    assembly.asm.xor(si, si)?;
    assembly.wrmsr(msr::LVT_TIMER, 0, DEADLINE_MODE | u32::from(TICK))?;
    let round = assembly.here()?;
    assembly.asm.out(u32::from(HOP_PORT), al)?;
    arm_deadline(&mut assembly)?;
    assembly.halt(TICK)?;
    assembly.wrmsr(msr::EOI, 0, 0)?;
    assembly.until(counter::INTERRUPTS, round)?;
    assembly.finish()
}
