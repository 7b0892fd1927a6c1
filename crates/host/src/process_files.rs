//! Files of another process in `/proc`, read by a thread that is left behind where the process keeps it waiting.
//!
//! The kernel reads `fd`, `exe`, `maps`, `stat` and `syscall` of a process under the lock that its `execve()` holds
//! (`exec_update_lock`). A process that executes a program while it has a file of its own file system open, which never
//! answers, holds that lock until it is killed, and a reader waits for it deaf to signals.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use haltwise_core::ids::Pid;

use crate::root::{Root, RootError};

/// How long the files of a process are waited for, on a host with many tasks too.
const PATIENCE: Duration = Duration::from_secs(1);
/// The same once [`FEW`] processes keep their readers waiting.
const QUICK: Duration = Duration::from_millis(100);
const FEW: usize = 4;

/// Readers that are left behind: one for each process, and so many.
const LEFT_MOST: usize = 1_024;

const STACK: usize = 512 << 10;

type Look = Box<dyn FnOnce() + Send>;

struct Reader {
    looks: Sender<Look>,
    thread: JoinHandle<()>,
    tid: rustix::thread::Pid,
}

impl Reader {
    /// Whether it waits for the kernel, deaf to signals.
    fn stands_still(&self) -> bool {
        let tid = self.tid.as_raw_nonzero();
        let stat = Root::host().text(format!("proc/self/task/{tid}/stat"));
        stat.is_ok_and(|stat| stat.contains(") D "))
    }
}

/// Processes whose files a reader has waited for too long; none any more once that look is over.
static LEFT: Mutex<BTreeMap<Pid, Weak<()>>> = Mutex::new(BTreeMap::new());

thread_local! {
    /// This thread's own, which has its rights.
    static IDLE: Cell<Option<Reader>> = const { Cell::new(None) };
    static IS_READER: Cell<bool> = const { Cell::new(false) };
}

/// Result of a look at the files of a process.
///
/// # Errors
/// If the process keeps its reader waiting, now or since an earlier look, or no reader can be started.
pub(crate) fn look<T: Send + 'static>(
    root: &Root,
    pid: Pid,
    look: impl FnOnce(&Root) -> T + Send + 'static,
) -> Result<T, RootError> {
    if IS_READER.get() {
        return Ok(look(root));
    }
    let failed = |source| RootError::new(root.path(format!("proc/{pid}")), source);
    let hangs = || {
        let why = "the process keeps all readers of its files waiting";
        failed(io::Error::new(io::ErrorKind::TimedOut, why))
    };
    let patience = patience(pid).ok_or_else(hangs)?;
    let reader = IDLE.take().map_or_else(start, Ok).map_err(failed)?;
    let (found, gives) = channel();
    let (running, root) = (Arc::new(()), root.clone());
    let left = Arc::downgrade(&running);
    let work: Look = Box::new(move || {
        // The asker is gone where it took too long.
        found.send(look(&root)).ok();
        drop(running);
    });
    reader.looks.send(work).map_err(|_| hangs())?;
    let found = gives.recv_timeout(patience);
    // One that is at work has much to read.
    let slow = |_| (!reader.stands_still()).then(|| gives.recv_timeout(PATIENCE).ok());
    if let Some(found) = found.map_or_else(|it| slow(it).flatten(), Some) {
        IDLE.set(Some(reader));
        return Ok(found);
    }
    still_left().insert(pid, left);
    Err(hangs())
}

/// Ends this thread's reader; another look starts one. Gives how many are left behind.
pub(crate) fn end() -> usize {
    if let Some(Reader { looks, thread, .. }) = IDLE.take() {
        let tasks = || Root::host().list("proc/self/task").map_or(0, |it| it.len());
        let before = tasks();
        drop(looks);
        thread.join().ok();
        // A thread that has ended is listed for a moment more.
        for _ in 0..100 {
            if tasks() >= before {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
    still_left().len()
}

fn still_left() -> MutexGuard<'static, BTreeMap<Pid, Weak<()>>> {
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    left.retain(|_, running| running.strong_count() > 0);
    left
}

/// How long to wait for a process; `None` if it is not to be looked at.
fn patience(pid: Pid) -> Option<Duration> {
    let left = still_left();
    let may_look = !left.contains_key(&pid) && left.len() < LEFT_MOST;
    may_look.then_some(if left.len() < FEW { PATIENCE } else { QUICK })
}

fn start() -> io::Result<Reader> {
    let (looks, asked): (_, Receiver<Look>) = channel();
    let (tells, told) = channel();
    let reader = thread::Builder::new().name("haltwise-proc".to_owned());
    let thread = reader.stack_size(STACK).spawn(move || {
        IS_READER.set(true);
        tells.send(rustix::thread::gettid()).ok();
        for look in asked {
            look();
        }
    })?;
    let tid = told.recv().map_err(io::Error::other)?;
    Ok(Reader { looks, thread, tid })
}

#[cfg(test)]
mod test {
    use super::*;

    /// One that never answers is left out while its look lasts, and no other waits for it.
    #[test]
    fn a_process_that_keeps_its_reader_waiting_is_left_out() {
        let root = Root::at("/nowhere");
        let (hangs, other) = (Pid(u32::MAX), Pid(u32::MAX - 1));
        let (release, held) = channel::<()>();
        let refused = look(&root, hangs, move |_| held.recv().ok()).unwrap_err();
        assert!(refused.to_string().ends_with("/proc/4294967295"));
        assert!(!look(&root, other, |root| root.exists("proc")).unwrap());
        assert!(
            look(&root, hangs, |_| ()).is_err(),
            "its reader still waits"
        );
        drop(release);
        while look(&root, hangs, |_| ()).is_err() {
            thread::yield_now();
        }
        // A look within a look needs no other reader.
        let nested = look(&root, other, move |root| look(root, other, |_| 7).unwrap());
        assert_eq!(nested.unwrap(), 7);
    }
}
