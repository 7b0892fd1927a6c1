//! The thread that serves a network device: it looks in a loop, or is woken by events.

use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use haltwise_core::units::Nanos;

use crate::device::Shared;
use crate::device::net::{Link, NetDevice, Pass, RECEIVE, TRANSMIT};
use crate::host_thread::HostThread;
use haltwise_lab::clock;
use haltwise_lab::clock::ThreadUse;
use haltwise_lab::event::{Event, Flag};
use haltwise_lab::vm::Lines;

/// How it knows that there is something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// It looks, again and again, and never sleeps.
    Polls,
    /// It looks, and sleeps for so long before it looks again.
    Looks(Nanos),
    /// Notifications of the guest and frames on the link wake it.
    Events,
}

/// Objects that a worker serves, and objects that may wake the worker.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) device: Shared<NetDevice>,
    pub(super) link: Arc<Link>,
    pub(super) kicks: [Arc<Event>; 2],
    pub(super) lines: Arc<Lines>,
}

pub(super) fn start(served: Served, how: How, cpu: u32) -> anyhow::Result<HostThread<ThreadUse>> {
    HostThread::start("net-worker", Some(cpu), move |stop: &Flag| {
        clock::sleep_exactly()?;
        let before = ThreadUse::of_this_thread()?;
        match how {
            How::Polls => served.look(stop, None)?,
            How::Looks(pause) => served.look(stop, Some(pause))?,
            How::Events => served.wait(stop)?,
        }
        Ok(ThreadUse::of_this_thread()?.since(&before))
    })
}

impl Served {
    /// Looks again and again, with a pause after each time that there was nothing.
    fn look(&self, stop: &Flag, pause: Option<Nanos>) -> io::Result<()> {
        while !stop.is_raised() {
            let pass = self.device.lock().serve();
            self.interrupt(pass)?;
            if pass.frames > 0 {
                continue;
            }
            if pause.is_some() {
                clock::wait_readable(stop, pause)?;
            }
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// Sleeps until there is something, and serves all there is.
    fn wait(&self, stop: &Flag) -> io::Result<()> {
        let [received, transmitted] = &self.kicks;
        while !stop.is_raised() {
            let starved = self.settle(stop)?;
            // A link that is not empty would wake us for ever while the guest has no buffers for it.
            let link = if starved {
                stop.as_fd()
            } else {
                self.link.as_fd()
            };
            let files = [stop.as_fd(), received.as_fd(), transmitted.as_fd(), link];
            clock::wait_any(files, None)?;
            received.take()?;
            transmitted.take()?;
        }
        Ok(())
    }

    /// Serves until there is nothing more, and the driver will tell of what comes next. Says whether the guest has
    /// no buffers. A driver that claims to have more than there is gets one more look, and no other.
    fn settle(&self, stop: &Flag) -> io::Result<bool> {
        let mut armed = false;
        while !stop.is_raised() {
            let mut device = self.device.lock();
            let pass = device.serve();
            let quiet = pass.frames == 0;
            let mut more = false;
            if quiet && !armed {
                more = pass.starved && device.arm(RECEIVE);
                more |= device.arm(TRANSMIT);
            }
            drop(device);
            self.interrupt(pass)?;
            if quiet && !more {
                return Ok(pass.starved);
            }
            armed = quiet;
        }
        Ok(true)
    }

    fn interrupt(&self, pass: Pass) -> io::Result<()> {
        if pass.interrupt {
            self.lines.wake.signal()?;
        }
        Ok(())
    }
}
