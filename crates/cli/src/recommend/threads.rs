//! The search's work, done by as many threads as there are CPUs.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use haltwise_core::tune::Pool;

use crate::progress::{Progress, elapsed};

thread_local! {
    /// Number of threads that a caller on this thread may have; 0 for one for each CPU.
    static MOST: Cell<usize> = const { Cell::new(0) };
}

/// Does work whose searches have so many threads at most; 0 for one for each CPU.
pub(crate) fn at_most<T>(threads: usize, work: impl FnOnce() -> T) -> T {
    let before = MOST.replace(threads);
    let done = work();
    MOST.set(before);
    done
}

/// Threads, and a line that says how far they are.
#[derive(Debug)]
pub(crate) struct Threads {
    count: usize,
    progress: Mutex<Progress>,
}

impl Threads {
    /// One for each CPU that this process may use, unless the caller is to have fewer.
    pub(crate) fn new() -> Self {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let count = match MOST.get() {
            0 => cpus,
            most => most.min(cpus),
        };
        Self {
            count,
            progress: Mutex::new(Progress::start(None)),
        }
    }

    fn show(&self, what: &str, done: usize, count: usize) {
        // A thread that finds the line taken leaves it to the other.
        if let Ok(mut progress) = self.progress.try_lock() {
            progress.show(elapsed(), || format!("{what}: {done} of {count} parts"));
        }
    }
}

impl Pool for Threads {
    fn workers(&self) -> usize {
        self.count
    }

    fn each<T: Send>(&self, what: &str, count: usize, piece: impl Fn(usize) -> T + Sync) -> Vec<T> {
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = || {
            let mut results = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return results;
                }
                results.push((number, piece(number)));
                self.show(what, done.fetch_add(1, Ordering::Relaxed) + 1, count);
            }
        };
        let mut results = thread::scope(|scope| {
            let others: Vec<_> = (1..self.count.min(count))
                .map(|_| scope.spawn(work))
                .collect();
            let mut results = work();
            for other in others {
                match other.join() {
                    Ok(theirs) => results.extend(theirs),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            results
        });
        results.sort_by_key(|(number, _)| *number);
        results.into_iter().map(|(_, result)| result).collect()
    }
}
