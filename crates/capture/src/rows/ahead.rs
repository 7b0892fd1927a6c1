//! Decoding on one CPU while another works on what was decoded before.

use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};

use super::Rows;
use crate::error::CaptureReadError;

impl<T: Send + 'static> Rows<T> {
    /// The same rows, decoded by a thread of their own while the caller is busy with earlier ones.
    ///
    /// Where no thread can be made they are decoded here, as the caller asks.
    pub fn ahead(self) -> Ahead<T> {
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
        let source = match thread.spawn(decode) {
            Ok(thread) => match hand.send(self) {
                Ok(()) => Source::Thread {
                    batches: Some(batches),
                    thread: Some(thread),
                },
                Err(unsent) => Source::Here(unsent.0),
            },
            Err(_) => Source::Here(self),
        };
        Ahead {
            source,
            batch: Vec::new().into_iter(),
        }
    }
}

/// Batches that wait to be taken, at most: a few megabytes each.
const AHEAD: usize = 3;

/// Rows that are decoded ahead: see [`Rows::ahead`]. Stops after the first error.
#[derive(Debug)]
pub struct Ahead<T> {
    source: Source<T>,
    batch: std::vec::IntoIter<T>,
}

type Batch<T> = Result<Vec<T>, CaptureReadError>;

#[derive(Debug)]
enum Source<T> {
    /// `None` only while this is dropped.
    Thread {
        batches: Option<Receiver<Batch<T>>>,
        thread: Option<JoinHandle<()>>,
    },
    Here(Rows<T>),
}

impl<T> Source<T> {
    fn next_batch(&mut self) -> Option<Batch<T>> {
        match self {
            Self::Thread { batches, thread } => batches.as_ref()?.recv().ok().or_else(|| {
                // The end; a panic of the decoding thread is not the end of the table.
                if let Some(Err(panic)) = thread.take().map(JoinHandle::join) {
                    std::panic::resume_unwind(panic);
                }
                None
            }),
            Self::Here(rows) => rows.next_batch(),
        }
    }
}

impl<T> Drop for Source<T> {
    fn drop(&mut self) {
        if let Self::Thread { batches, thread } = self {
            drop(batches.take());
            // With nobody to take its batches it ends at the next.
            if let Some(thread) = thread.take() {
                let _ = thread.join();
            }
        }
    }
}

impl<T> Iterator for Ahead<T> {
    type Item = Result<T, CaptureReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(row) = self.batch.next() {
                return Some(Ok(row));
            }
            match self.source.next_batch()? {
                Ok(rows) => self.batch = rows.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
