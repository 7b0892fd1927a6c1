//! The guests: programs of a few instructions in 16-bit real mode. `tests/golden/guests.txt` has their
//! disassembly, as `haltwise-lab list -v` prints it.
//!
//! All of them share one shape. Interrupts are off except at `sti; hlt`, so every interrupt ends
//! exactly one HLT; its vector points straight at the code that follows the HLT, which drops the
//! interrupt frame and goes round again, never `iret`. [`STOP`] is of a higher class than every other vector,
//! so it is taken first wherever the guest is, and ends it. Hence HLTs = interrupts = `halt_exits`, always.
//! Guests that never halt ([`storm`]) let [`STOP`] in once a round. One that may never halt, but must let no
//! other interrupt in ([`Guest::may_never_halt`]), ends when the host takes its rounds away.
//!
//! A HLT whose interrupt is pending already is an exit, but not a halt: KVM goes on without
//! `kvm_vcpu_halt`, and no tracepoint fires. That happens when a gap is shorter than the guest's way back
//! to its HLT: a microsecond or so, more where instructions are emulated, and much more for a
//! vCPU whose thread does not get a CPU. Runs say how many of their HLTs that may concern.

pub mod exits;
pub mod ipi;
pub mod pingpong;
pub mod poller;
pub mod storm;
pub mod tick;
pub mod timed;

use std::fmt::{self, Write as _};
use std::ops::{Deref, DerefMut};
use std::str::FromStr;

use iced_x86::code_asm::{AsmRegister32, CodeAssembler, CodeLabel, dword_ptr, eax, ecx, edx, sp};
use iced_x86::{BlockEncoderOptions, Decoder, DecoderOptions, Formatter, IcedError, NasmFormatter};

pub use poller::Peer;
pub use timed::Clock;

use crate::exit::STOP_PORT;
use crate::memory::{CODE, CODE_BYTES, STACK_TOP, counter, param};

pub const WAKE: u8 = 0x40;
pub const TICK: u8 = 0x41;
/// Vector of the interrupts that vCPUs send each other.
pub const IPI: u8 = 0x42;
pub const STOP: u8 = 0x50;

/// x2APIC registers and the deadline as MSRs: Intel SDM volume 3, "x2APIC register address space".
pub mod msr {
    pub const EOI: u32 = 0x80b;
    pub const ICR: u32 = 0x830;
    pub const LVT_TIMER: u32 = 0x832;
    pub const TIMER_INITIAL_COUNT: u32 = 0x838;
    pub const TIMER_DIVIDE: u32 = 0x83e;
    pub const TSC_DEADLINE: u32 = 0x6e0;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Bytes from [`CODE`] on.
    pub code: Vec<u8>,
    pub entry: u16,
    pub vectors: Vec<(u8, u16)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Timer {
    /// The local APIC's, one-shot, armed anew each round by TSC deadline.
    #[default]
    TscDeadline,
    Pit,
    /// The same, acknowledged at an RTC that is not in the kernel.
    Rtc,
}

/// Whether `pingpong` notes when it woke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stamps {
    /// No: as few instructions as can be.
    #[default]
    None,
    /// Its first instruction after a wake-up reads the TSC.
    Woke,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guest {
    Pingpong(Stamps),
    Tick(Timer),
    Ipi,
    Idle,
    Exits,
    /// Goes on in another thread, again and again.
    Hop,
    PortPoll,
    Framebuffer,
    /// Makes exits that KVM handles by itself.
    Cpuid,
    Poller(Peer),
    Timed(Clock),
}

/// Facts known of a guest without running it.
pub(crate) struct Known {
    name: &'static str,
    /// Its gap and its rounds, if nothing else is asked of it.
    pub(crate) gap_us: u64,
    pub(crate) rounds: u32,
    purpose: &'static str,
}

/// A row for each guest, in the order in which they are listed: one that has none does not compile.
macro_rules! known {
    ($([$($guest:tt)+], $name:literal, $gap_us:literal, $rounds:literal, $purpose:literal;)+) => {
        const ALL: &[Guest] = &[$($($guest)+),+];

        pub(crate) fn known(guest: Guest) -> Known {
            match guest {
                $($($guest)+ => Known { name: $name, gap_us: $gap_us, rounds: $rounds, purpose: $purpose }),+
            }
        }
    };
}

known! {
    [Guest::Pingpong(Stamps::None)], "pingpong", 50, 10_000, "the host wakes each vCPU after a drawn gap; it answers";
    [Guest::Pingpong(Stamps::Woke)], "pingpong-stamped", 50, 10_000, "pingpong that also notes the TSC when it woke";
    [Guest::Tick(Timer::TscDeadline)], "tick", 1_000, 1_000, "each vCPU wakes itself by one-shot TSC deadlines";
    [Guest::Tick(Timer::Pit)], "tick-pit", 10_000, 100, "the in-kernel PIT wakes vCPU 0 periodically";
    [Guest::Tick(Timer::Rtc)], "tick-rtc", 15_625, 100, "the same, with an idle Windows' accesses to RTC and PM timer";
    [Guest::Ipi], "ipi", 0, 10_000, "vCPUs in a ring wake each other by x2APIC IPIs";
    [Guest::Idle], "idle", 100_000, 20, "halts; a slow periodic APIC timer is all that wakes it";
    [Guest::Exits], "exits", 200, 1, "known prime numbers of PIO, MMIO, CPUID, MSR and HLT exits";
    [Guest::Hop], "hop", 1_000, 100, "each vCPU goes on in another thread after every round";
    [Guest::PortPoll], "port-poll", 0, 100, "polls a port of a device that is not there";
    [Guest::Framebuffer], "framebuffer", 0, 100, "draws into 64 KiB of memory that the VMM emulates";
    [Guest::Cpuid], "cpuid", 0, 100, "executes CPUID: exits that KVM handles by itself";
    [Guest::Poller(Peer::Host)], "poller", 50, 10_000, "polls for the host's work before it halts; it answers";
    [Guest::Poller(Peer::Ring)], "poller-ring", 0, 10_000, "the same in a ring of vCPUs: no IPI to one that polls";
    [Guest::Timed(Clock::Pit)], "timed-pit", 1_000, 1_000, "tick-pit that also notes the TSC at each tick";
    [Guest::Timed(Clock::TscDeadline)], "timed-deadline", 1_000, 1_000, "tick that also notes how late each timer is";
    [Guest::Timed(Clock::Exitless)], "timed-exitless", 1_000, 1_000,
        "the same by a page shared with an agent (run has none)";
    [Guest::Timed(Clock::Nonsense)], "timed-nonsense", 1_000, 1_000,
        "the same, and writes nonsense into the page between";
}

impl Guest {
    /// All, in the order in which they are listed.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL.iter().copied()
    }

