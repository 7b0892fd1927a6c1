//! `pic-driver`: a device's interrupts through an 8259, handled as Linux does: mask, end, unmask.
//!
//! Each round it has the device raise its line, spins until the interrupt is there, reads the mask, masks
//! the line, ends the interrupt, unmasks the line, and then does some work of its own.

use iced_x86::IcedError;
use iced_x86::code_asm::{CodeAssembler, al, dword_ptr, dx, ecx};

use crate::device::board::{LINE_PORT, PULSE};
use haltwise_lab::guest::{Assembly, Program, WAKE};
use haltwise_lab::memory::param;

const LINE: u8 = 0;
const COMMAND: u32 = 0x20;
const DATA: u32 = 0x21;
/// ICW1 to ICW4 and a mask of the pair as every PC's firmware writes them: ports and values.
const INITIALIZE: [(u32, u8); 10] = [
    (COMMAND, 0x11),
    (DATA, WAKE),
    (DATA, 0x04),
    (DATA, 0x01),
    (0xa0, 0x11),
    (0xa1, WAKE + 8),
    (0xa1, 0x02),
    (0xa1, 0x01),
    (0xa1, 0xff),
    (DATA, UNMASKED),
];
const UNMASKED: u8 = !(1 << LINE);
const SPECIFIC_EOI: u8 = 0x60;

/// Assembles it. The work of a round is [`param::PERIOD`] turns of an empty loop.
pub fn program() -> Result<Program, IcedError> {
    let mut a = Assembly::new()?;
    for (port, value) in INITIALIZE {
        out(&mut a, port, value)?;
    }
    let round = a.here()?;
    a.mov(dx, u32::from(LINE_PORT) + u32::from(LINE))?;
    a.sti()?;
    a.mov(al, u32::from(PULSE))?;
    a.out(dx, al)?;
    let spin = a.here()?;
    a.jmp(spin)?;
    a.enter(WAKE + LINE)?;
    a.in_(al, DATA)?;
    out(&mut a, DATA, 0xff)?;
    out(&mut a, COMMAND, SPECIFIC_EOI | LINE)?;
    out(&mut a, DATA, UNMASKED)?;
    a.mov(ecx, dword_ptr(param::PERIOD))?;
    a.inc(ecx)?;
    let work = a.here()?;
    a.dec(ecx)?;
    a.jne(work)?;
    a.count_round(round)?;
    a.finish()
}

fn out(a: &mut CodeAssembler, port: u32, value: u8) -> Result<(), IcedError> {
    a.mov(al, u32::from(value))?;
    a.out(port, al)
}
