//! The ring buffers that programs write, and a thread that empties them while their reader does something else.
//!
//! A ring holds a second of halts at most. Its reader looks for VMs, asks VMMs and waits for a disk as well; meanwhile the
//! thread moves records into memory, and does nothing else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use haltwise_core::recording::MOST_WAITING_BYTES;
use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};

use super::attach::explain;
use crate::collector::{CollectError, SOON};

/// A ring that holds a tenth of a second of a million halts a second.
const ROOMY: u32 = 8 << 20;
const PERIOD: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Ring {
    shared: Arc<Shared>,
    period: Duration,
    thread: Thread,
}

#[derive(Debug)]
enum Thread {
    None,
    /// With the next reading, when rights have been given up: it has those that its parent has then.
    Wanted,
    Runs(JoinHandle<()>),
}

#[derive(Debug)]
struct Shared {
    ring: Mutex<RingBuffer<'static>>,
    waiting: Arc<Mutex<Waiting>>,
    ends: AtomicBool,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<Vec<u8>>,
    short: Option<(usize, usize)>,
    most: u64,
}

impl Waiting {
    fn add(&mut self, map: usize, record: &[u8], size: usize) {
        match (record.get(..size), self.bytes.get_mut(map)) {
            (Some(record), Some(bytes)) => bytes.extend_from_slice(record),
            _ => self.short = Some((record.len(), size)),
        }
    }

    fn length(&self) -> u64 {
        self.bytes.iter().map(|bytes| bytes.len() as u64).sum()
    }

    fn is_full(&self) -> bool {
        self.length() >= MOST_WAITING_BYTES
    }
}

impl Ring {
    /// Maps ring buffers, each with the length of its records; the first has so many bytes.
    pub(super) fn map(maps: &[(&dyn MapCore, usize)], bytes: u32) -> Result<Self, CollectError> {
        let waiting = Arc::new(Mutex::new(Waiting {
            bytes: vec![Vec::new(); maps.len()],
            ..Waiting::default()
        }));
        let mut builder = RingBufferBuilder::new();
        for (index, &(map, size)) in maps.iter().enumerate() {
            let waiting = Arc::clone(&waiting);
            let keep = move |record: &[u8]| {
                locked(&waiting).add(index, record, size);
                0
            };
            builder.add(map, keep).map_err(explain("map the ring"))?;
        }
        let shared = Shared {
            ring: Mutex::new(builder.build().map_err(explain("map the ring"))?),
            waiting,
            ends: AtomicBool::new(false),
        };
        Ok(Self {
            shared: Arc::new(shared),
            period: if bytes < ROOMY { SOON } else { PERIOD },
            thread: Thread::None,
        })
    }

    pub(super) fn keep_empty(&mut self) {
        self.thread = Thread::Wanted;
    }

    fn start(&mut self) -> Result<(), CollectError> {
        let (shared, period) = (Arc::clone(&self.shared), self.period);
        let thread = std::thread::Builder::new().name("ring".to_owned());
        let started = thread.spawn(move || {
            while !shared.ends.load(Ordering::Relaxed) {
                shared.read_if_room();
                std::thread::park_timeout(period);
            }
        });
        let started = started.map_err(CollectError::failed("start the thread that reads the ring"));
        self.thread = Thread::Runs(started?);
        Ok(())
    }

    pub(super) fn take(&mut self) -> Result<Vec<Vec<u8>>, CollectError> {
        if matches!(self.thread, Thread::Wanted) {
            self.start()?;
        }
        self.shared.read()?;
        let mut waiting = locked(&self.shared.waiting);
        if let Some((got, expected)) = waiting.short {
            return Err(CollectError::Record { got, expected });
        }
        waiting.most = waiting.most.max(waiting.length());
        Ok(waiting.bytes.iter_mut().map(std::mem::take).collect())
    }

    pub(super) fn most_waiting_bytes(&self) -> Option<u64> {
        let runs = matches!(self.thread, Thread::Runs(_));
        runs.then(|| locked(&self.shared.waiting).most)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        if let Thread::Runs(thread) = std::mem::replace(&mut self.thread, Thread::None) {
            thread.thread().unpark();
            // A panic in it has been printed.
            drop(thread.join());
        }
    }
}

impl Shared {
    fn read(&self) -> Result<(), CollectError> {
        let read = locked(&self.ring).consume();
        read.map_err(explain("read the ring"))
    }

    /// An error shows when the reader takes records.
    fn read_if_room(&self) {
        // Where it is full, later records stay in the ring; when that is full too, the programs count them as lost.
        let is_full = locked(&self.waiting).is_full();
        if !is_full {
            drop(self.read());
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn records_wait_whole_up_to_a_limit_and_a_short_one_is_an_error() {
        let mut waiting = Waiting::default();
        waiting.bytes.resize(2, Vec::new());
        waiting.add(1, &[1, 2, 3, 4], 3);
        waiting.add(1, &[5, 6, 7], 3);
        assert_eq!(waiting.bytes, [vec![], vec![1, 2, 3, 5, 6, 7]]);
        let many = vec![0; usize::try_from(MOST_WAITING_BYTES).unwrap() - 7];
        waiting.add(0, &many, many.len());
        assert_eq!((waiting.is_full(), waiting.short), (false, None));
        waiting.add(0, &[0], 1);
        assert!(waiting.is_full());
        waiting.add(0, &[1, 2], 3);
        assert_eq!(waiting.short, Some((2, 3)));
    }
}
