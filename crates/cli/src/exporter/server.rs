//! The server of metrics: one thread, a few connections, each with one small request that must come soon.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use haltwise_host::clock;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use rustix::time::Timespec;

use super::address::{Address, Listener};
use super::exposition::Exposition;
use super::request::{self, Asked, LONGEST};
use crate::exit::Failure;
use crate::time::nanos;

/// Connections at a time; more wait in the kernel's queue.
const CONNECTIONS: usize = 16;

/// From the connection to the end of its answer.
const MOST_TIME: Duration = Duration::from_secs(5);

/// Between two looks at whether to end.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct Server {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Begins to serve. To be called when rights have been given up: threads inherit what is left.
    pub(crate) fn start(listener: Listener, exposition: Arc<Exposition>) -> Result<Self, Failure> {
        let ends = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&ends);
        let serve = move || {
            let mut serving = Serving {
                listener,
                exposition,
                connections: Vec::new(),
            };
            while !until.load(Ordering::Relaxed) {
                serving.turn();
            }
            serving.end();
        };
        let thread = std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(serve)
            .context("start the thread that serves metrics")?;
        Ok(Self {
            ends,
            thread: Some(thread),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            drop(thread.join());
        }
    }
}

struct Serving {
    listener: Listener,
    exposition: Arc<Exposition>,
    connections: Vec<Connection>,
}

impl Serving {
    fn turn(&mut self) {
        // A connection without a request keeps no other client out.
        let is_full = self.connections.len() >= CONNECTIONS && self.oldest_idle().is_none();
        let mut waits: Vec<PollFd<'_>> = Vec::with_capacity(self.connections.len() + 1);
        for connection in &self.connections {
            waits.push(PollFd::from_borrowed_fd(
                connection.stream.as_fd(),
                connection.waits_for(),
            ));
        }
        if !is_full {
            waits.push(PollFd::from_borrowed_fd(
                self.listener.socket.as_fd(),
                PollFlags::IN,
            ));
        }
        let timeout = Timespec::try_from(LOOK).ok();
        if poll(&mut waits, timeout.as_ref()).is_err() {
            // Interrupted by a signal; anything else must not become a busy loop.
            std::thread::sleep(Duration::from_millis(10));
            return;
        }
        let came: Vec<bool> = waits.iter().map(|it| !it.revents().is_empty()).collect();
        drop(waits);
        let now_ns = clock::monotonic_ns();
        let exposition = &self.exposition;
        let mut came_of_each = came.iter().copied();
        self.connections.retain_mut(|connection| {
            let came = came_of_each.next().unwrap_or(false);
            let goes_on = if came {
                connection.turn(exposition).unwrap_or(false)
            } else {
                true
            };
            let is_late = goes_on && now_ns >= connection.until_ns;
            if is_late {
                exposition.refused();
            }
            goes_on && !is_late
        });
        if !is_full && came.last() == Some(&true) {
            self.make_room();
            self.accept(now_ns);
        }
    }

    fn oldest_idle(&self) -> Option<usize> {
        self.connections.iter().position(|it| it.answer.is_empty())
    }

    /// Ends the oldest connection whose request has not come, where there are too many.
    fn make_room(&mut self) {
        if self.connections.len() < CONNECTIONS {
            return;
        }
        if let Some(oldest) = self.oldest_idle() {
            drop(self.connections.remove(oldest));
            self.exposition.refused();
        }
    }

    fn accept(&mut self, now_ns: u64) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        match accept_with(&self.listener.socket, flags) {
            Ok(stream) => self.connections.push(Connection {
                stream: File::from(stream),
                until_ns: now_ns.saturating_add(nanos(MOST_TIME)),
                request: Vec::new(),
                answer: Vec::new(),
                written: 0,
            }),
            Err(Errno::WOULDBLOCK | Errno::INTR) => {}
            // Out of descriptors: the connection stays in the queue and would be reported at once again.
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }

    fn end(self) {
        if let Address::Unix(path) = &self.listener.address {
            // Best effort: the next one to listen replaces it.
            let _ = rustix::fs::unlink(path);
        }
    }
}

struct Connection {
    /// A socket, read and written as a file is: SIGPIPE is ignored in every Rust program.
    stream: File,
    until_ns: u64,
    request: Vec<u8>,
    answer: Vec<u8>,
    written: usize,
}

impl Connection {
    fn waits_for(&self) -> PollFlags {
        if self.answer.is_empty() {
            PollFlags::IN
        } else {
            PollFlags::OUT
        }
    }

    fn turn(&mut self, exposition: &Exposition) -> io::Result<bool> {
        if self.answer.is_empty() && !self.reads(exposition)? {
            return Ok(false);
        }
        while self.written < self.answer.len() {
            match self.stream.write(&self.answer[self.written..]) {
                Ok(0) => return Ok(false),
                Ok(count) => self.written += count,
                Err(error) if is_later(&error) => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        Ok(self.answer.is_empty())
    }

    /// Reads until the request is whole; false if the other end has gone.
    fn reads(&mut self, exposition: &Exposition) -> io::Result<bool> {
        let mut bytes = [0; 1024];
        loop {
            let count = match self.stream.read(&mut bytes) {
                Ok(0) => return Ok(false),
                Ok(count) => count,
                Err(error) if is_later(&error) => return Ok(true),
                Err(error) => return Err(error),
            };
            let room = LONGEST.saturating_sub(self.request.len());
            self.request.extend_from_slice(&bytes[..count.min(room)]);
            if let Some(asked) = request::read(&self.request) {
                if let Asked::Refused(_) = asked {
                    exposition.refused();
                }
                self.answer = request::answer(asked, |format| exposition.render(format));
                return Ok(true);
            }
        }
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}
