//! A virtio network device between a guest's two queues and a link, served by the thread that it is given to.
//!
//! Source: Virtual I/O Device (VIRTIO) 1.2, section 5.1. A frame is a chain: a header of 12 bytes, which says
//! nothing as no offloads are offered, then the Ethernet frame. Chains that run in a circle, go the wrong way,
//! leave memory, are too short or too long are refused and counted: they are given back with nothing done, and
//! no byte of them goes to the link or comes from it. When guest and device tell each other of something new is
//! agreed by event indices (section 2.7.10): [`NetDevice::arm`] asks the driver to, [`Pass::interrupt`] is its own wish.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;

use virtio_queue::{DescriptorChain, Queue, QueueT, Reader, Writer};
use vm_memory::GuestMemoryMmap;

use super::virtio::{InterruptStatus, Model, Transport, feature};
use super::{Devices, Shared};
use haltwise_lab::event::Event;
use haltwise_lab::memory::MMIO;

/// Index of the queue whose buffers take what comes from the link.
pub const RECEIVE: usize = 0;
/// Index of the queue whose buffers go to the link.
pub const TRANSMIT: usize = 1;
pub const ENTRIES: u16 = 256;
/// Bytes before a frame: `virtio_net_hdr_v1`.
pub const HEADER: usize = 12;
pub const SHORTEST: usize = 14;
/// The longest frame: an Ethernet header and 1500 bytes.
pub const LONGEST: usize = 1514;
pub const MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 1];
/// `VIRTIO_NET_F_MAC`: the address is in the configuration.
pub const FEATURE_MAC: u64 = 1 << 5;
pub const FEATURES: u64 = FEATURE_MAC | feature::EVENT_IDX | feature::VERSION_1 | feature::IN_ORDER;
const NET_ID: u32 = 1;
/// Header of a frame to the guest: the frame is whole (`num_buffers` is 1), and all other fields are 0.
const TO_GUEST: [u8; HEADER] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];

/// One end of a pair of sockets that keeps frames apart, as a tap does; it never blocks.
#[derive(Debug)]
pub struct Link(UnixDatagram);

impl Link {
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = UnixDatagram::pair()?;
        one.set_nonblocking(true)?;
        other.set_nonblocking(true)?;
        Ok((Self(one), Self(other)))
    }

    /// Sends a frame; false if the link is full.
    pub fn send(&self, frame: &[u8]) -> io::Result<bool> {
        Ok(unless_blocked(self.0.send(frame))?.is_some())
    }

    /// Takes the next frame, cut off where `frame` ends; `None` if there is none.
    pub fn receive(&self, frame: &mut [u8]) -> io::Result<Option<usize>> {
        unless_blocked(self.0.recv(frame))
    }
}

fn unless_blocked(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        result => result.map(Some),
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Frames {
    pub done: u64,
    /// The guest's chain was not fit for one.
    pub refused: u64,
    /// They were none, the link was full or gone, or the guest had said that it has a buffer and had none.
    pub lost: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pass {
    /// Frames, or what was none, that were taken from the queue or the link.
    pub frames: u64,
    /// The driver wants to be interrupted for them.
    pub interrupt: bool,
    /// The guest has no buffer for what may be on the link.
    pub starved: bool,
}

impl Pass {
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            frames: self.frames + other.frames,
            interrupt: self.interrupt || other.interrupt,
            starved: self.starved || other.starved,
        }
    }
}

#[derive(Debug)]
pub struct NetDevice {
    pub transport: Transport,
    pub transmitted: Frames,
    pub received: Frames,
    link: Arc<Link>,
    memory: GuestMemoryMmap<()>,
    /// One byte more than a frame may have, to see that one has more.
    frame: [u8; LONGEST + 1],
}

impl NetDevice {
    /// On a link, in a guest with that memory.
    pub fn new(link: Arc<Link>, memory: GuestMemoryMmap<()>) -> Result<Self, virtio_queue::Error> {
        let model = Model {
            device_id: NET_ID,
            features: FEATURES,
            config: MAC.to_vec(),
        };
        Ok(Self {
            transport: Transport::new(model, &[ENTRIES; 2])?,
            transmitted: Frames::default(),
            received: Frames::default(),
            link,
            memory,
            frame: [0; LONGEST + 1],
        })
    }

    /// Serves both queues, each at most as much as it can hold.
    pub fn serve(&mut self) -> Pass {
        self.transmit().and(self.receive())
    }

    pub fn transmit(&mut self) -> Pass {
        let mut pass = Pass::default();
        let Some(queue) = self.transport.queue(TRANSMIT, &self.memory) else {
            return pass;
        };
        for _ in 0..queue.size() {
            let Some(chain) = queue.pop_descriptor_chain(&self.memory) else {
                break;
            };
            let head = chain.head_index();
            match from_guest(chain, &self.memory, &mut self.frame) {
                None => self.transmitted.refused += 1,
                Some(frame) => match self.link.send(frame) {
                    Ok(true) => self.transmitted.done += 1,
                    Ok(false) | Err(_) => self.transmitted.lost += 1,
                },
            }
            // A ring that went away meanwhile is the guest's own loss.
            let _used = queue.add_used(&self.memory, head, 0);
            pass.frames += 1;
        }
        pass.interrupt = pass.frames > 0 && wants_interrupt(queue, &self.memory);
        self.raise(pass)
    }

