//! A virtio block device on a file, served inside the vCPU's exit, or by a thread that an eventfd wakes, which waits
//! for the file itself or leaves that to a [`ring`].
//!
//! Source: Virtual I/O Device (VIRTIO) 1.2, section 5.2. A request is a chain: a header of 16 bytes, the
//! data, a byte of status. Requests that are malformed, too long or beyond the disk's end are answered with
//! an error where there is room for one, and counted; the file is never touched by them.

pub mod ring;

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use virtio_queue::{DescriptorChain, QueueT, Reader, Writer};
use vm_memory::GuestMemoryMmap;

use super::virtio::{Model, Transport, feature};
use super::{Devices, Shared};
use haltwise_lab::clock;
use haltwise_lab::event::Event;
use haltwise_lab::memory::MMIO;

pub const SECTOR: u64 = 512;
pub const ENTRIES: u16 = 16;
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Served {
    pub done: u64,
    /// Requests refused: malformed, too long, beyond the end, of an unknown kind.
    pub refused: u64,
    pub failed: u64,
}

/// A guest's memory, as long as a request is under way.
type Memory = Arc<GuestMemoryMmap<()>>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    pub is_write: bool,
    pub at: u64,
    /// All that is written, or room for all that is read.
    pub bytes: Vec<u8>,
}

impl Transfer {
    /// Does it, from a byte of it on, and waits until it is done.
    pub fn run(&mut self, file: &File, from: usize) -> io::Result<()> {
        let at = self.at.saturating_add(from as u64);
        let bytes = self.bytes.get_mut(from..).unwrap_or_default();
        if self.is_write {
            file.write_all_at(bytes, at)
        } else {
            file.read_exact_at(bytes, at)
        }
    }
}

/// A request that was taken from the queue and waits for its transfer.
#[derive(Debug)]
pub struct Request {
    chain: DescriptorChain<Memory>,
    taken_ns: u64,
}

/// A request that cannot be done, and the status for it.
#[derive(Debug)]
struct Refused(u8);

#[derive(Debug)]
pub struct BlockDevice {
    pub transport: Transport,
    pub served: Served,
    /// Time spent serving, from taking each request to using it.
    pub serving_ns: u64,
    file: File,
    sectors: u64,
    memory: Memory,
}

impl BlockDevice {
    /// A disk of so many sectors on a file, in a guest with that memory.
    pub fn new(
        file: File,
        sectors: u64,
        memory: GuestMemoryMmap<()>,
    ) -> Result<Self, virtio_queue::Error> {
        let model = Model {
            device_id: BLOCK_ID,
            features: feature::VERSION_1,
            config: sectors.to_le_bytes().to_vec(),
        };
        Ok(Self {
            transport: Transport::new(model, &[ENTRIES])?,
            served: Served::default(),
            serving_ns: 0,
            file,
            sectors,
            memory: Arc::new(memory),
        })
    }

    /// Serves what is in the queue, at most as much as it can hold; says how many requests that were.
    pub fn serve(&mut self) -> u64 {
        let all = |served: Served| served.done + served.refused;
        let before = all(self.served);
        while all(self.served) - before < ENTRIES.into() {
            let Some((request, mut transfer)) = self.take() else {
                break;
            };
            let result = transfer.run(&self.file, 0);
            self.give_back(&request, &transfer, result.is_ok());
        }
        all(self.served) - before
    }

    /// Takes the next request that the file can do. Those before it that it cannot are answered, at most as many as
    /// the queue can hold.
    pub fn take(&mut self) -> Option<(Request, Transfer)> {
        for _ in 0..ENTRIES {
            let queue = self.transport.queue(0, &self.memory)?;
            let chain = queue.pop_descriptor_chain(Arc::clone(&self.memory))?;
            let request = Request {
                chain,
                taken_ns: clock::now_ns(),
            };
            match self.transfer(&request.chain) {
                Ok(transfer) => return Some((request, transfer)),
                Err(Refused(status)) => {
                    self.served.refused += 1;
                    let written = answer(&request.chain, &self.memory, &[], status);
                    self.used(&request, written.unwrap_or(0));
                }
            }
        }
        None
    }

