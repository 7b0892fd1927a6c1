//! The VGA window at 0xA0000: 64 KiB in which every byte is a pixel, as in mode 13h and its relatives.
//!
//! The device model's picture is a [`Screen`]. It can be kept in two ways:
//!
//! * nothing backs the window, every access is an exit to the VMM, and [`ExitPerWrite`] draws it;
//! * the window is memory of the guest, shared with the device model. KVM notes which pages were written
//!   (`KVM_MEM_LOG_DIRTY_PAGES`), and [`scan`] copies these, as often as a screen is refreshed.
//!
//! A page that is written while it is copied is in the next log again, so the last scan after the guest's
//! last write leaves the screen as the guest drew it.

use std::ops::Range;

use super::{Devices, Shared};
use anyhow::Context as _;
use haltwise_lab::ioctl;
use haltwise_lab::vm::Vm;

/// Guest-physical addresses of the window: VGA's in its memory map 1 (graphics controller register 6).
pub const WINDOW: Range<u32> = 0xa_0000..0xb_0000;
pub const WINDOW_BYTES: usize = 0x1_0000;
/// Bytes that one bit of the dirty log covers.
pub const PAGE_BYTES: usize = 4096;
/// The memory slot of a window that is shared.
pub const SLOT: u32 = 1;

/// A picture as the device model has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Screen {
    pub pixels: Vec<u8>,
    pub refused: u64,
}

impl Default for Screen {
    fn default() -> Self {
        Self {
            pixels: vec![0; WINDOW_BYTES],
            refused: 0,
        }
    }
}

impl Screen {
    pub fn write(&mut self, address: u64, bytes: &[u8]) {
        match self.at(address, bytes.len()) {
            Some(place) => self.pixels[place].copy_from_slice(bytes),
            None => self.refused += 1,
        }
    }

    /// Reads bytes at a guest-physical address; zeroes outside of the window.
    pub fn read(&mut self, address: u64, bytes: &mut [u8]) {
        bytes.fill(0);
        match self.at(address, bytes.len()) {
            Some(place) => bytes.copy_from_slice(&self.pixels[place]),
            None => self.refused += 1,
        }
    }

    /// Copies the pages whose bits are set in a dirty log, with `copy(address, page)`; says how many. Bits
    /// beyond the window are passed over.
    pub fn refresh<E>(
        &mut self,
        dirty: &[u64],
        mut copy: impl FnMut(u32, &mut [u8]) -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut copied = 0;
        let pages = self.pixels.chunks_exact_mut(PAGE_BYTES);
        for ((index, page), address) in pages.enumerate().zip(WINDOW.step_by(PAGE_BYTES)) {
            let word = dirty.get(index / 64).copied().unwrap_or(0);
            if word >> (index % 64) & 1 == 1 {
                copy(address, page)?;
                copied += 1;
            }
        }
        Ok(copied)
    }

    fn at(&self, address: u64, length: usize) -> Option<Range<usize>> {
        let start = address.checked_sub(WINDOW.start.into())?;
        let start = usize::try_from(start).ok()?;
        let end = start.checked_add(length)?;
        (end <= self.pixels.len()).then_some(start..end)
    }
}

#[derive(Debug)]
pub struct ExitPerWrite(pub Shared<Screen>);

impl Devices for ExitPerWrite {
    fn mmio_read(&mut self, address: u64, bytes: &mut [u8]) {
        self.0.lock().read(address, bytes);
    }

    fn mmio_write(&mut self, address: u64, bytes: &[u8]) {
        self.0.lock().write(address, bytes);
    }
}

/// Makes the window of a VM that does not run yet memory of its own, of which KVM logs the pages written; or takes the
/// memory behind it away, so that every access is an exit.
pub fn back_window(vm: &Vm, logged: bool) -> anyhow::Result<()> {
    ioctl::cut_window(vm.fd(), &vm.memory, &WINDOW, logged.then_some(SLOT))
        .with_context(|| format!("give memory to VM `{}`", vm.config.name))
}

/// Copies what was written since the last scan; says how many pages that were.
pub fn scan(vm: &Vm, screen: &mut Screen) -> anyhow::Result<u64> {
    let log = vm.fd().get_dirty_log(SLOT, WINDOW_BYTES);
    let log = log.with_context(|| format!("KVM_GET_DIRTY_LOG of VM `{}`", vm.config.name))?;
    screen.refresh(&log, |address, page| vm.memory.read(address, page))
}

#[cfg(test)]
mod test;
