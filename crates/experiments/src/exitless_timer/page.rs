//! The layout of the page, and how the agent reads it whole.

use std::sync::atomic::Ordering;

use haltwise_lab::memory::GuestMemory;

pub use haltwise_lab::memory::timer::page::*;

/// A page as the agent sees it. Loads are acquires, stores are releases, each of its word at once.
pub trait Page {
    fn load32(&self, offset: u32) -> anyhow::Result<u32>;
    fn load64(&self, offset: u32) -> anyhow::Result<u64>;
    fn store32(&self, offset: u32, value: u32) -> anyhow::Result<()>;
    fn store64(&self, offset: u32, value: u64) -> anyhow::Result<()>;
}

#[derive(Debug, Clone)]
pub struct GuestPage {
    pub memory: GuestMemory,
    pub address: u32,
}

impl Page for GuestPage {
    fn load32(&self, offset: u32) -> anyhow::Result<u32> {
        self.memory.load(self.address + offset, Ordering::Acquire)
    }

    fn load64(&self, offset: u32) -> anyhow::Result<u64> {
        self.memory.load(self.address + offset, Ordering::Acquire)
    }

    fn store32(&self, offset: u32, value: u32) -> anyhow::Result<()> {
        self.memory
            .store(self.address + offset, value, Ordering::Release)
    }

    fn store64(&self, offset: u32, value: u64) -> anyhow::Result<()> {
        self.memory
            .store(self.address + offset, value, Ordering::Release)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    pub sequence: u32,
    /// Its deadline; 0 for none.
    pub deadline: u64,
}

impl Snapshot {
    /// Reads a page; `None` if the guest is writing. Takes three loads, whatever the guest does.
    pub fn read(page: &impl Page) -> anyhow::Result<Option<Self>> {
        let sequence = page.load32(SEQUENCE)?;
        let deadline = page.load64(DEADLINE)?;
        let after = page.load32(SEQUENCE)?;
        let whole = sequence == after && sequence.is_multiple_of(2);
        Ok(whole.then_some(Self { sequence, deadline }))
    }
}
