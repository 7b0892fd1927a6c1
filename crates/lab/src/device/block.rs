//! A virtio block device on a file, served inside the vCPU's exit, or by a thread that an eventfd wakes.
//!
//! Source: Virtual I/O Device (VIRTIO) 1.2, section 5.2. A request is a chain: a header of 16 bytes, the
//! data, a byte of status. Requests that are malformed, too long or beyond the disk's end are answered with
//! an error where there is room for one, and counted; the file is never touched by them.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use virtio_queue::{DescriptorChain, Queue, QueueT, Reader, Writer};
use vm_memory::GuestMemoryMmap;

use super::virtio::{Model, Transport, feature};
use super::{Devices, Shared};
use crate::clock;
use crate::event::Event;
use crate::memory::MMIO;

/// Bytes of a sector.
pub const SECTOR: u64 = 512;
/// Entries of the queue.
pub const ENTRIES: u16 = 16;
/// The device's number.
const BLOCK_ID: u32 = 2;
/// Data of a request: more is refused.
const LONGEST: usize = 1 << 16;

/// `VIRTIO_BLK_T_IN`: read.
pub const READ: u32 = 0;
/// `VIRTIO_BLK_T_OUT`: write.
pub const WRITE: u32 = 1;

const OK: u8 = 0;
const IOERR: u8 = 1;
const UNSUPPORTED: u8 = 2;

/// What was asked of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Served {
    /// Requests done.
    pub done: u64,
    /// Requests refused: malformed, too long, beyond the end, of an unknown kind.
    pub refused: u64,
    /// Requests that the file failed at.
    pub failed: u64,
}

/// A disk on a file.
#[derive(Debug)]
pub struct Disk {
    file: File,
    sectors: u64,
    /// What was asked of it.
    pub served: Served,
}

/// A request that cannot be done, and the status for it.
#[derive(Debug)]
struct Refused(u8);

impl Disk {
    /// Of so many sectors.
    pub fn new(file: File, sectors: u64) -> Self {
        Self {
            file,
            sectors,
            served: Served::default(),
        }
    }

    /// Serves what is in the queue, at most as much as it can hold; says how many requests that were.
    pub fn serve(&mut self, queue: &mut Queue, memory: &GuestMemoryMmap<()>) -> u64 {
        let mut served = 0;
        for _ in 0..queue.size() {
            let Some(chain) = queue.pop_descriptor_chain(memory) else {
                break;
            };
            let head = chain.head_index();
            let written = self.request(chain, memory).unwrap_or_else(|| {
                self.served.refused += 1;
                0
            });
            // A ring that went away meanwhile is the guest's own loss.
            let _used = queue.add_used(memory, head, written);
            served += 1;
        }
        served
    }

    /// Does one request; gives the bytes written to the guest, or `None` if there is no room for a status.
    fn request(
        &mut self,
        chain: DescriptorChain<&GuestMemoryMmap<()>>,
        memory: &GuestMemoryMmap<()>,
    ) -> Option<u32> {
        let mut reader: Reader<'_, ()> = chain.clone().reader(memory).ok()?;
        let mut writer: Writer<'_, ()> = chain.writer(memory).ok()?;
        let data = writer.available_bytes().checked_sub(1)?;
        let mut last = writer.split_at(data).ok()?;
        let status = match self.transfer(&mut reader, &mut writer) {
            Ok(()) => {
                self.served.done += 1;
                OK
            }
            Err(Refused(status)) => {
                self.served.refused += 1;
                status
            }
        };
        last.write_all(&[status]).ok()?;
        u32::try_from(writer.bytes_written() + 1).ok()
    }

