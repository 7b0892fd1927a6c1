//! `script`: does what a table says, and writes down what it sees. For holding a device's model against
//! another one of it.
//!
//! A step is four bytes: what to do ([`Step`]), a value, a port. What an `in` gives and the vectors of
//! interrupts are written to its page from [`LOG`] on, in the order in which they come; interrupts are let
//! in by [`Step::Window`] alone, which writes 0 after them.

use iced_x86::IcedError;
use iced_x86::code_asm::{ah, al, bx, byte_ptr, cx, dx, si, word_ptr};

use haltwise_lab::guest::{Assembly, Program};
use haltwise_lab::memory::{GuestMemory, STACK_TOP, TABLE, vcpu_page};

/// Where it writes what it sees.
pub(super) const LOG: u16 = 0x200;
/// Vectors that it knows: those of a pair of 8259s.
pub(super) const VECTORS: std::ops::Range<u8> = 0x60..0x70;

/// The port that PCs keep for delays: an exit, at which an interrupt comes in.
const DELAY_PORT: u8 = 0x80;
/// Exits of a window: more than there are lines.
const LOOKS: u32 = 24;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Out(u16, u8),
    In(u16),
    Window,
}

impl Step {
    fn bytes(self) -> [u8; 4] {
        let (what, value, port) = match self {
            Self::Out(port, value) => (0, value, port),
            Self::In(port) => (1, 0, port),
            Self::Window => (2, 0, 0),
        };
        let [low, high] = port.to_le_bytes();
        [what, value, low, high]
    }
}

pub(super) fn program() -> Result<Program, IcedError> {
    let mut a = Assembly::new()?;
    let done = a.done;
    let (mut read, mut window, mut next) = (a.create_label(), a.create_label(), a.create_label());
    a.xor(si, si)?;
    a.mov(bx, u32::from(LOG))?;
    a.set_label(&mut next)?;
    a.mov(al, byte_ptr(si).gs())?;
    a.mov(ah, byte_ptr(si + 1).gs())?;
    a.mov(dx, word_ptr(si + 2).gs())?;
    a.add(si, 4)?;
    a.cmp(al, 1)?;
    a.je(read)?;
    a.cmp(al, 2)?;
    a.je(window)?;
    a.ja(done)?;
    a.mov(al, ah)?;
    a.out(dx, al)?;
    a.jmp(next)?;
    a.set_label(&mut read)?;
    a.in_(al, dx)?;
    a.mov(byte_ptr(bx), al)?;
    a.inc(bx)?;
    a.jmp(next)?;
    a.set_label(&mut window)?;
    a.mov(cx, LOOKS)?;
    a.sti()?;
    let look = a.here()?;
    a.out(u32::from(DELAY_PORT), al)?;
    a.loop_(look)?;
    a.cli()?;
    a.mov(byte_ptr(bx), 0)?;
    a.inc(bx)?;
    a.jmp(next)?;
    for vector in VECTORS {
        let here = a.here()?;
        a.vectors.push((vector, here));
        a.mov(byte_ptr(bx), u32::from(vector))?;
        a.inc(bx)?;
        a.iret()?;
    }
    a.finish()
}

/// Writes a script into the table of a VM that does not run.
pub(super) fn load(memory: &GuestMemory, steps: &[Step]) -> anyhow::Result<()> {
    let steps = steps.iter().flat_map(|step| step.bytes());
    let bytes: Vec<u8> = steps.chain([3, 0, 0, 0]).collect();
    memory.write(TABLE, &bytes)
}

/// Log of vCPU 0: the whole log area, zeroes after the end.
pub(super) fn log(memory: &GuestMemory) -> anyhow::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::from(STACK_TOP - LOG)];
    memory.read(vcpu_page(0) + u32::from(LOG), &mut bytes)?;
    Ok(bytes)
}
