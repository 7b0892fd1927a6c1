//! Guests that note how late their timers are: of the PIT, of the local APIC, and of a page shared with an
//! agent of the host (`experiments::exitless_timer`).
//!
//! All but the PIT's are due the next delta of the table after they are armed. The handler reads the TSC
//! first, and keeps its distance from the deadline in a ring. The PIT's guest knows no deadline: it keeps
//! the TSC of each tick.
//!
//! `timed-exitless` is the guest's side of the page, written out: two more words of sequence for each
//! deadline, and the local APIC's timer where the agent would sleep over it, or is not there at all.
//! `timed-nonsense` does the same, but before each deadline it leaves the sequence odd for a moment, writes
//! one years ahead, moves that back to one which passed long ago, and overwrites the agent's own word.
//!
//! Two vectors lead to the same handler: [`super::TICK`] of the local APIC, [`super::WAKE`] of the agent.

use std::sync::atomic::Ordering;

use iced_x86::IcedError;
use iced_x86::code_asm::{CodeAssembler, CodeLabel, di, dword_ptr, eax, ebx, ecx, edx, si};

use super::{Assembly, Program, TICK, WAKE, msr, tick};
use crate::memory::timer::page::{self, NEVER};
use crate::memory::{GuestMemory, timer, vcpu_page};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    Pit,
    TscDeadline,
    Exitless,
    Nonsense,
}

/// Words of the page as offsets from `ds`.
const SEQUENCE: u16 = timer::PAGE;
const DEADLINE: u16 = timer::PAGE + 8;
const NEXT_SYNC: u16 = timer::PAGE + 64;
const FIRED: u16 = timer::PAGE + 72;
/// Bytes of the ring, less one: a mask.
const RING: u32 = timer::SAMPLE_COUNT as u32 * 4 - 1;

/// Says that there is no agent, until there is one.
pub(crate) fn tell(memory: &GuestMemory, vcpu: u32) -> anyhow::Result<()> {
    let address = vcpu_page(vcpu) + u32::from(timer::PAGE) + page::NEXT_SYNC;
    memory.store(address, NEVER, Ordering::Release)
}

pub fn program(clock: Clock) -> Result<Program, IcedError> {
    let mut a = Assembly::new()?;
    a.xor(si, si)?;
    a.xor(di, di)?;
    if clock == Clock::Pit {
        let again = tick::start_pit(&mut a)?;
        a.halt(TICK)?;
        a.rdtsc()?;
        a.mov(dword_ptr(timer::DUE), eax)?;
        a.mov(dword_ptr(timer::DUE + 4), edx)?;
        return finish(a, again);
    }
    let lvt = tick::DEADLINE_MODE | u32::from(TICK);
    a.write_msr(msr::LVT_TIMER, 0, lvt)?;
    let again = a.here()?;
    if clock == Clock::Nonsense {
        nonsense(&mut a)?;
    }
    let mut wait = a.create_label();
    deadline(&mut a)?;
    if clock != Clock::TscDeadline {
        by_page(&mut a, wait)?;
    }
    a.mov(ecx, msr::TSC_DEADLINE)?;
    a.wrmsr()?;
    a.inc(dword_ptr(timer::HARDWARE))?;
    a.set_label(&mut wait)?;
    a.halt(TICK)?;
    if clock != Clock::TscDeadline {
        let here = a.vectors[0].1;
        a.vectors.push((WAKE, here));
    }
    late(&mut a, wait)?;
    finish(a, again)
}

/// `edx:eax`: now and the next delta; also kept.
fn deadline(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.rdtsc()?;
    a.add(eax, dword_ptr(si).gs())?;
    a.adc(edx, dword_ptr(si + 4).gs())?;
    a.add(si, 8)?;
    a.mov(dword_ptr(timer::DUE), eax)?;
    a.mov(dword_ptr(timer::DUE + 4), edx)
}

/// Writes `edx:eax` into the page; goes to `wait` unless the agent would sleep over it.
fn by_page(a: &mut CodeAssembler, wait: CodeLabel) -> Result<(), IcedError> {
    let (mut torn, mut hardware) = (a.create_label(), a.create_label());
    a.inc(dword_ptr(SEQUENCE))?;
    a.mov(dword_ptr(DEADLINE), eax)?;
    a.mov(dword_ptr(DEADLINE + 4), edx)?;
    // A barrier: the deadline is there before the agent's promise is read.
    a.lock().inc(dword_ptr(SEQUENCE))?;
    a.set_label(&mut torn)?;
    a.mov(ecx, dword_ptr(NEXT_SYNC + 4))?;
    a.mov(ebx, dword_ptr(NEXT_SYNC))?;
    a.cmp(ecx, dword_ptr(NEXT_SYNC + 4))?;
    a.jne(torn)?;
    a.cmp(edx, ecx)?;
    a.ja(wait)?;
    a.jb(hardware)?;
    a.cmp(eax, ebx)?;
    a.jae(wait)?;
    a.set_label(&mut hardware)?;
    a.inc(dword_ptr(SEQUENCE))?;
    a.mov(dword_ptr(DEADLINE), 0)?;
    a.mov(dword_ptr(DEADLINE + 4), 0)?;
    a.inc(dword_ptr(SEQUENCE))
}

/// Writes values that no guest should write.
fn nonsense(a: &mut CodeAssembler) -> Result<(), IcedError> {
    // Years ahead, under a sequence that stays odd for a while.
    a.inc(dword_ptr(SEQUENCE))?;
    a.mov(dword_ptr(DEADLINE), u32::MAX)?;
    a.mov(dword_ptr(DEADLINE + 4), u32::MAX >> 1)?;
    for _ in 0..16 {
        a.nop()?;
    }
    a.inc(dword_ptr(SEQUENCE))?;
    for _ in 0..16 {
        a.nop()?;
    }
    // Backwards, to the first second after the CPU was switched on.
    a.inc(dword_ptr(SEQUENCE))?;
    a.mov(dword_ptr(DEADLINE + 4), 0)?;
    a.inc(dword_ptr(SEQUENCE))?;
    // Not its own line.
    a.mov(dword_ptr(FIRED), eax)
}

/// Keeps how late it is; an interrupt before the deadline is not the one that is waited for.
fn late(a: &mut Assembly, wait: CodeLabel) -> Result<(), IcedError> {
    let (mut due, mut fits) = (a.create_label(), a.create_label());
    a.rdtsc()?;
    a.sub(eax, dword_ptr(timer::DUE))?;
    a.sbb(edx, dword_ptr(timer::DUE + 4))?;
    a.jae(due)?;
    a.inc(dword_ptr(timer::EARLY))?;
    a.write_msr(msr::EOI, 0, 0)?;
    a.jmp(wait)?;
    a.set_label(&mut due)?;
    a.test(edx, edx)?;
    a.je(fits)?;
    a.mov(eax, u32::MAX)?;
    a.set_label(&mut fits)?;
    a.nop()
}

/// Keeps `eax`, counts, and goes round.
fn finish(mut a: Assembly, again: CodeLabel) -> Result<Program, IcedError> {
    a.mov(dword_ptr(di + i32::from(timer::SAMPLES)), eax)?;
    a.add(di, 4)?;
    a.and(di, RING)?;
    a.inc(dword_ptr(timer::TIMERS))?;
    a.write_msr(msr::EOI, 0, 0)?;
    a.until(timer::TIMERS, again)?;
    a.finish()
}
