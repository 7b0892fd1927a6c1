//! A virtio device's registers in memory (virtio-mmio, version 2) and its split queues.
//!
//! Source: Virtual I/O Device (VIRTIO) 1.2, section 4.2.2 for the registers, 3.1.1 for the order in which a
//! driver writes them. Queues are rust-vmm's, which check every address and index that the guest gives.
//! Registers are 32 bits wide; an access of another width, out of order, or to none of them is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use virtio_queue::{Queue, QueueT};
use vm_memory::GuestMemoryMmap;

pub mod register {
    pub const MAGIC: u32 = 0x00;
    pub const VERSION: u32 = 0x04;
    pub const DEVICE_ID: u32 = 0x08;
    /// Features of the device, the half that is selected.
    pub const DEVICE_FEATURES: u32 = 0x10;
    pub const DEVICE_FEATURES_SEL: u32 = 0x14;
    /// Features that the driver takes, the half that is selected.
    pub const DRIVER_FEATURES: u32 = 0x20;
    pub const DRIVER_FEATURES_SEL: u32 = 0x24;
    pub const QUEUE_SEL: u32 = 0x30;
    /// The most entries that it may have.
    pub const QUEUE_NUM_MAX: u32 = 0x34;
    pub const QUEUE_NUM: u32 = 0x38;
    pub const QUEUE_READY: u32 = 0x44;
    /// There is something new in the queue of this index.
    pub const QUEUE_NOTIFY: u32 = 0x50;
    pub const INTERRUPT_STATUS: u32 = 0x60;
    pub const INTERRUPT_ACK: u32 = 0x64;
    /// How far the driver has come, and 0 to reset.
    pub const STATUS: u32 = 0x70;
    pub const QUEUE_DESC: [u32; 2] = [0x80, 0x84];
    pub const QUEUE_DRIVER: [u32; 2] = [0x90, 0x94];
    pub const QUEUE_DEVICE: [u32; 2] = [0xa0, 0xa4];
    pub const CONFIG: u32 = 0x100;
}

pub mod status {
    pub const FEATURES_OK: u32 = 8;
    pub const DRIVER_OK: u32 = 4;
    /// All of a driver that is ready: acknowledged, driver, and these two.
    pub const READY: u32 = 1 | 2 | FEATURES_OK | DRIVER_OK;
}

/// Features of every kind of device: section 6.
pub mod feature {
    /// `VIRTIO_F_EVENT_IDX`: each side says in its ring from which index on it wants to be told.
    pub const EVENT_IDX: u64 = 1 << 29;
    /// `VIRTIO_F_VERSION_1`, which both sides must have.
    pub const VERSION_1: u64 = 1 << 32;
    /// `VIRTIO_F_IN_ORDER`: buffers are used in the order in which they were offered.
    pub const IN_ORDER: u64 = 1 << 35;
}

const QUEUE_DESC: u32 = register::QUEUE_DESC[0];
const QUEUE_DRIVER: u32 = register::QUEUE_DRIVER[0];
const QUEUE_DEVICE: u32 = register::QUEUE_DEVICE[0];

/// Bit of [`register::INTERRUPT_STATUS`]: the device has used a buffer.
pub const USED_BUFFER: u32 = 1;
const MAGIC: u32 = 0x7472_6976;

/// Why a device interrupts. It takes no lock, so that a vCPU that handles an interrupt waits for no thread that serves.
#[derive(Debug, Default)]
pub struct InterruptStatus(AtomicU32);

impl InterruptStatus {
    pub fn raise(&self) {
        self.0.fetch_or(USED_BUFFER, Ordering::AcqRel);
    }

    /// A read of the guest, if it is of [`register::INTERRUPT_STATUS`].
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Option<()> {
        let bytes: &mut [u8; 4] = bytes.try_into().ok()?;
        (offset == u64::from(register::INTERRUPT_STATUS)).then_some(())?;
        *bytes = self.0.load(Ordering::Acquire).to_le_bytes();
        Some(())
    }

    /// A write of the guest, if it is to [`register::INTERRUPT_ACK`].
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Option<()> {
        let bytes = bytes.try_into().ok()?;
        (offset == u64::from(register::INTERRUPT_ACK)).then_some(())?;
        let seen = u32::from_le_bytes(bytes);
        self.0.fetch_and(!seen, Ordering::AcqRel);
        Some(())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    pub device_id: u32,
    pub features: u64,
    pub config: Vec<u8>,
}

#[derive(Debug)]
pub struct Transport {
    model: Model,
    queues: Vec<Queue>,
    /// Why it interrupts, to be raised and read beside all else.
    pub interrupt: Arc<InterruptStatus>,
    status: u32,
    device_half: u32,
    driver_half: u32,
    driver_features: u64,
    queue_selected: u32,
    pub refused: u64,
}

impl Transport {
    /// Makes the transport of a kind of device, with a queue for each of `entries`: its maximum size, a power of 2.
    pub fn new(model: Model, entries: &[u16]) -> Result<Self, virtio_queue::Error> {
        let queues = entries.iter().map(|entries| Queue::new(*entries));
        Ok(Self {
            model,
            queues: queues.collect::<Result<_, _>>()?,
            interrupt: Arc::default(),
            status: 0,
            device_half: 0,
            driver_half: 0,
            driver_features: 0,
            queue_selected: 0,
            refused: 0,
        })
    }

