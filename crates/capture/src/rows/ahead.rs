//! Decoding on one CPU while another works on what was decoded before.

use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};

use super::{Batch, Rows};

impl<T: Send + 'static> Rows<T> {
    /// The same rows, decoded by a thread of their own while the caller is busy with earlier ones.
    ///
    /// Where no thread can be made they are decoded here, as the caller asks.
    #[must_use]
    pub fn ahead(self) -> Self {
        let (sender, batches) = sync_channel(AHEAD);
        let (hand, own) = sync_channel::<Self>(1);
        let decode = move || {
            let Ok(mut rows) = own.recv() else { return };
            while let Some(batch) = rows.next_batch() {
                if sender.send(batch).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("decode".to_owned());
        let Ok(thread) = thread.spawn(decode) else {
            return self;
        };
        if let Err(unsent) = hand.send(self) {
            return unsent.0;
        }
        let mut decoding = Decoding {
            batches: Some(batches),
            thread: Some(thread),
        };
        Self::new(move || decoding.next_batch())
    }
}

/// Batches that wait to be taken, at most: a few megabytes each.
const AHEAD: usize = 3;

/// A thread that decodes, and what it gives. Both are `None` only while this is dropped.
struct Decoding<T> {
    batches: Option<Receiver<Batch<T>>>,
    thread: Option<JoinHandle<()>>,
}

impl<T> Decoding<T> {
    fn next_batch(&mut self) -> Option<Batch<T>> {
        self.batches.as_ref()?.recv().ok().or_else(|| {
            // The end; a panic of the decoding thread is not the end of the table.
            if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
                std::panic::resume_unwind(panic);
            }
            None
        })
    }
}

impl<T> Drop for Decoding<T> {
    fn drop(&mut self) {
        drop(self.batches.take());
        // The thread ends when it cannot hand on the next batch.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