    pub fn name(self) -> &'static str {
        known(self).name
    }

    pub fn purpose(self) -> &'static str {
        known(self).purpose
    }

    /// Whether the host wakes each vCPU and gets an answer.
    pub fn is_driven(self) -> bool {
        matches!(self, Self::Pingpong(_) | Self::Poller(Peer::Host))
    }

    /// Whether its vCPUs wake each other: then the first begins when all others are ready.
    pub fn is_ring(self) -> bool {
        matches!(self, Self::Ipi | Self::Poller(Peer::Ring))
    }

    /// Whether its vCPUs can find work for ever without a HLT, in which [`STOP`] would come in.
    pub fn may_never_halt(self) -> bool {
        self == Self::Poller(Peer::Ring)
    }

    /// Whether it takes its deadlines from the table of deltas, one after the other.
    pub fn has_deadlines(self) -> bool {
        match self {
            Self::Tick(timer) => timer == Timer::TscDeadline,
            Self::Timed(clock) => clock != Clock::Pit,
            _ => false,
        }
    }

    pub fn has_pit(self) -> bool {
        matches!(
            self,
            Self::Tick(Timer::Pit | Timer::Rtc) | Self::Timed(Clock::Pit)
        )
    }

    pub fn program(self) -> Result<Program, IcedError> {
        match self {
            Self::Pingpong(stamps) => pingpong::program(stamps),
            Self::Tick(Timer::TscDeadline) => tick::deadline_program(),
            Self::Tick(Timer::Pit) => tick::pit_program(),
            Self::Tick(Timer::Rtc) => tick::rtc_program(),
            Self::Ipi => ipi::program(),
            Self::Idle => tick::idle_program(),
            Self::Exits => exits::program(),
            Self::Hop => tick::hop_program(),
            Self::PortPoll => storm::port_program(),
            Self::Framebuffer => storm::framebuffer_program(),
            Self::Cpuid => storm::cpuid_program(),
            Self::Poller(peer) => poller::program(peer),
            Self::Timed(clock) => timed::program(clock),
        }
    }
}

impl FromStr for Guest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::all().find(|guest| guest.name() == text);
        found.ok_or_else(|| format!("`{text}` is not a guest (`haltwise-lab list` has all)"))
    }
}

impl fmt::Display for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

pub fn listing(program: &Program) -> String {
    let mut decoder = Decoder::with_ip(16, &program.code, CODE.into(), DecoderOptions::NONE);
    let mut formatter = NasmFormatter::new();
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_branch_leading_zeros(false);
    options.set_show_branch_size(false);
    options.set_small_hex_numbers_in_decimal(false);
    let mut text = String::new();
    while decoder.can_decode() {
        let instruction = decoder.decode();
        let _ = write!(text, "{:04x}  ", instruction.ip16());
        formatter.format(&instruction, &mut text);
        text.push('\n');
    }
    text
}