    fn transfer(
        &mut self,
        from: &mut Reader<'_, ()>,
        to: &mut Writer<'_, ()>,
    ) -> Result<(), Refused> {
        let mut header = [0; 16];
        from.read_exact(&mut header).map_err(|_| Refused(IOERR))?;
        let [kind, _, sector @ ..] = header.as_chunks::<4>().0 else {
            return Err(Refused(IOERR));
        };
        let sector = sector.iter().rev();
        let sector = sector.fold(0, |sector, word| {
            sector << 32 | u64::from(u32::from_le_bytes(*word))
        });
        let kind = u32::from_le_bytes(*kind);
        let length = match kind {
            READ => to.available_bytes(),
            WRITE => from.available_bytes(),
            _ => return Err(Refused(UNSUPPORTED)),
        };
        let at = self.place(sector, length).ok_or(Refused(IOERR))?;
        let mut bytes = vec![0; length];
        let mut copy = || -> io::Result<()> {
            if kind == READ {
                self.file.read_exact_at(&mut bytes, at)?;
                to.write_all(&bytes)
            } else {
                from.read_exact(&mut bytes)?;
                self.file.write_all_at(&bytes, at)
            }
        };
        copy().map_err(|_| {
            self.served.failed += 1;
            Refused(IOERR)
        })
    }

    /// Where so many bytes lie in the file; `None` unless they are whole sectors of the disk.
    fn place(&self, sector: u64, length: usize) -> Option<u64> {
        let bytes = u64::try_from(length).ok()?;
        let end = sector.checked_add(bytes / SECTOR)?;
        let whole = length > 0 && length <= LONGEST && bytes.is_multiple_of(SECTOR);
        (whole && end <= self.sectors).then_some(sector * SECTOR)
    }
}

/// A disk behind registers in a guest's memory.
#[derive(Debug)]
pub struct BlockDevice {
    /// Registers and queue.
    pub transport: Transport,
    /// The disk.
    pub disk: Disk,
    /// Time spent serving, from taking a request to using it.
    pub serving_ns: u64,
    memory: GuestMemoryMmap<()>,
}

impl BlockDevice {
    /// Of a disk, in a guest with that memory.
    pub fn new(disk: Disk, memory: GuestMemoryMmap<()>) -> Result<Self, virtio_queue::Error> {
        let model = Model {
            device_id: BLOCK_ID,
            features: feature::VERSION_1,
            config: disk.sectors.to_le_bytes().to_vec(),
        };
        Ok(Self {
            transport: Transport::new(model, &[ENTRIES])?,
            disk,
            serving_ns: 0,
            memory,
        })
    }

    /// Serves what is in the queue, if the driver is ready.
    pub fn serve(&mut self) -> u64 {
        let before_ns = clock::now_ns();
        let queue = self.transport.queue(0, &self.memory);
        let served = queue.map_or(0, |queue| self.disk.serve(queue, &self.memory));
        self.serving_ns += clock::now_ns().saturating_sub(before_ns);
        served
    }
}

/// Who serves requests.
#[derive(Debug)]
pub enum Server {
    /// The vCPU's thread, before it goes on.
    Exit,
    /// A worker, which this wakes.
    Worker(Arc<Event>),
}

/// The device at [`MMIO`], as the vCPU's exits see it.
#[derive(Debug)]
pub struct BlockBoard {
    /// The device.
    pub device: Shared<BlockDevice>,
    /// Who serves it.
    pub server: Server,
}

impl Devices for BlockBoard {
    fn mmio_read(&mut self, address: u64, bytes: &mut [u8]) {
        let offset = address.wrapping_sub(MMIO.into());
        self.device.lock().transport.read(offset, bytes);
    }

    fn mmio_write(&mut self, address: u64, bytes: &[u8]) {
        let offset = address.wrapping_sub(MMIO.into());
        let mut device = self.device.lock();
        if device.transport.write(offset, bytes).is_none() {
            return;
        }
        match &self.server {
            Server::Exit => {
                device.serve();
            }
            Server::Worker(event) => {
                // A full eventfd wakes the worker all the same.
                let _signalled = event.signal();
            }
        }
    }
}

#[cfg(test)]
mod test;
