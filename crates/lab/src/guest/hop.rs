//! `hop`: a vCPU that goes on in another thread after every round, as some VMMs let theirs.
//!
//! A round is an `out` to [`HOP_PORT`], after which a new thread of the VMM runs the vCPU, and one HLT
//! that a one-shot deadline ends, as in `tick`.

use iced_x86::IcedError;
use iced_x86::code_asm::al;

use super::Program;
use super::tick::{arm_deadline, tick_until_done, with_deadlines};
use crate::exit::HOP_PORT;

pub fn program() -> Result<Program, IcedError> {
    let mut a = with_deadlines()?;
    let round = a.here()?;
    a.out(u32::from(HOP_PORT), al)?;
    arm_deadline(&mut a)?;
    tick_until_done(a, round)
}
