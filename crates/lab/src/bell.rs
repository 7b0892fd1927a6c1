//! A vCPU's interrupt lines where KVM has no irqchip: bits that a halt loop looks at, and a bell for it
//! while it sleeps.
//!
//! As in KVM's own wake-up, the thread that raises a line makes a system call only if the vCPU sleeps.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::clock;
use crate::event::Event;
use crate::guest;

#[derive(Debug)]
pub struct Bell {
    pending: AtomicU32,
    raised_ns: AtomicU64,
    sleeps: AtomicBool,
    event: Event,
}

/// Its bit: [`guest::WAKE`] has the lowest, and no vector of a line lies more than 31 above it.
fn bit(vector: u8) -> u32 {
    1 << (vector - guest::WAKE)
}

impl Bell {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            pending: AtomicU32::new(0),
            raised_ns: AtomicU64::new(0),
            sleeps: AtomicBool::new(false),
            event: Event::new()?,
        })
    }

    pub fn raise(&self, vector: u8) -> io::Result<()> {
        self.raised_ns.store(clock::now_ns(), Ordering::Relaxed);
        // In one total order with `sleep`: either it sees the bit, or we see that it sleeps.
        self.pending.fetch_or(bit(vector), Ordering::SeqCst);
        if self.sleeps.load(Ordering::SeqCst) {
            self.event.signal()?;
        }
        Ok(())
    }

    pub fn is_raised(&self) -> bool {
        self.pending.load(Ordering::Acquire) != 0
    }

    /// When a line was raised last, on `CLOCK_MONOTONIC`.
    pub fn raised_ns(&self) -> u64 {
        self.raised_ns.load(Ordering::Relaxed)
    }

    /// Takes the vector of the highest line that is raised, as a local APIC would.
    pub fn take(&self) -> Option<u8> {
        let highest = self.pending.load(Ordering::Acquire).checked_ilog2()?;
        let vector = guest::WAKE + u8::try_from(highest).ok()?;
        self.pending.fetch_and(!bit(vector), Ordering::AcqRel);
        Some(vector)
    }

    /// Sleeps until a line is raised or a signal comes; not at all if one is raised already. Says whether
    /// it slept.
    pub fn sleep(&self) -> io::Result<bool> {
        self.sleeps.store(true, Ordering::SeqCst);
        let slept = self.pending.load(Ordering::SeqCst) == 0;
        let result = if slept {
            clock::wait_readable(&self.event, None).map(|_| ())
        } else {
            Ok(())
        };
        self.sleeps.store(false, Ordering::SeqCst);
        self.event.take()?;
        result.map(|()| slept)
    }
}

#[derive(Debug)]
pub enum Line {
    Irqfd(Event),
    Bell(Arc<Bell>, u8),
}

impl Line {
    pub fn signal(&self) -> io::Result<()> {
        match self {
            Self::Irqfd(event) => event.signal(),
            Self::Bell(bell, vector) => bell.raise(*vector),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn stop_goes_before_wake_and_each_is_taken_once() {
        let bell = Bell::new().unwrap();
        assert_eq!(bell.take(), None);
        bell.raise(guest::WAKE).unwrap();
        bell.raise(guest::WAKE).unwrap();
        bell.raise(guest::STOP).unwrap();
        assert!(bell.is_raised() && bell.raised_ns() > 0);
        assert_eq!(bell.take(), Some(guest::STOP));
        assert_eq!(bell.take(), Some(guest::WAKE));
        assert_eq!(bell.take(), None);
    }

    #[test]
    fn no_wake_up_is_lost_whenever_it_comes() {
        let bell = Arc::new(Bell::new().unwrap());
        let ringer = Arc::clone(&bell);
        let thread = std::thread::spawn(move || {
            for _ in 0..2_000 {
                ringer.raise(guest::WAKE).unwrap();
                while ringer.is_raised() {
                    std::thread::yield_now();
                }
            }
        });
        for _ in 0..2_000 {
            while !bell.is_raised() {
                bell.sleep().unwrap();
            }
            assert_eq!(bell.take(), Some(guest::WAKE));
        }
        thread.join().unwrap();
    }
    #[test]
    fn a_raised_line_keeps_from_sleeping() {
        let bell = Bell::new().unwrap();
        bell.raise(guest::WAKE).unwrap();
        assert!(!bell.sleep().unwrap());
    }
}
