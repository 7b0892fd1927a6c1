//! Part of one halt that a replay takes.

use super::latency::{CLASSES, Table, class_of};
use super::overrun::Overrun;
use crate::event::{Halt, WakeSource};

/// One halt, as far as a replay is concerned. Times in nanoseconds. A search holds millions: 32 bytes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    pub start_ns: u64,
    /// From there to the wake event.
    pub gap_ns: u64,
    /// From the wake event until it ran, as recorded; 0 if it did not wait.
    pub latency_ns: u64,
    /// Where a cut poll stopped, which is within a window of 32 bits; [`u32::MAX`] where none was cut.
    pub(super) cut_ns: u32,
    /// How long it slept, by class; [`u8::MAX`] where that is not known.
    pub(super) slept_class: u8,
    pub wake: WakeSource,
    pub(super) facts: u8,
}

/// Facts of a sample, a bit each: KVM did not count the wake-up as valid.
pub(super) const INVALID: u8 = 1;

/// The gap had to be guessed: the wake-up latency was not recorded.
const GAP_GUESSED: u8 = 2;

/// Its wake-up was pending when it began: it does not sleep, whatever the window.
pub(super) const PENDING: u8 = 4;

/// KVM looks for a wake-up once more on its way to sleep (`kvm_vcpu_check_block`), some hundred ns after the halt
/// began. Assumed, not measured: texts have such halts of 210 and 354 ns.
const PENDING_NS: u64 = 500;

/// Whether a halt ended at KVM's first look: it neither slept nor polled, or not for longer than it takes to sleep.
fn is_pending(halt: &Halt) -> bool {
    !halt.waited && (halt.poll_ns == Some(0) || halt.halt_ns <= PENDING_NS)
}

impl Sample {
    /// Takes what matters out of a halt. `turn` is its number, for [`Table::at`].
    pub fn new(halt: &Halt, table: &Table, turn: u64) -> Self {
        let (mut sample, owed) = Self::without_table(halt);
        if let Some(class) = owed {
            sample.settle(table.at(class, turn).0);
        }
        sample
    }

    /// The same before there is a table. Where it takes a latency from there, that is left at 0, and the
    /// class of its sleep comes with it: see [`Self::settle`].
    pub fn without_table(halt: &Halt) -> (Self, Option<usize>) {
        let polled_ns = polled_ns(halt);
        let gap_guessed = halt.waited && halt.wake_latency_ns.is_none();
        let latency_ns = halt.wake_latency_ns.unwrap_or(0);
        let gap_ns = halt.halt_ns.saturating_sub(latency_ns);
        let slept_ns = gap_ns.saturating_sub(polled_ns);
        let sample = Self {
            start_ns: halt.start_ns,
            gap_ns,
            latency_ns: latency_ns.min(halt.halt_ns),
            cut_ns: if halt.is_preempted() {
                u32::try_from(polled_ns)
                    .unwrap_or(u32::MAX)
                    .min(u32::MAX - 1)
            } else {
                u32::MAX
            },
            slept_class: if halt.waited && !gap_guessed {
                short_class(slept_ns)
            } else {
                u8::MAX
            },
            wake: halt.wake,
            facts: (u8::from(!halt.valid) * INVALID)
                | (u8::from(gap_guessed) * GAP_GUESSED)
                | (u8::from(is_pending(halt)) * PENDING),
        };
        (sample, gap_guessed.then(|| class_of(slept_ns)))
    }

    /// The whole halt as recorded.
    pub fn halt_ns(&self) -> u64 {
        self.gap_ns + self.latency_ns
    }

    /// The class of its sleep, for which its own latency holds; [`CLASSES`] where that is not known.
    pub fn slept_class(&self) -> usize {
        usize::from(self.slept_class).min(CLASSES)
    }

    /// Where a cut poll stopped; [`u64::MAX`] where none was cut.
    pub fn cut_ns(&self) -> u64 {
        match self.cut_ns {
            u32::MAX => u64::MAX,
            ns => ns.into(),
        }
    }

    /// KVM counted the wake-up as valid.
    pub fn is_valid(&self) -> bool {
        self.facts & INVALID == 0
    }

    pub fn is_gap_guessed(&self) -> bool {
        self.facts & GAP_GUESSED != 0
    }

    /// Up to which time after its window it does not sleep in the host. What was cut was not interrupted by its
    /// wake until then, and slept.
    pub fn overrun(&self, table: &Table) -> Overrun {
        if self.facts & PENDING != 0 {
            Overrun::LONGEST
        } else if self.cut_ns == u32::MAX {
            table.overrun(self.wake)
        } else {
            Overrun::default()
        }
    }

    /// Gives the latency that it lacked, in nanoseconds.
    pub fn settle(&mut self, latency_ns: u64) {
        let halt_ns = self.halt_ns();
        self.gap_ns = halt_ns.saturating_sub(latency_ns);
        self.latency_ns = latency_ns.min(halt_ns);
    }
}

pub(super) fn short_class(ns: u64) -> u8 {
    u8::try_from(class_of(ns)).unwrap_or(u8::MAX)
}

/// Time polled, in nanoseconds; where that was not recorded, the window in force.
pub fn polled_ns(halt: &Halt) -> u64 {
    halt.poll_ns
        .unwrap_or_else(|| halt.window_ns.map_or(0, u64::from).min(halt.halt_ns))
}

/// How long a halt slept and how long it took to wake, in nanoseconds, where that is known.
pub fn sleep_and_latency_ns(halt: &Halt) -> Option<(u64, u64)> {
    let latency_ns = halt.wake_latency_ns.filter(|_| halt.waited)?;
    let gap_ns = halt.halt_ns.saturating_sub(latency_ns);
    Some((gap_ns.saturating_sub(polled_ns(halt)), latency_ns))
}