    /// Gives a request back to the guest, and whether its transfer was done.
    pub fn give_back(&mut self, request: &Request, transfer: &Transfer, done: bool) {
        self.served.failed += u64::from(!done);
        let (data, status) = match (done, transfer.is_write) {
            (true, false) => (transfer.bytes.as_slice(), OK),
            (true, true) => (&[][..], OK),
            (false, _) => (&[][..], IOERR),
        };
        // The guest may have made something else of the chain meanwhile: then there is no room for an answer.
        let written = answer(&request.chain, &self.memory, data, status);
        if status == OK && written.is_some() {
            self.served.done += 1;
        } else {
            self.served.refused += 1;
        }
        self.used(request, written.unwrap_or(0));
    }

    fn used(&mut self, request: &Request, written: u32) {
        if let Some(queue) = self.transport.queue(0, &self.memory) {
            // A ring that went away meanwhile is the guest's own loss.
            let _used = queue.add_used(&*self.memory, request.chain.head_index(), written);
        }
        self.serving_ns += clock::now_ns().saturating_sub(request.taken_ns);
    }

    fn transfer(&self, chain: &DescriptorChain<Memory>) -> Result<Transfer, Refused> {
        let no_chain = |_| Refused(IOERR);
        let memory = &self.memory;
        let mut from: Reader<'_, ()> = chain.clone().reader(memory).map_err(no_chain)?;
        let to: Writer<'_, ()> = chain.clone().writer(memory).map_err(no_chain)?;
        let room = to.available_bytes().checked_sub(1).ok_or(Refused(IOERR))?;
        let mut header = [0; 16];
        from.read_exact(&mut header).map_err(|_| Refused(IOERR))?;
        let [kind, _, sector @ ..] = header.as_chunks::<4>().0 else {
            return Err(Refused(IOERR));
        };
        let sector = sector.iter().rev();
        let sector = sector.fold(0, |sector, word| {
            sector << 32 | u64::from(u32::from_le_bytes(*word))
        });
        let (is_write, length) = match u32::from_le_bytes(*kind) {
            READ => (false, room),
            WRITE => (true, from.available_bytes()),
            _ => return Err(Refused(UNSUPPORTED)),
        };
        let at = self.place(sector, length).ok_or(Refused(IOERR))?;
        let mut bytes = vec![0; length];
        if is_write {
            from.read_exact(&mut bytes).map_err(|_| Refused(IOERR))?;
        }
        Ok(Transfer {
            is_write,
            at,
            bytes,
        })
    }

    /// Where so many bytes lie in the file; `None` unless they are whole sectors of the disk.
    fn place(&self, sector: u64, length: usize) -> Option<u64> {
        let bytes = u64::try_from(length).ok()?;
        let end = sector.checked_add(bytes / SECTOR)?;
        let whole = length > 0 && length <= LONGEST && bytes.is_multiple_of(SECTOR);
        (whole && end <= self.sectors).then(|| sector * SECTOR)
    }
}

/// Writes data, which must fill all the room there is if there is any, and the status behind it. Gives the bytes
/// written, or `None` if there is no room.
fn answer(
    chain: &DescriptorChain<Memory>,
    memory: &Memory,
    data: &[u8],
    status: u8,
) -> Option<u32> {
    let mut writer: Writer<'_, ()> = chain.clone().writer(memory).ok()?;
    let room = writer.available_bytes().checked_sub(1)?;
    let mut last = writer.split_at(room).ok()?;
    (data.is_empty() || data.len() == room).then_some(())?;
    writer.write_all(data).ok()?;
    last.write_all(&[status]).ok()?;
    u32::try_from(data.len() + 1).ok()
}

#[derive(Debug)]
pub enum Server {
    /// The vCPU's thread, before it goes on.
    Exit,
    Worker(Arc<Event>),
}

/// The device at [`MMIO`], as the vCPU's exits see it.
#[derive(Debug)]
pub struct BlockBoard {
    pub device: Shared<BlockDevice>,
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