/// An assembler, and the vectors that enter its code.
#[expect(missing_debug_implementations, reason = "the assembler has none")]
pub struct Assembly {
    asm: CodeAssembler,
    pub vectors: Vec<(u8, CodeLabel)>,
    pub done: CodeLabel,
}

impl Deref for Assembly {
    type Target = CodeAssembler;

    fn deref(&self) -> &CodeAssembler {
        &self.asm
    }
}

impl DerefMut for Assembly {
    fn deref_mut(&mut self) -> &mut CodeAssembler {
        &mut self.asm
    }
}

impl Assembly {
    pub fn new() -> Result<Self, IcedError> {
        let mut asm = CodeAssembler::new(16)?;
        let done = asm.create_label();
        Ok(Self {
            asm,
            vectors: Vec::new(),
            done,
        })
    }

    pub fn write_msr(&mut self, register: u32, high: u32, low: u32) -> Result<(), IcedError> {
        self.mov(ecx, register)?;
        self.load(eax, low)?;
        self.load(edx, high)?;
        self.wrmsr()
    }

    fn load(&mut self, register: AsmRegister32, value: u32) -> Result<(), IcedError> {
        if value == 0 {
            self.xor(register, register)
        } else {
            self.mov(register, value)
        }
    }

    /// A label of what comes next.
    pub fn here(&mut self) -> Result<CodeLabel, IcedError> {
        let mut here = self.create_label();
        self.set_label(&mut here)?;
        Ok(here)
    }

    /// Counts a HLT and executes it; `vector` continues right behind it.
    pub fn halt(&mut self, vector: u8) -> Result<(), IcedError> {
        self.inc(dword_ptr(counter::HALTS))?;
        self.sti()?;
        self.hlt()?;
        self.enter(vector)
    }

    /// The code of `vector` starts here: drops the frame, counts.
    pub fn enter(&mut self, vector: u8) -> Result<(), IcedError> {
        let here = self.here()?;
        self.vectors.push((vector, here));
        self.mov(sp, u32::from(STACK_TOP))?;
        self.inc(dword_ptr(counter::INTERRUPTS))
    }

    /// Counts a round, and jumps to `again` until all are done, then to the end.
    pub fn count_round(&mut self, again: CodeLabel) -> Result<(), IcedError> {
        self.inc(dword_ptr(counter::ROUNDS))?;
        self.until(counter::ROUNDS, again)
    }

    /// Jumps to `again` until a word has counted as many as there are rounds, then to the end.
    fn until(&mut self, word: u16, again: CodeLabel) -> Result<(), IcedError> {
        self.mov(eax, dword_ptr(word))?;
        self.cmp(eax, dword_ptr(param::ROUNDS))?;
        self.jb(again)?;
        self.asm.jmp(self.done)
    }

    /// The end, and the way in to it by [`STOP`]. Returns the bytes.
    ///
    /// # Panics
    /// If the program is longer than the room for code.
    pub fn finish(mut self) -> Result<Program, IcedError> {
        self.enter(STOP)?;
        self.asm.set_label(&mut self.done)?;
        self.out(u32::from(STOP_PORT), iced_x86::code_asm::al)?;
        let options = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
        let done = self.assemble_options(CODE.into(), options)?;
        let ip = |(vector, label): &(u8, CodeLabel)| {
            let ip = u16::try_from(done.label_ip(label)?);
            Ok((*vector, ip.expect("code lies in the first 64 KiB")))
        };
        let vectors = self.vectors.iter().map(ip).collect::<Result<_, _>>()?;
        let code = done.inner.code_buffer;
        assert!(code.len() <= CODE_BYTES, "a guest is a few instructions");
        Ok(Program {
            code,
            entry: CODE,
            vectors,
        })
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_golden_disassembly_is_what_runs() {
        let short = crate::render::guests(false).unwrap();
        assert_eq!(short.lines().count(), Guest::all().count());
        let bare = listing(&pingpong::bare_program().unwrap());
        let listed = crate::render::guests(true).unwrap();
        let real = format!("{listed}pingpong without a local APIC\n{bare}");
        assert_eq!(include_str!("../tests/golden/guests.txt"), real, "{real}");
        assert!(
            real.lines().all(|line| line.chars().count() <= 80),
            "{real}"
        );
    }

    #[test]
    fn every_guest_can_be_stopped_and_found_by_name() {
        for guest in Guest::all() {
            let program = guest.program().unwrap();
            assert!(program.vectors.iter().any(|(vector, _)| *vector == STOP));
            assert_eq!(guest.name().parse(), Ok(guest));
        }
        assert!("linux".parse::<Guest>().is_err());
    }

    #[test]
    fn stop_is_of_a_higher_class_than_every_other_vector() {
        for vector in [WAKE, TICK, IPI] {
            assert!(STOP >> 4 > vector >> 4);
        }
    }
}
