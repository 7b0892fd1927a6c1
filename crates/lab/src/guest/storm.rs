//! Storms of exits: a driver that polls a port of a device that is not there, one that draws into a frame
//! buffer which nothing backs, and CPUID, which KVM handles by itself. None halts; all take a pending
//! interrupt with the last exit of a round. (Between `sti` and `cli` must lie an exit: KVM in software does not look at interrupts after
//! each instruction.)
//!
//! `port-poll` reads the line status of a serial port, `framebuffer` goes over the 64 KiB from `fs:0` on, a byte in
//! every 64, `cpuid` executes CPUID in a loop of two more instructions, so that its CPU time is that of exits.

use iced_x86::IcedError;
use iced_x86::code_asm::{CodeLabel, al, byte_ptr, cx, di, dword_ptr, dx, eax};

use super::exits::CPUID_LEAF;
use super::{Assembly, Program};
use crate::memory::{counter, param};

/// Line status register of the first serial port.
pub const POLLED_PORT: u16 = 0x3fd;
pub const POLLS: u32 = 1000;
pub const CPUIDS: u32 = 1000;
/// From one byte drawn to the next.
pub const STRIDE: u32 = 64;
/// Where the last byte of a round is drawn.
const LAST: i16 = -64;

pub fn port_program() -> Result<Program, IcedError> {
    let mut a = Assembly::new()?;
    let round = a.here()?;
    a.mov(dx, u32::from(POLLED_PORT))?;
    a.mov(cx, POLLS - 1)?;
    let again = a.here()?;
    a.in_(al, dx)?;
    a.loop_(again)?;
    a.sti()?;
    a.in_(al, dx)?;
    end(a, round)
}

pub fn framebuffer_program() -> Result<Program, IcedError> {
    let mut a = Assembly::new()?;
    let round = a.here()?;
    a.xor(di, di)?;
    let again = a.here()?;
    a.mov(byte_ptr(di).fs(), al)?;
    a.add(di, STRIDE)?;
    a.cmp(di, i32::from(LAST))?;
    a.jne(again)?;
    a.sti()?;
    a.mov(byte_ptr(di).fs(), al)?;
    end(a, round)
}

pub fn cpuid_program() -> Result<Program, IcedError> {
    let mut a = Assembly::new()?;
    let round = a.here()?;
    a.mov(di, CPUIDS - 1)?;
    let again = a.here()?;
    a.mov(eax, CPUID_LEAF)?;
    a.cpuid()?;
    a.dec(di)?;
    a.jne(again)?;
    a.sti()?;
    a.cpuid()?;
    end(a, round)
}

/// The end of a round, after an access that lets an interrupt in: counts it, and goes on until all are
/// done.
fn end(mut a: Assembly, round: CodeLabel) -> Result<Program, IcedError> {
    a.cli()?;
    a.inc(dword_ptr(counter::ROUNDS))?;
    a.dec(dword_ptr(param::ROUNDS))?;
    a.jne(round)?;
    let done = a.done;
    a.jmp(done)?;
    a.finish()
}
