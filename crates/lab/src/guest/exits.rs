//! `exits`: known prime numbers of exits, each kind at a place of its own.
//!
//! Its numbers are those of [`PER_ROUND`]. The VMM counts what comes out to it; what KVM handles in
//! the kernel the guest counts itself. Timer and EOI writes come on top, to MSRs of their own.

use iced_x86::IcedError;
use iced_x86::code_asm::{CodeAssembler, al, byte_ptr, cx, di, dword_ptr, dx, eax, ecx, edx};

use super::tick::{arm_deadline, with_deadlines};
use super::{Assembly, Program, TICK, msr};
use crate::memory::{counter, param};

/// How often a round makes each kind of exit.
pub const PER_ROUND: [(&str, u32); 8] = [
    ("pio-out", 101),
    ("pio-in", 103),
    ("mmio-write", 107),
    ("mmio-read", 109),
    ("cpuid", 113),
    ("rdmsr", 127),
    ("wrmsr", 131),
    ("hlt", 137),
];

pub const OUT_PORT: u16 = 0x510;
pub const IN_PORT: u16 = 0x511;
pub const CPUID_LEAF: u32 = 0x4000_0000;
/// Read: `IA32_MCG_CAP`, which KVM emulates on every CPU.
pub const READ_MSR: u32 = 0x179;
/// Written with 0: `IA32_MCG_STATUS`, likewise.
pub const WRITE_MSR: u32 = 0x17a;

pub fn program() -> Result<Program, IcedError> {
    let [out, r#in, write, read, cpuid, rdmsr, wrmsr, hlt] = PER_ROUND.map(|(_, count)| count);
    let mut a = with_deadlines()?;
    let round = a.here()?;
    a.mov(dx, u32::from(OUT_PORT))?;
    counted_by_vmm(&mut a, out, |a| a.out(dx, al))?;
    a.mov(dx, u32::from(IN_PORT))?;
    counted_by_vmm(&mut a, r#in, |a| a.in_(al, dx))?;
    counted_by_vmm(&mut a, write, |a| a.mov(byte_ptr(0).fs(), al))?;
    counted_by_vmm(&mut a, read, |a| a.mov(al, byte_ptr(4).fs()))?;
    counted_by_guest(&mut a, cpuid, counter::CPUIDS, |a| {
        a.mov(eax, CPUID_LEAF)?;
        a.cpuid()
    })?;
    a.mov(ecx, READ_MSR)?;
    counted_by_guest(&mut a, rdmsr, counter::RDMSRS, CodeAssembler::rdmsr)?;
    a.mov(ecx, WRITE_MSR)?;
    a.xor(eax, eax)?;
    a.xor(edx, edx)?;
    counted_by_guest(&mut a, wrmsr, counter::WRMSRS, CodeAssembler::wrmsr)?;
    a.mov(di, hlt)?;
    let arm = a.here()?;
    arm_deadline(&mut a)?;
    a.halt(TICK)?;
    a.write_msr(msr::EOI, 0, 0)?;
    a.dec(di)?;
    a.jne(arm)?;
    a.dec(dword_ptr(param::ROUNDS))?;
    a.jne(round)?;
    let done = a.done;
    a.jmp(done)?;
    a.finish()
}

type Emit = fn(&mut CodeAssembler) -> Result<(), IcedError>;

fn counted_by_vmm(a: &mut Assembly, count: u32, exit: Emit) -> Result<(), IcedError> {
    a.mov(cx, count)?;
    let again = a.here()?;
    exit(a)?;
    a.loop_(again)
}

fn counted_by_guest(
    a: &mut Assembly,
    count: u32,
    counter: u16,
    exit: Emit,
) -> Result<(), IcedError> {
    a.mov(di, count)?;
    let again = a.here()?;
    exit(a)?;
    a.inc(dword_ptr(counter))?;
    a.dec(di)?;
    a.jne(again)
}
