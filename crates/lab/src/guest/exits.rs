//! `exits`: known prime numbers of exits, each kind at a place of its own.
//!
//! Its numbers are those of [`PER_ROUND`]. The VMM counts what comes out to it; what KVM handles in
//! the kernel the guest counts itself. Timer and EOI writes come on top, to MSRs of their own.
//!
//! ```nasm
//! 2000  xor si,si
//! 2002  mov ecx,0x832               ; LVT timer
//! 2008  mov eax,0x40041             ; TSC deadline, vector TICK
//! 200e  xor edx,edx
//! 2011  wrmsr
//! 2013  mov dx,0x510
//! 2016  mov cx,0x65                 ; 101 x pio-out
//! 2019  out dx,al
//! 201a  loop 0x2019
//! 201c  mov dx,0x511
//! 201f  mov cx,0x67                 ; 103 x pio-in
//! 2022  in al,dx
//! 2023  loop 0x2022
//! 2025  mov cx,0x6b                 ; 107 x mmio-write
//! 2028  mov [fs:0x0],al
//! 202c  loop 0x2028
//! 202e  mov cx,0x6d                 ; 109 x mmio-read
//! 2031  mov al,[fs:0x4]
//! 2035  loop 0x2031
//! 2037  mov di,0x71                 ; 113 x cpuid
//! 203a  mov eax,0x40000000
//! 2040  cpuid
//! 2042  inc dword [0x8]             ; CPUIDs
//! 2047  dec di
//! 2048  jne 0x203a
//! 204a  mov ecx,0x179               ; IA32_MCG_CAP
//! 2050  mov di,0x7f                 ; 127 x rdmsr
//! 2053  rdmsr
//! 2055  inc dword [0xc]             ; RDMSRs
//! 205a  dec di
//! 205b  jne 0x2053
//! 205d  mov ecx,0x17a               ; IA32_MCG_STATUS
//! 2063  xor eax,eax
//! 2066  xor edx,edx
//! 2069  mov di,0x83                 ; 131 x wrmsr
//! 206c  wrmsr
//! 206e  inc dword [0x10]            ; WRMSRs
//! 2073  dec di
//! 2074  jne 0x206c
//! 2076  mov di,0x89                 ; 137 x hlt
//! 2079  mov ecx,0x6e0               ; TSC deadline = now + next delta
//! 207f  rdtsc
//! 2081  add eax,[gs:si]
//! 2085  adc edx,[gs:si+0x4]
//! 208a  add si,0x8                  ; wraps at 64 KiB with the table
//! 208d  wrmsr
//! 208f  inc dword [0x0]             ; HLTs
//! 2094  sti
//! 2095  hlt                         ; TICK goes on below
//! 2096  mov sp,0x1000               ; TICK enters: drop the frame
//! 2099  inc dword [0x4]             ; interrupts
//! 209e  mov ecx,0x80b               ; EOI
//! 20a4  xor eax,eax
//! 20a7  xor edx,edx
//! 20aa  wrmsr
//! 20ac  dec di
//! 20ad  jne 0x2079
//! 20af  dec dword [0x40]            ; rounds
//! 20b4  jne 0x2013
//! 20b8  jmp 0x20c2
//! 20ba  mov sp,0x1000               ; STOP enters: drop the frame
//! 20bd  inc dword [0x4]             ; interrupts
//! 20c2  out 0xf4,al                 ; the end
//! ```

use iced_x86::IcedError;
use iced_x86::code_asm::{CodeAssembler, al, byte_ptr, cx, di, dword_ptr, dx, eax, ecx, edx, si};

use super::tick::{DEADLINE_MODE, arm_deadline};
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

/// `out` goes here.
pub const OUT_PORT: u16 = 0x510;
/// `in` comes from here.
pub const IN_PORT: u16 = 0x511;
pub const CPUID_LEAF: u32 = 0x4000_0000;
/// Read: `IA32_MCG_CAP`, which KVM emulates on every CPU.
pub const READ_MSR: u32 = 0x179;
/// Written with 0: `IA32_MCG_STATUS`, likewise.
pub const WRITE_MSR: u32 = 0x17a;

pub fn program() -> Result<Program, IcedError> {
    let [out, r#in, write, read, cpuid, rdmsr, wrmsr, hlt] = PER_ROUND.map(|(_, count)| count);
    let mut assembly = Assembly::new()?;
    assembly.asm.xor(si, si)?;
    assembly.wrmsr(msr::LVT_TIMER, 0, DEADLINE_MODE | u32::from(TICK))?;
    let a = &mut assembly.asm;
    let mut round = a.create_label();
    a.set_label(&mut round)?;
    a.mov(dx, u32::from(OUT_PORT))?;
    counted_by_vmm(a, out, |a| a.out(dx, al))?;
    a.mov(dx, u32::from(IN_PORT))?;
    counted_by_vmm(a, r#in, |a| a.in_(al, dx))?;
    counted_by_vmm(a, write, |a| a.mov(byte_ptr(0).fs(), al))?;
    counted_by_vmm(a, read, |a| a.mov(al, byte_ptr(4).fs()))?;
    counted_by_guest(a, cpuid, counter::CPUIDS, |a| {
        a.mov(eax, CPUID_LEAF)?;
        a.cpuid()
    })?;
    a.mov(ecx, READ_MSR)?;
    counted_by_guest(a, rdmsr, counter::RDMSRS, CodeAssembler::rdmsr)?;
    a.mov(ecx, WRITE_MSR)?;
    a.xor(eax, eax)?;
    a.xor(edx, edx)?;
    counted_by_guest(a, wrmsr, counter::WRMSRS, CodeAssembler::wrmsr)?;
    a.mov(di, hlt)?;
    let mut arm = a.create_label();
    a.set_label(&mut arm)?;
    arm_deadline(&mut assembly)?;
    assembly.halt(TICK)?;
    assembly.wrmsr(msr::EOI, 0, 0)?;
    let a = &mut assembly.asm;
    a.dec(di)?;
    a.jne(arm)?;
    a.dec(dword_ptr(param::ROUNDS))?;
    a.jne(round)?;
    a.jmp(assembly.done)?;
    assembly.finish()
}

type Emit = fn(&mut CodeAssembler) -> Result<(), IcedError>;

fn counted_by_vmm(a: &mut CodeAssembler, count: u32, exit: Emit) -> Result<(), IcedError> {
    a.mov(cx, count)?;
    let mut again = a.create_label();
    a.set_label(&mut again)?;
    exit(a)?;
    a.loop_(again)
}

fn counted_by_guest(
    a: &mut CodeAssembler,
    count: u32,
    counter: u16,
    exit: Emit,
) -> Result<(), IcedError> {
    a.mov(di, count)?;
    let mut again = a.create_label();
    a.set_label(&mut again)?;
    exit(a)?;
    a.inc(dword_ptr(counter))?;
    a.dec(di)?;
    a.jne(again)
}