    /// Gives the guest what is on the link, as long as it has buffers.
    pub fn receive(&mut self) -> Pass {
        let mut pass = Pass::default();
        let Some(queue) = self.transport.queue(RECEIVE, &self.memory) else {
            pass.starved = true;
            return pass;
        };
        let mut used = false;
        for _ in 0..queue.size() {
            pass.starved = !has_buffer(queue, &self.memory);
            if pass.starved {
                break;
            }
            // A link that fails has nothing.
            let Ok(Some(length)) = self.link.receive(&mut self.frame) else {
                break;
            };
            pass.frames += 1;
            let is_frame = (SHORTEST..=LONGEST).contains(&length);
            let chain = is_frame.then(|| queue.pop_descriptor_chain(&self.memory));
            let Some(chain) = chain.flatten() else {
                self.received.lost += 1;
                continue;
            };
            let head = chain.head_index();
            let written = to_guest(chain, &self.memory, &self.frame[..length]);
            match written {
                Some(_) => self.received.done += 1,
                None => self.received.refused += 1,
            }
            let _used = queue.add_used(&self.memory, head, written.unwrap_or(0));
            used = true;
        }
        pass.interrupt = used && wants_interrupt(queue, &self.memory);
        self.raise(pass)
    }

    /// Asks the driver to tell of whatever is new in a queue from now on. True if something came before it
    /// was asked: then it will not tell of that.
    pub fn arm(&mut self, queue: usize) -> bool {
        let queue = self.transport.queue(queue, &self.memory);
        queue.is_some_and(|queue| queue.enable_notification(&self.memory).unwrap_or(false))
    }

    fn raise(&self, pass: Pass) -> Pass {
        if pass.interrupt {
            self.transport.interrupt.raise();
        }
        pass
    }
}

/// Whether the driver wants to hear of what was used since it was last asked.
fn wants_interrupt(queue: &mut Queue, memory: &GuestMemoryMmap<()>) -> bool {
    queue.needs_notification(memory).unwrap_or(true)
}

/// Whether the guest has a buffer in a queue, or says so.
fn has_buffer(queue: &Queue, memory: &GuestMemoryMmap<()>) -> bool {
    let offered = queue.avail_idx(memory, std::sync::atomic::Ordering::Acquire);
    offered.is_ok_and(|offered| offered.0 != queue.next_avail())
}

/// Whether a chain has an end, and all of it goes one way.
fn is_whole(chain: DescriptorChain<&GuestMemoryMmap<()>>, device_writes: bool) -> bool {
    let mut ended = false;
    for part in chain {
        if part.is_write_only() != device_writes {
            return false;
        }
        // A walk that is over at a part with a next one went in a circle, or out of the table.
        ended = !part.has_next();
    }
    ended
}

/// Copies the frame out of a chain, if it is one.
fn from_guest<'a>(
    chain: DescriptorChain<&GuestMemoryMmap<()>>,
    memory: &GuestMemoryMmap<()>,
    frame: &'a mut [u8; LONGEST + 1],
) -> Option<&'a [u8]> {
    is_whole(chain.clone(), false).then_some(())?;
    let mut reader: Reader<'_, ()> = chain.reader(memory).ok()?;
    let length = reader.available_bytes().checked_sub(HEADER)?;
    (SHORTEST..=LONGEST).contains(&length).then_some(())?;
    let mut header = [0; HEADER];
    reader.read_exact(&mut header).ok()?;
    // Flags and segmentation ask for offloads that were not offered.
    (header[..2] == [0, 0]).then_some(())?;
    let frame = &mut frame[..length];
    reader.read_exact(frame).ok()?;
    Some(frame)
}

/// Copies a frame into a chain that has room for all of it; gives the bytes written.
fn to_guest(
    chain: DescriptorChain<&GuestMemoryMmap<()>>,
    memory: &GuestMemoryMmap<()>,
    frame: &[u8],
) -> Option<u32> {
    is_whole(chain.clone(), true).then_some(())?;
    let mut writer: Writer<'_, ()> = chain.writer(memory).ok()?;
    (writer.available_bytes() >= HEADER + frame.len()).then_some(())?;
    writer.write_all(&TO_GUEST).ok()?;
    writer.write_all(frame).ok()?;
    u32::try_from(writer.bytes_written()).ok()
}

/// The device at [`MMIO`], as the vCPU's exits see it.
#[derive(Debug)]
pub struct NetBoard {
    pub device: Shared<NetDevice>,
    pub interrupt: Arc<InterruptStatus>,
    pub kicks: [Arc<Event>; 2],
}

impl Devices for NetBoard {
    fn mmio_read(&mut self, address: u64, bytes: &mut [u8]) {
        let offset = address.wrapping_sub(MMIO.into());
        if self.interrupt.read(offset, bytes).is_none() {
            self.device.lock().transport.read(offset, bytes);
        }
    }

    fn mmio_write(&mut self, address: u64, bytes: &[u8]) {
        let offset = address.wrapping_sub(MMIO.into());
        if self.interrupt.write(offset, bytes).is_some() {
            return;
        }
        let notified = self.device.lock().transport.write(offset, bytes);
        // A full eventfd wakes the worker all the same.
        let _signalled = notified.and_then(|queue| Some(self.kicks.get(queue)?.signal()));
    }
}

#[cfg(test)]
mod test;
