//! Where everything lies in a guest's memory, and typed access to it.
//!
//! Not KVM's side of memory: `vm` hands this to the kernel as slot 0.
//!
//! ```text
//! 0x00000  interrupt vector table of real mode: 256 x (offset, segment)
//! 0x02000  code, at most a page, cs:0x2000
//! 0x10000  table of 8192 timer deltas in TSC ticks of 64 bits, gs:0 .. gs:0xfff8
//! 0x20000  8 KiB per vCPU: its own page (ds:0), then a page of stack (ss:0 .. ss:0x1000)
//! 0xa0000  end of the room for 64 vCPUs
//! ```

use std::sync::atomic::Ordering;

use anyhow::Context as _;
use vm_memory::{AtomicAccess, Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

pub const MEMORY_BYTES: usize = 1 << 20;
/// Where code is loaded; also the `ip` of its first byte, as `cs` is 0.
pub const CODE: u16 = 0x2000;
pub const CODE_BYTES: usize = 0x1000;
pub const TABLE: u32 = 0x1_0000;
/// Entries of the table; its size is exactly what a 16-bit index wraps at.
pub const TABLE_ENTRIES: usize = 8192;
pub const VCPU_PAGES: u32 = 0x2_0000;
/// Distance from one vCPU's pages to the next one's.
pub const VCPU_STRIDE: u32 = 0x2000;
/// First byte above a vCPU's stack, as an offset from `ss`.
pub const STACK_TOP: u16 = 0x1000;
pub const MAX_VCPUS: u32 = 64;
/// Guest-physical address of the emulated device that nothing in memory backs, `fs:0`.
pub const MMIO: u32 = 0xd000_0000;

/// Words of a vCPU's page that the guest counts in (offsets from `ds`).
pub mod counter {
    pub const HALTS: u16 = 0;
    pub const INTERRUPTS: u16 = 4;
    pub const CPUIDS: u16 = 8;
    pub const RDMSRS: u16 = 12;
    pub const WRMSRS: u16 = 16;
    /// Rounds done, of a guest that does not halt.
    pub const ROUNDS: u16 = 20;
    /// TSC at the first instruction after the last wake-up, 64 bits.
    pub const WOKE: u16 = 24;
}

/// Words of a vCPU's page that the VMM sets before the guest starts (offsets from `ds`).
pub mod param {
    /// A guest that counts rounds itself ends after so many.
    pub const ROUNDS: u16 = 0x40;
    /// Value to program into a periodic timer: PIT divisor or APIC initial count.
    pub const PERIOD: u16 = 0x44;
    /// APIC id of the next vCPU in the ring.
    pub const NEXT: u16 = 0x48;
}

/// Words of a vCPU's page that others write while it runs (offsets from `ds`): how `poller` gets work.
pub mod mailbox {
    /// Moved on by the vCPU or host thread that has work for it.
    pub const WORK: u16 = 0x60;
    /// Not 0 while it polls: the sender of work need not interrupt it.
    pub const POLLING: u16 = 0x64;
}

/// Words of a vCPU's page for the polling of `poller` (offsets from `ds`).
pub mod poll {
    pub const SEEN: u16 = 0x80;
    /// Whether its last poll came to its limit.
    pub const TIMED_OUT: u16 = 0x84;
    pub const LIMIT_NS: u16 = 0x88;
    /// The same in ticks of the TSC.
    pub const LIMIT_TICKS: u16 = 0x8c;
    /// The most that it may poll; idle times above it are long.
    pub const CEILING_NS: u16 = 0x90;
    pub const GROW: u16 = 0x94;
    /// The least limit above 0.
    pub const GROW_START_NS: u16 = 0x98;
    /// Divisor by which it shrinks; 0 for "to nothing".
    pub const SHRINK: u16 = 0x9c;
    pub const ALLOW_SHRINK: u16 = 0xa0;
    pub const RULE: u16 = 0xa4;
    /// Ticks of the TSC in a millisecond.
    pub const TSC_KHZ: u16 = 0xa8;
    /// A million, for `mul` and `div` take no constants.
    pub const MILLION: u16 = 0xac;
    /// Value that the guest writes to `MSR_KVM_POLL_CONTROL`.
    pub const HOST_POLLS: u16 = 0xb0;
    /// Real-mode segment of the next vCPU's page in the ring.
    pub const NEXT_SEGMENT: u16 = 0xb4;
    /// Whether this is vCPU 0, which begins a ring.
    pub const IS_FIRST: u16 = 0xb8;
    /// Whether it takes notes of what it judges.
    pub const TAKES_NOTES: u16 = 0xbc;
    /// TSC when it became idle, 64 bits.
    pub const IDLE_SINCE: u16 = 0xc0;
    /// TSC when it began to poll or halt, 64 bits.
    pub const BEGAN: u16 = 0xc8;
    pub const SUCCESSES: u16 = 0xd0;
    pub const IPIS_SENT: u16 = 0xd4;
    /// IPIs that it did not need to send.
    pub const IPIS_SPARED: u16 = 0xd8;
    /// Notes taken: times judged, and the limits after them, in the table.
    pub const NOTES: u16 = 0xdc;
    /// The ceiling in ticks of the TSC, rounded down.
    pub const CEILING_TICKS: u16 = 0xe4;
    /// Written to no end but the order of other words.
    pub const BARRIER: u16 = 0xe0;

    pub const RULE_HALTPOLL: u32 = 1;
    pub const RULE_SMART: u32 = 2;
}

/// Words of a vCPU's page for the guests that time their timers (offsets from `ds`).
pub mod timer {
    /// Words shared with an agent of the host: [`page`].
    pub const PAGE: u16 = 0x100;
    /// The deadline waited for, or, of the PIT, the TSC of the last tick; 64 bits.
    pub const DUE: u16 = 0x180;
    pub const TIMERS: u16 = 0x188;
    /// Interrupts that came before the deadline.
    pub const EARLY: u16 = 0x18c;
    pub const HARDWARE: u16 = 0x190;
    /// How late each timer was, in ticks of the TSC; of the PIT, low halves of the TSC. A ring.
    pub const SAMPLES: u16 = 0x800;
    /// Entries of the ring, of 32 bits.
    pub const SAMPLE_COUNT: u16 = 512;

    pub mod page {
        /// Offset of the guest's sequence, 32 bits.
        pub const SEQUENCE: u32 = 0;
        /// Offset of the guest's deadline, 64 bits.
        pub const DEADLINE: u32 = 8;
        /// Offset of the time of the agent's next look, 64 bits.
        pub const NEXT_SYNC: u32 = 64;
        /// Offset of the sequence that was fired last, 32 bits.
        pub const FIRED: u32 = 72;

        /// [`NEXT_SYNC`] of an agent that looks all the time.
        pub const ALWAYS: u64 = 0;
        /// [`NEXT_SYNC`] where there is no agent.
        pub const NEVER: u64 = u64::MAX;
    }
}

fn place(address: u32) -> GuestAddress {
    GuestAddress(address.into())
}

/// Access to guest memory fails by mistakes of the VMM alone.
fn at(address: u32) -> impl FnOnce() -> String {
    move || format!("access guest memory at {address:#x}")
}

#[derive(Debug, Clone)]
pub struct GuestMemory(GuestMemoryMmap<()>);

impl GuestMemory {
    pub fn new() -> anyhow::Result<Self> {
        let mapped = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY_BYTES)]);
        let mapped = mapped.with_context(|| format!("map {MEMORY_BYTES} bytes of guest memory"))?;
        Ok(Self(mapped))
    }

    pub fn mapped(&self) -> &GuestMemoryMmap<()> {
        &self.0
    }

    /// Where it is mapped in the VMM.
    pub fn host_address(&self) -> anyhow::Result<u64> {
        let found = self.0.get_host_address(GuestAddress(0));
        found.map(|p| p.addr() as u64).with_context(at(0))
    }

    pub fn write(&self, address: u32, bytes: &[u8]) -> anyhow::Result<()> {
        let written = self.0.write_slice(bytes, place(address));
        written.with_context(at(address))
    }

    pub fn read(&self, address: u32, bytes: &mut [u8]) -> anyhow::Result<()> {
        let read = self.0.read_slice(bytes, place(address));
        read.with_context(at(address))
    }

    /// Loads an aligned number at once.
    pub fn load<T: AtomicAccess>(&self, address: u32, order: Ordering) -> anyhow::Result<T> {
        self.0.load(place(address), order).with_context(at(address))
    }

    /// Stores an aligned number at once.
    pub fn store<T: AtomicAccess>(
        &self,
        address: u32,
        value: T,
        order: Ordering,
    ) -> anyhow::Result<()> {
        let stored = self.0.store(value, place(address), order);
        stored.with_context(at(address))
    }

    pub fn set_vector(&self, vector: u8, ip: u16) -> anyhow::Result<()> {
        self.write(u32::from(vector) * 4, &u32::from(ip).to_le_bytes())
    }

    pub fn set_word(&self, vcpu: u32, offset: u16, value: u32) -> anyhow::Result<()> {
        let address = vcpu_page(vcpu) + u32::from(offset);
        self.store(address, value, Ordering::Release)
    }

    /// Reads a word of a vCPU's page, while the guest may be writing it.
    pub fn word(&self, vcpu: u32, offset: u16) -> anyhow::Result<u32> {
        self.load(vcpu_page(vcpu) + u32::from(offset), Ordering::Acquire)
    }

    /// Reads two words of a vCPU's page as one number; the guest must not be writing them.
    pub fn double_word(&self, vcpu: u32, offset: u16) -> anyhow::Result<u64> {
        let (low, high) = (self.word(vcpu, offset)?, self.word(vcpu, offset + 4)?);
        Ok(u64::from(low) | u64::from(high) << 32)
    }

    /// Fills the table of timer deltas, repeating what is given as often as it fits.
    pub fn set_table(&self, ticks: &[u64]) -> anyhow::Result<()> {
        let words = ticks.iter().cycle().take(TABLE_ENTRIES);
        let bytes: Vec<u8> = words.flat_map(|t| t.to_le_bytes()).collect();
        self.write(TABLE, &bytes)
    }
}

pub fn vcpu_page(vcpu: u32) -> u32 {
    VCPU_PAGES + vcpu * VCPU_STRIDE
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_parts_do_not_overlap_and_end_below_the_end() {
        let parts = [
            (0, 256 * 4),
            (u32::from(CODE), CODE_BYTES),
            (TABLE, TABLE_ENTRIES * 8),
            (VCPU_PAGES, (VCPU_STRIDE * MAX_VCPUS) as usize),
        ];
        for pair in parts.windows(2) {
            assert!(pair[0].0 as usize + pair[0].1 <= pair[1].0 as usize);
        }
        let last = parts[parts.len() - 1];
        assert_eq!(last.0 as usize + last.1, 0xa_0000);
        assert!(last.0 as usize + last.1 <= MEMORY_BYTES);
        assert_eq!(TABLE_ENTRIES * 8, 1 << 16, "si wraps with the table");
    }

    #[test]
    fn outside_is_an_error_with_the_address() {
        let memory = GuestMemory::new().unwrap();
        let error = memory.write(0xf_ffff, &[0, 0]).unwrap_err();
        assert_eq!(error.to_string(), "access guest memory at 0xfffff");
    }
}