    /// A queue, once the driver is ready and all of the queue lies in memory.
    pub fn queue(&mut self, index: usize, memory: &GuestMemoryMmap<()>) -> Option<&mut Queue> {
        let queue = self.queues.get_mut(index)?;
        let ready = self.status == status::READY && queue.is_valid(memory);
        ready.then_some(queue)
    }

    pub fn read(&mut self, offset: u64, bytes: &mut [u8]) {
        bytes.fill(0);
        let answer = u32::try_from(offset).ok().and_then(|offset| {
            if offset >= register::CONFIG {
                let start = (offset - register::CONFIG) as usize;
                let end = start.checked_add(bytes.len())?;
                bytes.copy_from_slice(self.model.config.get(start..end)?);
                return Some(());
            }
            if self.interrupt.read(offset.into(), bytes).is_some() {
                return Some(());
            }
            let bytes: &mut [u8; 4] = bytes.try_into().ok()?;
            *bytes = self.register(offset)?.to_le_bytes();
            Some(())
        });
        self.refused += u64::from(answer.is_none());
    }

    /// A write of the guest at an offset; gives the queue if it tells of something new in one.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Option<usize> {
        if self.interrupt.write(offset, bytes).is_some() {
            return None;
        }
        let value = bytes.try_into().map(u32::from_le_bytes).ok();
        let access = u32::try_from(offset).ok().zip(value);
        let notified = access.and_then(|(offset, value)| self.notified(offset, value));
        if notified.is_none() {
            let done = access.and_then(|(offset, value)| self.set(offset, value));
            self.refused += u64::from(done.is_none());
        }
        notified
    }

    fn notified(&self, offset: u32, value: u32) -> Option<usize> {
        let index = usize::try_from(value).ok()?;
        (offset == register::QUEUE_NOTIFY && index < self.queues.len()).then_some(index)
    }

    fn register(&self, offset: u32) -> Option<u32> {
        Some(match offset {
            register::MAGIC => MAGIC,
            register::VERSION => 2,
            register::DEVICE_ID => self.model.device_id,
            register::DEVICE_FEATURES => half(self.model.features, self.device_half),
            register::QUEUE_NUM_MAX => self.selected().map_or(0, |queue| queue.max_size().into()),
            register::QUEUE_READY => u32::from(self.selected().is_some_and(QueueT::ready)),
            register::STATUS => self.status,
            _ => return None,
        })
    }

    fn selected(&self) -> Option<&Queue> {
        self.queues.get(usize::try_from(self.queue_selected).ok()?)
    }

    fn set(&mut self, offset: u32, value: u32) -> Option<()> {
        match offset {
            register::DEVICE_FEATURES_SEL => self.device_half = value,
            register::DRIVER_FEATURES_SEL => self.driver_half = value,
            register::DRIVER_FEATURES if self.status & status::FEATURES_OK == 0 => {
                let shift = 32 * self.driver_half.min(2);
                let mask = u64::from(u32::MAX).checked_shl(shift).unwrap_or(0);
                let bits = u64::from(value).checked_shl(shift).unwrap_or(0);
                self.driver_features = self.driver_features & !mask | bits;
            }
            register::QUEUE_SEL => self.queue_selected = value,
            register::STATUS => self.set_status(value),
            _ => return self.set_queue(offset, value),
        }
        Some(())
    }

    fn set_status(&mut self, value: u32) {
        if value == 0 {
            self.queues.iter_mut().for_each(QueueT::reset);
            (self.status, self.driver_features, self.queue_selected) = (0, 0, 0);
            self.interrupt.0.store(0, Ordering::Release);
            return;
        }
        // Features that we do not have are not agreed to: the driver reads its bit back as 0.
        let has = |features| self.driver_features & features != 0;
        let agreed = has(feature::VERSION_1) && !has(!self.model.features);
        let not_agreed = if agreed { 0 } else { status::FEATURES_OK };
        self.status = value & !not_agreed;
        let event_idx = agreed && has(feature::EVENT_IDX);
        for queue in &mut self.queues {
            queue.set_event_idx(event_idx);
        }
    }

    /// A queue is set up after the features are, before the driver is ready, and not once it is ready itself.
    fn set_queue(&mut self, offset: u32, value: u32) -> Option<()> {
        let ready = status::FEATURES_OK | status::DRIVER_OK;
        (self.status & ready == status::FEATURES_OK).then_some(())?;
        let index = usize::try_from(self.queue_selected).ok()?;
        let queue = self.queues.get_mut(index)?;
        if queue.ready() && offset != register::QUEUE_READY {
            return None;
        }
        match offset {
            register::QUEUE_NUM => queue.try_set_size(u16::try_from(value).ok()?).ok()?,
            register::QUEUE_READY => queue.set_ready(value == 1),
            _ => {
                // The upper half of an address follows the lower.
                let (first, low, high) = if offset & 4 == 0 {
                    (offset, Some(value), None)
                } else {
                    (offset - 4, None, Some(value))
                };
                match first {
                    QUEUE_DESC => queue.set_desc_table_address(low, high),
                    QUEUE_DRIVER => queue.set_avail_ring_address(low, high),
                    QUEUE_DEVICE => queue.set_used_ring_address(low, high),
                    _ => return None,
                }
            }
        }
        Some(())
    }
}

/// A half of features: 0 the lower, 1 the upper, none beyond.
fn half(features: u64, which: u32) -> u32 {
    let shifted = features.checked_shr(which.saturating_mul(32)).unwrap_or(0);
    u32::try_from(shifted & u64::from(u32::MAX)).unwrap_or(0)
}

#[cfg(test)]
pub(in crate::device) mod test;
